"""Loading of recipes from TOML files, command lines and stored runs, and writing them back."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from heedful.argument_checks import require_path, to_text_list
from heedful.errors import RecipeError
from heedful.files import LARGEST_RECIPE, NestedTooDeeplyError, parse_toml, read_bytes
from heedful.recipes import toml
from heedful.recipes.config import Config, KeyType, get_key_types
from heedful.recipes.error_messages import describe_errors, suggest_fix
from heedful.recipes.overrides import merge_overrides, parse_overrides, resolve_paths
from heedful.recipes.recipe import FORMAT, Recipe, get_recipe_class
from heedful.registry import DEFAULT_TASK, list_tasks, suggest_task

_STDIN: Final = Path("-")
"""Path that means standard input."""
_PIPE_PREFIXES: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Paths that a shell passes for a pipe, as in <(command)."""
_UNKNOWN_KEY_ERRORS: Final = frozenset({"extra_forbidden", "missing", "union_tag_not_found", "union_tag_invalid"})
_SELECTING_KEYS: Final = frozenset({"task", "kind"})
"""Keys that select the type of a table; they are always stored."""
_MAX_SUGGESTED_TASKS: Final = 3
"""Largest number of tasks to suggest for a recipe without one."""

_MAX_INT: Final = 2**48
"""Largest whole number in a recipe; products of such numbers must fit in 64 bits."""
_MAX_ERRORS: Final = 200
"""Number of errors above which a table is taken to be a recipe of no task."""

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


def load_recipe(path: Path | str, overrides: Sequence[str] = ()) -> Recipe:
    """Load the recipe in a TOML file (`-` is standard input), changed by `overrides` such as `["--training.steps",
    "2000"]`.

    Paths in the file are relative to its folder, paths in `overrides` to the current folder; `output` is always
    relative to the current folder. Raises RecipeError with one line for each problem.
    """
    require_path(path, name="recipe")
    overrides = to_text_list(overrides, name="overrides")
    path = Path(path)
    content = _read_toml(path)
    recipe_class = _find_recipe_class(content, source=str(path))
    changes = parse_overrides(overrides)
    table = {"output": str(Path("runs") / ("recipe" if path == _STDIN else path.stem))} | resolve_paths(
        content, recipe_class, path.parent
    )
    merged = merge_overrides(table, changes, recipe_class)
    _require_same_task(content, merged, source=str(path))
    return _validate(merged, recipe_class, source=str(path), flags=[".".join(change.path) for change in changes])


def build_recipe(table: Mapping[str, Any], *, source: str) -> Recipe:
    """Build the recipe in a nested table of plain values, as read from JSON or TOML; a RecipeError names `source`."""
    return _validate(table, _find_recipe_class(table, source=source), source=source, flags=())


def build_stored_recipe(table: Mapping[str, Any], *, source: str) -> Recipe:
    """Build the recipe from the table stored in a run, which may be older than some keys."""
    return build_recipe(fill_missing_keys(table, _find_recipe_class(table, source=source)), source=source)


def dump_explicit(table: Any) -> Any:
    """Dump the keys of a recipe or table that were given explicitly as plain values, without those left to defaults."""
    if isinstance(table, Mapping):
        return {name: dump_explicit(value) for name, value in table.items()}
    if not isinstance(table, Config):
        return table
    plain = table.model_dump(mode="json")
    explicit_keys = table.model_fields_set | _SELECTING_KEYS
    values = {
        name: getattr(table, name) for name in type(table).model_fields if name in explicit_keys and name in plain
    }
    return {
        name: dump_explicit(value) if isinstance(value, Config | Mapping) else plain[name]
        for name, value in values.items()
    }


def is_unset(recipe: Config, key: str) -> bool:
    """Whether a recipe has this dotted key and it was not given."""
    return _is_unset(recipe, key.split("."))


def apply_settings(recipe: AnyRecipe, settings: Mapping[str, Any], *, source: str) -> AnyRecipe:
    """Return a recipe with the values of some dotted keys replaced, as if they had been given. If the result is not
    valid, raise `RecipeError`, which names `source` as the origin.
    """
    table: dict[str, Any] = dump_explicit(recipe)
    for key, value in settings.items():
        table = _set_key(table, key.split("."), value)
    changed = build_recipe(table, source=source)
    assert isinstance(changed, type(recipe))
    return changed


def resume_recipe(recipe: Recipe, stored: Mapping[str, Any], *, has_checkpoint: bool) -> Recipe:
    """Return a recipe adjusted to the run that it resumes: keys that it does not give keep the values in `stored`, the
    table of the run. If the result is not valid, return the recipe unchanged.

    For a run without a checkpoint, only the values that were fitted to its data are kept.

    Args:
        recipe: the recipe as given.
        stored: the stored table of the run.
        has_checkpoint: whether the run has a checkpoint.
    """
    table = merge_stored_settings(recipe, stored, has_checkpoint=has_checkpoint)
    try:
        return recipe if table is None else build_recipe(table, source="")
    except RecipeError:  # it contradicts the run; resuming reports this
        return recipe


