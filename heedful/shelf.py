"""The recipes and studies that come with the package: inside it where pip installed it, beside it in a checkout."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from heedful.errors import RecipeError
from heedful.words import near

_PACKAGE = Path(__file__).parent


@dataclass(frozen=True)
class Item:
    """A recipe or a study: where it is, and in one line what it is about."""

    path: Path
    about: str


def recipes() -> Mapping[str, Item]:
    """Every recipe by its name, such as `road/bahdanau`."""
    folder = _folder("recipes")
    found = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.toml")}
    return {name: Item(path, _first_line(path).removeprefix("# ")) for name, path in sorted(found.items())}


def studies() -> Mapping[str, Item]:
    """Every study by its name; files that several of them import are none."""
    found = {}
    for path in sorted(_folder("studies").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = Item(path, (ast.get_docstring(tree) or "").partition("\n")[0])
    return found


def listed(items: Mapping[str, Item]) -> str:
    """A line for each, its name and what it is about."""
    width = max(map(len, items))
    return "\n".join(f"{name:<{width}}  {item.about}" for name, item in items.items())


def pick(name: str, items: Mapping[str, Item], *, what: str) -> Item:
    """The one of that name.

    Raises:
        RecipeError: there is none.
    """
    if name not in items:
        meant = near(name, items)
        remedy = f"did you mean {meant}?" if meant else f"there are {', '.join(items)}"
        raise RecipeError(f"{name!r} is no {what}; {remedy}")
    return items[name]


def _folder(name: str) -> Path:
    installed = _PACKAGE / "share" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().rstrip("\n")
