"""Writes docs/recipes, a page for each recipe that comes with heedful, and the table of all; `conf.py` calls it.

What a recipe is stands in the recipe. What was measured of it stands in docs/recipe_facts.toml; nothing else is said.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heedful.bundled import list_recipes
from heedful.recipes.load import load_recipe

DOCS: Final = Path(__file__).parent
UNKNOWN: Final = "not measured"
GUIDES: Final[Mapping[str, str]] = {
    "translation": "translation.md",
    "language_modelling": "language-models.md",
    "pretraining": "bert.md",
    "classification": "fine-tuning.md",
    "tagging": "tagging.md",
    "spans": "fine-tuning.md",
    "multitask": "fine-tuning.md",
    "captioning": "captioning.md",
    "video": "video.md",
    "glimpses": "glimpses.md",
    "stories": "stories.md",
    "conversation": "conversation.md",
    "speech": "speech.md",
    "matching": "matching.md",
}
"""The page that tells of each task."""


@dataclass(frozen=True)
class Measured:
    """One training of a recipe: its score, and the rest where it is known."""

    score: str
    time: str = UNKNOWN
    seed: str = ""
    command: str = ""
    on: str = ""


@dataclass(frozen=True)
class Facts:
    """Where a recipe's data come from, and what was measured of it, as `source` tells too."""

    data: str
    source: str = ""
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True)
class Described:
    """A recipe, its comment, and the facts about it."""

    name: str
    about: str
    text: str
    task: str
    kind: str
    seed: int
    init: str
    facts: Facts


def facts(table: Mapping[str, Any]) -> Mapping[str, Facts]:
    """The facts of each recipe by its name; a source of data that is unknown is an error."""
    return {
        name: Facts(
            table["data"][given["data"]],
            given.get("source", ""),
            tuple(Measured(**each) for each in given.get("measured", [])),
        )
        for name, given in table["recipes"].items()
    }


def described() -> list[Described]:
    """All recipes in the order of their names."""
    known = facts(tomllib.loads((DOCS / "recipe_facts.toml").read_text(encoding="utf-8")))
    return [_described(name, item.path, known[name]) for name, item in list_recipes().items()]


def _described(name: str, path: Path, known: Facts) -> Described:
    text = path.read_text(encoding="utf-8")
    recipe = load_recipe(path)
    comment = [line.removeprefix("#").strip() for line in text.partition("\n\n")[0].splitlines()]
    first = " ".join(comment[: comment.index("")] if "" in comment else comment)
    model: Any = recipe.model
    kind = getattr(model, "kind", None) or getattr(getattr(model, "decoder", None), "kind", "")
    init = getattr(recipe, "init", None)
    written = re.search(r'^init = "(.+)"$', text, re.MULTILINE)
    return Described(name, first, text, recipe.task, kind, recipe.seed, written[1] if init and written else "", known)


def page(recipe: Described) -> str:
    """The page of one recipe."""
    run = f"runs/{recipe.name.rpartition('/')[2]}"
    up = "../" * (recipe.name.count("/") + 1)
    file = f"recipes/{recipe.name}.toml"
    rows = {
        "task": f"[`{recipe.task}`]({up}{GUIDES[recipe.task]})",
        "model": f"`{recipe.kind}`" if recipe.kind and not recipe.init else "",
        "begins with": f"`{recipe.init.lstrip('./')}`" if recipe.init else "",
        "data": recipe.facts.data.replace("](../", f"]({up}"),
    }
    parts = [f"# {recipe.name}\n\n{_sentence(recipe.about)}\n", "| | |\n|---|---|"]
    parts.append("".join(f"| {key} | {value} |\n" for key, value in rows.items() if value))
    parts.append(f"```sh\nheedful recipes {recipe.name}\nheedful train {file}\nheedful evaluate {run}\n```\n")
    parts.append("## Measured\n")
    parts += list(_measured(recipe, up)) or [f"Score and time: {UNKNOWN}.\n"]
    parts.append(f"## The recipe\n\n```toml\n{recipe.text}```\n")
    return "\n".join(parts)


def _measured(recipe: Described, up: str) -> Iterator[str]:
    for each in recipe.facts.measured:
        rows = {
            "score": each.score,
            "time": each.time,
            "seed": each.seed or str(recipe.seed),
            "with": each.on,
            "command": f"`{each.command or f'heedful train recipes/{recipe.name}.toml'}`",
            "from": f"[{recipe.facts.source.partition('#')[0].removesuffix('.md')}]({up}{recipe.facts.source})",
        }
        yield "| | |\n|---|---|\n" + "".join(f"| {key} | {value} |\n" for key, value in rows.items() if value)


def _sentence(text: str) -> str:
    """A comment's text, of which Markdown reads nothing as marks."""
    return re.sub(r"([*_<\[|])", r"\\\1", text)


def table(found: list[Described]) -> str:
    """All recipes as a table, and what Sphinx must know to lead to their pages."""
    rows = []
    for each in found:
        best = each.facts.measured[0] if each.facts.measured else Measured(UNKNOWN)
        score, time = map(_shortened, (best.score, best.time))
        rows.append(
            f"| [{each.name}](recipes/{each.name}.md) | {each.task} | {_sentence(each.about)} | {score} | {time} |"
        )
    head = "| recipe | task | what | score | time |\n|---|---|---|---|---|"
    tree = "\n".join(f"recipes/{each.name}" for each in found)
    return f"{head}\n" + "\n".join(rows) + f"\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


def _shortened(text: str) -> str:
    """What stands before the first aside."""
    return re.split(r"[,;] | \(", text)[0]


def write(folder: Path = DOCS / "recipes") -> str:
    """Writes all pages, those that are as they were not anew, and gives the table."""
    found = described()
    pages = {folder / f"{each.name}.md": page(each) for each in found}
    for path in folder.rglob("*.md"):
        if path not in pages:
            path.unlink()
    for path, content in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
    return table(found)
