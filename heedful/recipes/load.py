"""A whole run as data, and the one way from files and command lines to it."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from heedful.catalogue import DEFAULT, called, recipe_of, tasks
from heedful.errors import RecipeError
from heedful.files import LARGEST_RECIPE, NestedTooDeeplyError, parse_toml, read_bytes
from heedful.given_texts import require_path, text_list
from heedful.recipes import broken, toml
from heedful.recipes.overrides import anchored, merge, read_overrides
from heedful.recipes.problems import sentences
from heedful.recipes.recipe import FORMAT, Recipe
from heedful.recipes.section import Section, keys, member, members, named

_TYPED: Final = Path("-")
"""Standard input."""
_HANDED: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""What a shell writes for a pipe, as in <(command)."""
_STRANGE: Final = frozenset({"extra_forbidden", "missing", "union_tag_not_found", "union_tag_invalid"})
_ALWAYS: Final = frozenset({"task", "kind"})
"""Keys that say of which form a table is, whether they were given or not."""
_FEW: Final = 3
"""Tasks that a recipe without one may be for, at most, to be told."""

_LARGEST: Final = 2**48
"""Of the whole numbers in a recipe: products of them must have room in 64 bits."""
_MANY: Final = 200
"""Problems of a table that is a recipe of no task."""

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


