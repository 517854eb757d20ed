"""Writes docs/api, the reference of every public name, a page for each room; `conf.py` calls it before each build.

What is public is read from the source: names at the top of a module without an underscore. Sphinx's autodoc fills in
signatures and docstrings.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

import heedful

DOCS: Final = Path(__file__).parent
PACKAGE: Final = DOCS.parent / "heedful"

ROOMS: Final[Mapping[str, str]] = {
    "heedful": "What scripts and notebooks call, and the errors that they may mend.",
    "tensors": "Tensors that flow between rooms: tokens, memories, positions.",
    "attention": "The mathematics of attention, on tensors alone: [attention on its own](../attention.md).",
    "blocks": "What models are made of: residuals, feed-forward networks, embeddings, stacks, recurrent cells.",
    "models": "Encoders, decoders and whole models; `interface` says what all of them promise.",
    "adapters": "What learns in the place of a model's weights: LoRA and bottlenecks: [adapters](../adapters.md).",
    "engines": "What computes a trained model: floating point, graphs, bytes, native code: [engines](../engines.md).",
    "architectures": "Families of models: the table of each in a recipe, and the function that builds it.",
    "generation": "Greedy search, sampling and beams over anything that is an engine.",
    "training": "The loop, optimizers, precision, schedules, processes; ignorant of models and of text.",
    "data": "Readers, tokenizers, corpora and batches; knows no model.",
    "localisation": "Files of translators and their placeholders: [translators' files](../localisation.md).",
    "metrics": "What answers are worth: values, intervals and tests.",
    "inspection": "Records of what a model attends to, and their pictures: [inspection](../inspection.md).",
    "retrieval": "An index of passages, and search in it: [search](../passages.md).",
    "lecture": "Figures of five lecture decks, and the small models behind them: [lectures](../lecture.md).",
    "recipes": "A run as data: sections, overrides, and what is wrong in a sentence: [the recipe](../recipe.md).",
    "runs": "A recipe bound to a folder: train, go on, load, compare, export.",
    "foreign": "Other people's weights and vocabularies: [what is read and written](../foreign.md).",
    "tasks": "What all tasks share. Each task has a page of its own.",
}
"""Each room of the reference and what it is for, in the order of the pages; the folders of `tasks` follow it."""
_SHORT: Final = 80
"""Characters of a value that is shown."""
ENTRY: Final = ("", "errors", "version")
"""The modules of the page `heedful`."""
LEFT_OUT: Final[Mapping[str, str]] = {
    "cli": "commands are told by their own --help",
    "__main__": "the command",
    "registry": "which tasks there are, for the rooms above",
    "characters": "which characters words are made of, and which nobody sees",
    "deprecation": "old public names, kept for one version",
    "files": "how files of folders are opened and read",
    "argument_checks": "how arguments of public functions are checked",
    "language_tags": "which tags name one language",
    "lazy_tensors": "tensors that are read, gathered or averaged one at a time",
    "compression": "compressed files as streams of bytes",
    "memory_limits": "how much memory and how many cores there are",
    "ray_cluster": "which Ray cluster commands work on",
    "fused_operators": "operators of training that models call themselves, in native code",
    "native": "whether the library of native code is here",
    "serving": "what may be asked is told by the server's own /docs",
    "bundled": "where recipes and studies lie",
    "atomic_io": "how files are written whole or not at all",
    "english_words": "what was probably meant",
}
"""Rooms that are no part of the reference, each with its reason."""


@dataclass(frozen=True)
class Member:
    """A public name, the directive that tells of it, and what is told here rather than by autodoc."""

    name: str
    directive: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """A module, by its name below heedful, what it is for, its public names and those that it hands on."""

    name: str
    about: str
    members: tuple[Member, ...]
    exports: tuple[str, ...] = ()

    @property
    def full(self) -> str:
        """With the package."""
        return f"heedful.{self.name}" if self.name else "heedful"


def modules() -> Mapping[str, Module]:
    """Every module of the package whose name, and those of its folders, have no underscore in front."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not any(part.startswith("_") for part in name.split(".")) or name in LEFT_OUT:
            found[name] = _module(name, ast.parse(path.read_text(encoding="utf-8")))
    return found