def iter_missing_keys(
    table: Mapping[str, Any], config_class: type[Config], prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path of each key that the stored recipe of an older run lacks, with the value that it had implicitly.
    `table` is of the class `config_class`; `prefix` stands before each path.

    Yields nothing for a recipe that was stored with this version.
    """
    for name, value in config_class.migrate(table).items():
        if name not in table:
            yield (*prefix, name), value
    for path, key_type, value in _iter_entries(table, config_class):
        if (nested_class := key_type.select_class(value)) is not None:
            yield from iter_missing_keys(value, nested_class, (*prefix, *path))


def fill_missing_keys(table: Mapping[str, Any], config_class: type[Config]) -> dict[str, Any]:
    """Return the stored recipe of a run, a table of the class `config_class`, with the implicit values of the keys that
    it lacks.
    """
    table_with_keys = dict(table)
    for path, implicit_value in iter_missing_keys(table, config_class):
        table_with_keys = _set_key(table_with_keys, path, implicit_value)
    return table_with_keys


def merge_stored_settings(
    recipe: Config, stored: Mapping[str, Any], *, has_checkpoint: bool = True
) -> dict[str, Any] | None:
    """Return a recipe that resumes a run as a table, with implicit and fitted values from `stored`, the table of the
    run; None if nothing changes. Without a checkpoint, only fitted values are kept.

    Keys that the run lacks and the recipe does not set keep the meaning that they had when the run started; keys that
    were fitted to its data keep their values.

    Args:
        recipe: the recipe as given.
        stored: the table in the run folder.
        has_checkpoint: whether the run has a checkpoint.
    """
    stored_values = {
        path: stored_value
        for path, stored_value in iter_missing_keys(stored, type(recipe))
        if has_checkpoint and _is_unset(recipe, path)
    }
    for key in recipe.auto_keys if isinstance(recipe, Recipe) and recipe.needs_fitting else ():
        path = tuple(key.split("."))
        if _is_unset(recipe, path) and (fitted_value := _get_key(stored, path)) is not None:
            stored_values[path] = fitted_value
    if not stored_values:
        return None
    table: dict[str, Any] = dump_explicit(recipe)
    for path, stored_value in stored_values.items():
        table = _set_key(table, path, stored_value)
    return table


def dump(recipe: Recipe) -> str:
    """Write a recipe as TOML with all defaults; loading it gives the same recipe."""
    return toml.format_document(recipe.model_dump(mode="json", exclude_none=True))


def json_schema(task: str = DEFAULT_TASK) -> str:
    """Return the JSON Schema (2020-12) of a task's recipes, for editors and documentation."""
    return json.dumps(get_recipe_class(task).model_json_schema(), indent=2) + "\n"


def _read_toml(path: Path) -> dict[str, Any]:
    """Read the table in a TOML file; raise `RecipeError` if it cannot be read."""
    text = ""
    try:
        text = _read_recipe_bytes(path).decode("utf-8-sig")
        return parse_toml(text)
    except OSError as error:
        raise RecipeError(f"{path}: cannot read this recipe ({error.strerror}); give the path of a TOML file") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: byte {error.start} is not UTF-8; save the recipe as UTF-8") from None
    except NestedTooDeeplyError as error:
        raise RecipeError(f"{path}: is nested too deeply for a recipe ({error})") from None
    except ValueError as error:
        raise RecipeError(f"{path}: is not valid TOML: {error}{suggest_fix(text, str(error))}") from None


def _read_recipe_bytes(path: Path) -> bytes:
    """Read the bytes of a file, of standard input, or of a pipe such as a shell's <(...).

    Raises:
        OSError: the file is missing, is not a regular file, or is larger than recipes may be.
    """
    if path != _STDIN and not str(path).startswith(_PIPE_PREFIXES):
        return read_bytes(path, max_bytes=LARGEST_RECIPE)
    with nullcontext(sys.stdin.buffer) if path == _STDIN else path.open("rb") as file:
        content = file.read(LARGEST_RECIPE + 1)
    if len(content) > LARGEST_RECIPE:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST_RECIPE:,} bytes")
    return content


def _find_recipe_class(table: Mapping[str, Any], *, source: str) -> type[Recipe]:
    """Return the recipe class of the task that a table names; raise `RecipeError`, which names the file `source`, for
    an unknown task.
    """
    task = table.get("task", DEFAULT_TASK)
    if not isinstance(task, str) or task not in list_tasks():
        suggestion = suggest_task(str(task))
        hint = f"; did you mean {toml.format_value(suggestion)}?" if suggestion else ""
        raise RecipeError(
            f"{source}: task = {task!r} is not a task; choose one of "
            f"{', '.join(map(toml.format_value, list_tasks()))}{hint}"
        )
    return get_recipe_class(task)