def load_recipe(path: Path | str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a TOML file (`-` is standard input), changed by `overrides` such as `["--training.steps", "2000"]`.

    Paths in the file are counted from its folder, paths in `overrides` from the current one; `output`
    always from the current one. RecipeError with one sentence a line for everything that is wrong.
    """
    require_path(path, name="recipe")
    overrides = text_list(overrides, name="overrides")
    path = Path(path)
    content = _read(path)
    kind = _kind(content, place=str(path))
    changes = read_overrides(overrides)
    table = {"output": str(Path("runs") / ("recipe" if path == _TYPED else path.stem))} | anchored(
        content, kind, path.parent
    )
    merged = merge(table, changes, kind)
    _require_same_task(content, merged, place=str(path))
    return _validated(merged, kind, place=str(path), flags=[".".join(change.path) for change in changes])


def recipe_from(table: Mapping[str, Any], *, place: str) -> Recipe:
    """The recipe in a nest of plain values, as JSON and TOML hold them; a RecipeError names `place`."""
    return _validated(table, _kind(table, place=place), place=place, flags=())


def stored_recipe(table: Mapping[str, Any], *, place: str) -> Recipe:
    """`recipe_from` of the table that a run keeps, which may be older than some keys."""
    return recipe_from(completed(table, _kind(table, place=place)), place=place)


def given(table: Any) -> Any:
    """What was given of a recipe, or of a table in it, as plain values: what was left to defaults is left away."""
    if isinstance(table, Mapping):
        return {name: given(value) for name, value in table.items()}
    if not isinstance(table, Section):
        return table
    plain = table.model_dump(mode="json")
    named = table.model_fields_set | _ALWAYS
    values = {name: getattr(table, name) for name in type(table).model_fields if name in named and name in plain}
    return {
        name: given(value) if isinstance(value, Section | Mapping) else plain[name] for name, value in values.items()
    }


def left_open(recipe: Section, key: str) -> bool:
    """Whether there is such a key, dotted, that was not given."""
    return _left_open(recipe, key.split("."))


def filled(recipe: AnyRecipe, settings: Mapping[str, Any], *, place: str) -> AnyRecipe:
    """A recipe with some values, by their dotted keys, as if they had been given; a RecipeError names `place`."""
    table: dict[str, Any] = given(recipe)
    for key, value in settings.items():
        table = _with(table, key.split("."), value)
    found = recipe_from(table, place=place)
    assert isinstance(found, type(recipe))
    return found


def taking_up(recipe: Recipe, stored: Mapping[str, Any], *, begun: bool) -> Recipe:
    """A recipe as it goes on with the run that keeps `stored`: where neither says a word, all stays as it began.

    A run of which nothing was trained, `begun`, says no more than what was fitted to its data.
    """
    table = taken_up(recipe, stored, begun=begun)
    try:
        return recipe if table is None else recipe_from(table, place="")
    except RecipeError:  # it asks for something else, as the one who takes up the run will tell
        return recipe


def missing(
    table: Mapping[str, Any], kind: type[Section], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The path of each key that the recipe of a run lacks because it is older, and what was done before there was one.

    There is none in a recipe that was stored today.
    """
    for name, value in kind.formerly(table).items():
        if name not in table:
            yield (*above, name), value
    for path, annotation, value in _entries(table, kind):
        section = member(annotation, value) if members(annotation) and isinstance(value, Mapping) else None
        if section is not None:
            yield from missing(value, section, (*above, *path))


def completed(table: Mapping[str, Any], kind: type[Section]) -> dict[str, Any]:
    """The recipe of a run with what it meant by the keys that it lacks."""
    found = dict(table)
    for path, meant in missing(table, kind):
        found = _with(found, path, meant)
    return found


def taken_up(recipe: Section, stored: Mapping[str, Any], *, begun: bool = True) -> dict[str, Any] | None:
    """A recipe that is to go on with a run, as a table; None where that changes nothing.

    Keys that the run lacks, and that nobody sets, mean what they meant when it began; those that were fitted to its
    data keep their values.

    Args:
        recipe: as it was given.
        stored: that of the run, as it lies in its folder.
        begun: whether anything was trained there.
    """
    former = {path: meant for path, meant in missing(stored, type(recipe)) if begun and _left_open(recipe, path)}
    for key in recipe.fitted if isinstance(recipe, Recipe) and recipe.is_open else ():
        path = tuple(key.split("."))
        if _left_open(recipe, path) and (kept := _at(stored, path)) is not None:
            former[path] = kept
    if not former:
        return None
    table: dict[str, Any] = given(recipe)
    for path, meant in former.items():
        table = _with(table, path, meant)
    return table


def dump(recipe: Recipe) -> str:
    """The recipe as TOML, with what was left to defaults written out; loading it gives the same recipe."""
    return toml.document(recipe.model_dump(mode="json", exclude_none=True))


def json_schema(task: str = DEFAULT) -> str:
    """The JSON Schema (2020-12) of a task's recipes, for editors and documentation."""
    return json.dumps(recipe_of(task).model_json_schema(), indent=2) + "\n"


def _read(path: Path) -> dict[str, Any]:
    text = ""
    try:
        text = _content(path).decode("utf-8-sig")
        return parse_toml(text)
    except OSError as error:
        raise RecipeError(f"{path}: cannot read this recipe ({error.strerror}); give the path of a TOML file") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: byte {error.start} is not UTF-8; save the recipe as UTF-8") from None
    except NestedTooDeeplyError as error:
        raise RecipeError(f"{path}: is nested too deeply for a recipe ({error})") from None
    except ValueError as error:
        raise RecipeError(f"{path}: is no valid TOML: {error}{broken.remedy(text, str(error))}") from None


def _content(path: Path) -> bytes:
    """What stands in a file, or comes by a pipe that the command line names: standard input, or a shell's <(...).

    Raises:
        OSError: it is not there, is no regular file, or is larger than recipes are.
    """
    if path != _TYPED and not str(path).startswith(_HANDED):
        return read_bytes(path, most=LARGEST_RECIPE)
    with nullcontext(sys.stdin.buffer) if path == _TYPED else path.open("rb") as file:
        content = file.read(LARGEST_RECIPE + 1)
    if len(content) > LARGEST_RECIPE:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST_RECIPE:,} bytes")
    return content


def _kind(table: Mapping[str, Any], *, place: str) -> type[Recipe]:
    task = table.get("task", DEFAULT)
    if not isinstance(task, str) or task not in tasks():
        meant = called(str(task))
        hint = f"; did you mean {toml.value(meant)}?" if meant else ""
        raise RecipeError(
            f"{place}: task = {task!r} is no task; choose one of {', '.join(map(toml.value, tasks()))}{hint}"
        )
    return recipe_of(task)