def rooms(known: Mapping[str, Module]) -> Mapping[str, list[Module]]:
    """The modules of each page, by the page's name."""
    pages: dict[str, list[Module]] = {room: [] for room in ROOMS}
    for name, module in known.items():
        page = _page(name)
        if page is not None:
            pages.setdefault(page, []).append(module)
    return pages


def _page(name: str) -> str | None:
    """The page of a module; None of one that is left out."""
    parts = name.split(".")
    if name in ENTRY:
        return "heedful"
    if parts[0] in LEFT_OUT:
        return None
    if parts[0] == "tasks" and len(parts) > 1 and (PACKAGE / "tasks" / parts[1]).is_dir():
        return f"tasks-{parts[1]}"
    return parts[0]


def _module(name: str, tree: ast.Module) -> Module:
    about = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
    return Module(name, about, tuple(_members(tree)), tuple(_exports(name, tree)))


def _exports(name: str, tree: ast.Module) -> Iterator[str]:
    """What `__all__` lists; that of heedful itself is known once it is imported."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield from ast.literal_eval(node.value) if name else [n for n in heedful.__all__ if not n.startswith("_")]


def _members(tree: ast.Module) -> Iterator[Member]:
    for node, behind in zip_longest(tree.body, tree.body[1:]):
        match node:
            case ast.ClassDef(name=name):
                shown = (":show-inheritance:",) if node.bases else ()
                found = Member(name, "autoexception" if name.endswith("Error") else "autoclass", shown)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if any(ast.unparse(each) == "overload" for each in node.decorator_list):
                    continue  # the last one, which has the docstring, stands for all
                found = Member(name, "autofunction")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if not _variable(
                node
            ):
                found = Member(name, "py:data", tuple(_data(node, behind)))
            case _:
                continue
        if not found.name.startswith("_"):
            yield found


def _variable(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether this is a variable of types, which says nothing by itself."""
    return isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in ("TypeVar", "ParamSpec", "NewType")


def _data(node: ast.Assign | ast.AnnAssign, behind: ast.stmt | None) -> Iterator[str]:
    """A constant's type, its value where that is short, and its docstring."""
    if isinstance(node, ast.AnnAssign) and (written := ast.unparse(node.annotation)) != "Final":
        yield f":type: {written.removeprefix('Final[').removesuffix(']') if written.startswith('Final[') else written}"
    if node.value is not None and len(value := ast.unparse(node.value)) <= _SHORT:
        yield f":value: {value}"
    match behind:
        case ast.Expr(value=ast.Constant(value=str(text))):
            yield from ("", *(escaped(line) for line in inspect.cleandoc(text).splitlines()))


def escaped(line: str) -> str:
    """A line of a docstring, without what reStructuredText alone would read as marks."""
    parts = re.split(r"(`[^`]*`)", line)
    for place in range(0, len(parts), 2):
        parts[place] = re.sub(r"[*|]|(?<=\w)_(?!\w)", lambda mark: f"\\{mark[0]}", parts[place])
    return "".join(parts)


def text(page: str, found: list[Module]) -> str:
    """A page of the reference as Markdown."""
    title = page.replace("tasks-", "tasks: ") if page.startswith("tasks-") else page
    about = ROOMS.get(page) or found[0].about
    parts = [f"# {title}\n\n{about}\n"]
    for module in found:
        if not module.members and not module.exports:
            continue
        parts.append(f"## `{module.full}`\n")
        parts.append("```{eval-rst}\n" + "\n".join(_directives(module)) + "```\n")
    return "\n".join(parts)


def _directives(module: Module) -> Iterator[str]:
    yield f".. automodule:: {module.full}\n   :no-members:\n"
    if module.exports:
        yield (
            "Names that can be had from here: "
            + ", ".join(f"`~{module.full}.{name}`" for name in module.exports)
            + ".\n"
        )
    yield f".. currentmodule:: {module.full}\n"
    for member in module.members:
        yield f".. {member.directive}:: {member.name}"
        yield "".join(f"   {line}\n" if line else "\n" for line in member.lines)


def write(folder: Path = DOCS / "api") -> list[str]:
    """Writes all pages, those that are as they were not anew, and gives their names."""
    folder.mkdir(exist_ok=True)
    pages = {page: text(page, found) for page, found in rooms(modules()).items()}
    for path in folder.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    for page, content in pages.items():
        path = folder / f"{page}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
    return list(pages)