def _require_same_task(content: Mapping[str, Any], merged: Mapping[str, Any], *, source: str) -> None:
    """Raise `RecipeError` if command-line options change the task, because the tables of a recipe belong to one task.
    `content` is the recipe in the file `source`, `merged` the one with the options.
    """
    task = merged.get("task", DEFAULT_TASK)
    if task != content.get("task", DEFAULT_TASK):
        suggestion = task if task in list_tasks() else suggest_task(str(task)) or task
        raise RecipeError(
            f"command line: task = {task!r}: a recipe has the tables of one task; write "
            f'task = "{suggestion}" at the top of {source}, or take a recipe of that task (heedful recipes lists some)'
        )


def _validate(table: Mapping[str, Any], recipe_class: type[Recipe], *, source: str, flags: Sequence[str]) -> Recipe:
    """Validate a table and return the recipe; raise `RecipeError` with one line for each problem. A line names
    `source`, or the command line if the key is one of `flags`.
    """
    version = table.get("format", FORMAT)
    if version != FORMAT or isinstance(version, bool):
        source = "command line" if "format" in flags else source
        raise RecipeError(
            f"{source}: format = {version!r} is a recipe format that this heedful does not know; "
            f"set format = {FORMAT} or install the heedful that the recipe was written for"
        )
    if (too_large_key := _find_too_large_number(table)) is not None:
        source = "command line" if too_large_key in flags else source
        raise RecipeError(f"{source}: {too_large_key} is too large; the largest number is {_MAX_INT:,}")
    try:
        return recipe_class.model_validate(dict(table))
    except ValidationError as error:
        messages = describe_errors(error, root=recipe_class, content=table, source=source, flags=flags)
        if (
            "task" not in table
            and error.error_count() <= _MAX_ERRORS
            and (suggested_task := _suggest_tasks(table, _count_unknown_keys(error)))
        ):
            messages.append(
                f"{source}: task is not given, and these are keys of another one: is it task = {suggested_task}?"
            )
        raise RecipeError("\n".join(messages)) from None


def _find_too_large_number(table: Any, key: str = "") -> str | None:
    """Return the dotted key of a whole number above `_MAX_INT` in a table or list; None if there is none. `key` is the
    dotted key of the table itself.
    """
    if type(table) is int:
        return key if abs(table) > _MAX_INT else None
    entries: Iterator[tuple[str, Any]] = iter(())
    if isinstance(table, Mapping):
        entries = ((f"{key}.{name}" if key else str(name), value) for name, value in table.items())
    elif isinstance(table, list | tuple):
        entries = ((key, value) for value in table)
    return next(
        (
            too_large_key
            for name, value in entries
            if (too_large_key := _find_too_large_number(value, name)) is not None
        ),
        None,
    )


def _suggest_tasks(table: Mapping[str, Any], num_unknown: int) -> str:
    """Return the tasks, in words, for which this table has the fewest unknown keys; empty if these are not fewer than
    `num_unknown` or there are many such tasks.
    """
    counts = {}
    for task in list_tasks():
        try:
            get_recipe_class(task).model_validate({**table, "task": task})
            counts[task] = 0
        except ValidationError as error:
            counts[task] = _count_unknown_keys(error)
        except RecipeError:  # of an installed package that cannot be used and is not requested
            continue
    fewest = min(counts.values())
    best = [toml.format_value(task) for task, count in counts.items() if count == fewest]
    return " or ".join(best) if fewest < num_unknown and len(best) <= _MAX_SUGGESTED_TASKS else ""


def _count_unknown_keys(error: ValidationError) -> int:
    """Count the errors about keys that are unknown, missing, or do not select a table.

    An invalid `kind` counts both in tables with several kinds and in tables with one; otherwise a typing error would
    suggest tasks whose table has only one kind.
    """
    return sum(
        detail["type"] in _UNKNOWN_KEY_ERRORS or (detail["type"] == "literal_error" and detail["loc"][-1:] == ("kind",))
        for detail in error.errors()
    )


def _iter_entries(
    table: Mapping[str, Any], config_class: type[Config]
) -> Iterator[tuple[tuple[str, ...], KeyType, Any]]:
    """Yield each value of a table of the class `config_class`: path within the table, type, and value (None if it is
    not given). Of a table with user-defined names, yield each entry.
    """
    for name, key_type in get_key_types(config_class).items():
        value = table.get(name)
        if key_type.value_type is None:
            yield (name,), key_type, value
        elif isinstance(value, Mapping):
            yield from (((name, user_name), key_type.value_type, entry) for user_name, entry in value.items())


def _is_unset(recipe: Config, path: Sequence[str]) -> bool:
    """Return whether a recipe has a key at this path that was not given."""
    *tables, name = path
    table: Any = recipe
    for key in tables:
        table = table.get(key) if isinstance(table, Mapping) else getattr(table, key, None)
    return isinstance(table, Config) and name in type(table).model_fields and name not in table.model_fields_set


def _set_key(table: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    name, *rest = path
    return {**table, name: _set_key(table.get(name, {}), rest, value) if rest else value}


def _get_key(table: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of nested tables; None if there is none."""
    for name in path:
        table = table.get(name) if isinstance(table, Mapping) else None
    return table
