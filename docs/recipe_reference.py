"""Writes docs/recipe.md from the JSON Schema of recipes, so that it names every key there is.

python docs/recipe_reference.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heedful.recipes import reference
from heedful.recipes.load import json_schema
from heedful.recipes.recipe import get_recipe_class
from heedful.registry import list_tasks

Schema = Mapping[str, Any]
PAGE = Path(__file__).with_name("recipe.md")

INTRODUCTION = """\
<!-- Written by docs/recipe_reference.py; change the docstrings of heedful instead. -->

# The recipe

A recipe is a TOML file that says what differs from the defaults. Its first key is the task, `task = "translation"` if
none is given. This page lists every key of each task; what tasks share is listed where it comes first. What the tasks
are for is told by their own pages, which the [front page](index.md) lists.

- `heedful recipe KEY` tells what this page says of a key, as in `heedful recipe training.schedule.rate`.
- `heedful train recipe.toml --print-config` prints the recipe with all defaults filled in, and stops.
- Every key is also an option of `heedful train` and `heedful describe`: `--training.steps 2000`,
  `--model.positions.kind rotary`. `-` and `_` are the same in an option, `none` takes an optional value away, and a
  truth value may stand alone (`--training.tensorboard`).
- Unknown keys and values out of range are errors, and so are values of another type: `"4"` is no number.
- Paths in the file are counted from the folder of the file, paths in options from the current folder, and `output`
  always from the current folder.
- Where a table has several kinds, the key `kind` chooses one, and each kind has its own keys. The kind of
  `data.train` and its sisters follows from the other keys if it is not given; other tables have the default kind.

The same as a JSON Schema, for an editor that completes and checks TOML:

```sh
python -c "from heedful.recipes.load import json_schema; print(json_schema())" > recipe.schema.json
```
"""


def page() -> str:
    """The whole page as Markdown."""
    lines = [INTRODUCTION]
    told: dict[str, str] = {}
    for task in list_tasks():
        schema = json.loads(json_schema(task))
        lines.append(f"## Task `{task}`\n")
        if fitted := get_recipe_class(task).auto_keys:
            keys = ", ".join(f"`{key}`" for key in fitted)
            lines.append(
                "What is not given of these keys is chosen by the data and the time instead of the defaults below, "
                "those of the model where the recipe gives none of its sizes, those of training where it gives no "
                f"model or no schedule: {keys}.\n"
            )
        lines += _section("", schema, schema["$defs"], told=told, task=task)
    return "\n".join(lines)


def _section(
    path: str, schema: Schema, definitions: Mapping[str, Schema], *, told: dict[str, str], task: str
) -> Iterator[str]:
    """A table of the recipe, and the tables inside it; `told` says which kinds were listed before, and where."""
    kinds = [definitions[name] for name in reference.list_schema_tables(schema)] or [schema]
    yield f"{'###' if path.count('.') == 0 else '####'} {_title(path)}\n"
    if len(kinds) > 1:
        yield f"{_sentence(schema['description'])}\n"
    news = []
    for kind in kinds:
        default = reference.is_default(kind, schema.get("default")) if len(kinds) > 1 else None
        before = told.setdefault(kind["title"], task)
        if before != task:
            yield f"{_kind_name(kind, default=default)}as for task `{before}`.\n"
        else:
            news.append(kind)
            yield from _kind(kind, definitions, default=default)
    inside = {key: inner for kind in reversed(news) for key, inner in kind["properties"].items()}
    for key in dict.fromkeys(key for kind in news for key in kind["properties"]):
        inner = inside[key]
        if reference.list_schema_tables(inner):
            deeper = f"{path}.{key}" if path else key
            if isinstance(inner.get("additionalProperties"), dict):
                deeper += ".NAME"
            if deeper.endswith(("data.validation", "data.test")):
                continue
            yield from _section(deeper, inner, definitions, told=told, task=task)


def _kind_name(schema: Schema, *, default: bool | None) -> str:
    if default is None:
        return ""
    shown = " or ".join(f'`kind = "{kind}"`' for kind in reference.list_schema_kinds(schema))
    return f"**{shown}**{' (default)' if default else ''}: "


def _title(path: str) -> str:
    if not path:
        return "At the top"
    if path.endswith("data.train"):
        above = path.removesuffix("train")
        return ", ".join(f"`{above}{part}`" for part in ("train", "validation", "test"))
    return f"`{path}`" if "." in path else f"`[{path}]`"


def _kind(schema: Schema, definitions: Mapping[str, Schema], *, default: bool | None) -> Iterator[str]:
    """One kind of a table; `default` is None where there is no other."""
    about = " ".join(schema.get("description", "").split())
    yield f"{_kind_name(schema, default=default)}{about}\n"
    rows = [
        f"| `{key}` | {reference.describe_type(inner, definitions)} | {reference.describe_default(key, inner, schema)} "
        f"| {reference.describe_range(inner)} | {_cell(inner.get('description', 'there is only this kind so far'))} |"
        for key, inner in schema["properties"].items()
        if default is None or key != "kind" or "enum" in inner
    ]
    if rows:
        yield "\n".join(["| key | type | default | range | meaning |", "|---|---|---|---|---|", *rows, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