def _require_same_task(content: Mapping[str, Any], merged: Mapping[str, Any], *, place: str) -> None:
    """A recipe's tables are those of its task, which no option changes."""
    task = merged.get("task", DEFAULT)
    if task != content.get("task", DEFAULT):
        meant = task if task in tasks() else called(str(task)) or task
        raise RecipeError(
            f"command line: task = {task!r}: a recipe has the tables of one task; write "
            f'task = "{meant}" at the top of {place}, or take a recipe of that task (heedful recipes lists some)'
        )


def _validated(table: Mapping[str, Any], kind: type[Recipe], *, place: str, flags: Sequence[str]) -> Recipe:
    version = table.get("format", FORMAT)
    if version != FORMAT or isinstance(version, bool):
        place = "command line" if "format" in flags else place
        raise RecipeError(
            f"{place}: format = {version!r} is a recipe format that this heedful does not know; "
            f"set format = {FORMAT} or install the heedful that the recipe was written for"
        )
    if (long := _long_number(table)) is not None:
        place = "command line" if long in flags else place
        raise RecipeError(f"{place}: {long} is too large a whole number: {_LARGEST:,} is the most")
    try:
        return kind.model_validate(dict(table))
    except ValidationError as error:
        found = sentences(error, root=kind, content=table, place=place, flags=flags)
        if "task" not in table and error.error_count() <= _MANY and (other := _better(table, _strange(error))):
            found.append(f"{place}: task is not given, and these are keys of another one: is it task = {other}?")
        raise RecipeError("\n".join(found)) from None


def _long_number(table: Any, key: str = "") -> str | None:
    """The dotted key of a whole number above `_LARGEST`; None where there is none."""
    if type(table) is int:
        return key if abs(table) > _LARGEST else None
    named: Iterator[tuple[str, Any]] = iter(())
    if isinstance(table, Mapping):
        named = ((f"{key}.{name}" if key else str(name), each) for name, each in table.items())
    elif isinstance(table, list | tuple):
        named = ((key, each) for each in table)
    return next((found for name, each in named if (found := _long_number(each, name)) is not None), None)


def _better(table: Mapping[str, Any], strange: int) -> str:
    """The tasks in whose recipes fewer than so many keys are strange, in words; empty where there is none."""
    counts = {}
    for task in tasks():
        try:
            recipe_of(task).model_validate({**table, "task": task})
            counts[task] = 0
        except ValidationError as error:
            counts[task] = _strange(error)
        except RecipeError:  # of an installed package that cannot be used, and nobody asks for
            continue
    fewest = min(counts.values())
    best = [toml.value(task) for task, count in counts.items() if count == fewest]
    return " or ".join(best) if fewest < strange and len(best) <= _FEW else ""


def _strange(error: ValidationError) -> int:
    """How many keys are unknown or missing, or do not say which table they stand in.

    A `kind` that is none is strange both where there are several and where there is one, or a mistyped word would
    speak for the tasks that have one.
    """
    return sum(
        each["type"] in _STRANGE or (each["type"] == "literal_error" and each["loc"][-1:] == ("kind",))
        for each in error.errors()
    )


def _entries(table: Mapping[str, Any], kind: type[Section]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """What stands in a table: the path of each value from there, its annotation and the value."""
    for name, annotation in keys(kind).items():
        value, inside = table.get(name), named(annotation)
        if inside is None:
            yield (name,), annotation, value
        elif isinstance(value, Mapping):
            yield from (((name, own), inside, each) for own, each in value.items())


def _left_open(recipe: Section, path: Sequence[str]) -> bool:
    """Whether there is such a key that was not given."""
    *above, name = path
    found: Any = recipe
    for each in above:
        found = found.get(each) if isinstance(found, Mapping) else getattr(found, each, None)
    return isinstance(found, Section) and name in type(found).model_fields and name not in found.model_fields_set


def _with(table: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    name, *rest = path
    return {**table, name: _with(table.get(name, {}), rest, value) if rest else value}


def _at(table: Any, path: Sequence[str]) -> Any:
    """What stands there; None where nothing does."""
    for name in path:
        table = table.get(name) if isinstance(table, Mapping) else None
    return table
