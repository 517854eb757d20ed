"""Recipes and studies that come with the package: inside it if installed by pip, beside it in a checkout."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from heedful.english_words import add_article, closest_match
from heedful.errors import RecipeError

_PACKAGE = Path(__file__).parent


@dataclass(frozen=True)
class BundledFile:
    """Path and one-line description of a recipe or study."""

    path: Path
    description: str


def list_recipes() -> Mapping[str, BundledFile]:
    """Return all recipes by name, such as `road/bahdanau`."""
    folder = _find_folder("recipes")
    paths = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.toml")}
    return {name: BundledFile(path, _read_first_line(path).removeprefix("# ")) for name, path in sorted(paths.items())}


def list_studies() -> Mapping[str, BundledFile]:
    """Return all studies by name; modules without a `main` are left out."""
    files = {}
    for path in sorted(_find_folder("studies").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            files[path.stem] = BundledFile(path, (ast.get_docstring(tree) or "").partition("\n")[0])
    return files


def format_items(items: Mapping[str, BundledFile]) -> str:
    """Return a line for each item with name and description."""
    width = max(map(len, items))
    return "\n".join(f"{name:<{width}}  {item.description}" for name, item in items.items())


def get_item(name: str, items: Mapping[str, BundledFile], *, noun: str) -> BundledFile:
    """Return the item with this name; raise `RecipeError` if there is none, with `noun` as the word for an item.

    Raises:
        RecipeError: there is none; `noun` is the word for an item in the message.
    """
    if name not in items:
        suggestion = closest_match(name, items)
        remedy = f"did you mean {suggestion}?" if suggestion else f"choose one of {', '.join(items)}"
        raise RecipeError(f"{name!r} is not {add_article(noun)}; {remedy}")
    return items[name]


def _find_folder(name: str) -> Path:
    """Return the installed folder of this name, or that of the checkout."""
    installed_folder = _PACKAGE / "share" / name
    return installed_folder if installed_folder.is_dir() else _PACKAGE.parent / name


def _read_first_line(path: Path) -> str:
    """Return the first line of a file."""
    with path.open(encoding="utf-8") as file:
        return file.readline().rstrip("\n")
