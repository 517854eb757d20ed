"""Messages about problems of a recipe: source, key, value and remedy in one sentence; hints for invalid TOML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from heedful.english_words import closest_match
from heedful.recipes import synonyms, toml
from heedful.recipes.config import (
    UNKNOWN_TYPE,
    Config,
    KeyType,
    get_key_type,
    get_key_types,
    get_kind,
    list_kinds,
)

_EXPECTED = {
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "path_type": "must be a path in quotes",
    "string_type": "must be text in quotes",
    "string_too_short": "must not be empty",
    "string_unicode": "contains a character that UTF-8 cannot encode",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_MAX_VALUE_LENGTH = 60
_MAX_MESSAGES = 50
"""Largest number of problems in one message."""
_MAX_SUGGESTIONS = 3
"""Largest number of suggested keys."""
_MIN_SIMILARITY = 0.8
"""Smallest similarity of a name to a name of another table."""


def describe_errors(
    error: ValidationError,
    *,
    root: type[Config],
    content: Mapping[str, Any],
    source: str,
    flags: Sequence[str],
) -> list[str]:
    """Describe each problem of the rejected table `content`, a recipe of the class `root`, in one sentence. `flags` are
    the dotted keys that come from the command line; all others come from `source`.
    """
    messages: dict[str, None] = {}
    details = error.errors(include_url=False)
    for number, detail in enumerate(details):
        if len(messages) == _MAX_MESSAGES:  # each takes time to find out what was meant
            messages[f"{source}: and {len(details) - number:,} more problems; correct these first"] = None
            break
        # This one only follows from another that has its own sentence: a default could not be derived.
        if detail["type"] == "default_factory_not_called":
            continue
        path, text = _describe_error(detail, root, content)
        dotted = ".".join(_restore_shorthand(path, root, content))
        normalized_key = dotted.replace("-", "_")  # as flags are
        is_from_flags = any(normalized_key == flag or flag.startswith(f"{normalized_key}.") for flag in flags)
        messages[f"{'command line' if is_from_flags else source}: {dotted} {text}"] = None
    return list(messages)


def find_risks(config: Config, prefix: str = "") -> Iterator[str]:
    """Yield a sentence for each setting of a recipe, or of a table in it, that is allowed but likely to go wrong.
    `prefix` stands before the keys of the table, such as "model."; empty for a recipe.
    """
    yield from config.find_risks(prefix)
    for name in type(config).model_fields:
        value = getattr(config, name)
        tables = {name: value} if isinstance(value, Config) else value if isinstance(value, Mapping) else {}
        for key, table in tables.items():
            if isinstance(table, Config):
                yield from find_risks(table, f"{prefix}{name}." if table is value else f"{prefix}{name}.{key}.")


def _restore_shorthand(path: Sequence[str], root: type[Config], content: Mapping[str, Any]) -> Sequence[str]:
    """Return the path of a key, with the shorthand that `content` gives instead of the key that the shorthand sets.
    `content` is the table of a recipe of the class `root`.
    """
    *tables, last = path
    table: Any = content
    config_class: type[Config] | None = root
    value_type: KeyType | None = None
    for name in tables:
        key_type = value_type or get_key_type(config_class, name)
        value_type = key_type.value_type
        table = table.get(name) if isinstance(table, Mapping) else None
        config_class = key_type.select_class(table)
    for shorthand, covered_keys in config_class.shorthands.items() if config_class else ():
        if last in covered_keys and last not in table and shorthand in table:
            return [*tables, shorthand]
    return path


def _describe_error(
    detail: ErrorDetails, root: type[Config], table_content: Mapping[str, Any]
) -> tuple[list[str], str]:
    """Return the path and the message of one validation error, which pydantic describes in `detail`. `table_content` is
    the table of a recipe of the class `root`.
    """
    if detail["type"] == "misfit":
        return detail["ctx"]["key"].split("."), detail["ctx"]["message"]
    path, config_class, key_type = _locate_key(detail["loc"], root)
    value = detail["input"]
    if detail["type"] == "missing":
        description = config_class.describe_keys().get(path[-1])
        return path, f"is missing: {description}" if description else "is missing"
    if detail["type"] == "extra_forbidden":
        return (
            [_shorten(key) for key in path],
            f"{_format_value(value)}is not a known key; {_suggest_key(path, config_class, root, table_content)}",
        )
    if detail["type"] == "union_tag_not_found":
        return path, f"is not complete: give {_describe_kinds(key_type)}"
    if detail["type"] == "union_tag_invalid":
        path, value = [*path, "kind"], value["kind"]
    text = f"{_format_value(value)}{_describe_expected(detail, key_type, path)}"
    if detail["type"] == "union_tag_invalid" and "; did you mean" not in text:
        text += _suggest_kind_elsewhere(str(value), root)
    return path, text


def _locate_key(loc: Sequence[int | str], root: type[Config]) -> tuple[list[str], type[Config], KeyType]:
    """Return the path of a key, the config class of its table, and its type. `loc` is pydantic's location of an error
    in a recipe of the class `root`.

    After the name of a table with alternatives, pydantic names the chosen kind, which is not part of the key.
    """
    waiting = [str(part) for part in loc]
    path: list[str] = []
    config_class = root
    while True:
        path.append(waiting.pop(0))
        key_type = get_key_type(config_class, path[-1])
        if waiting and key_type.value_type is not None:
            path.append(waiting.pop(0))
            key_type = key_type.value_type
        candidates = key_type.config_classes
        kind = waiting.pop(0) if waiting and len(candidates) > 1 else None
        if not waiting or not candidates:  # of a plain value pydantic names the type that was expected
            return path, config_class, key_type
        config_class = next(section for section in candidates if kind is None or kind in list_kinds(section))


def _describe_expected(detail: ErrorDetails, key_type: KeyType, path: Sequence[str]) -> str:
    """Describe, for an error that pydantic found, which values the key at a path may have, with a suggestion for a
    wrong word.
    """
    error_type = detail["type"]
    if bound := describe_bound(detail):
        return bound
    choices = key_type.choices
    if choices and error_type in ("literal_error", "int_type", "int_from_float"):
        words = f"must be a whole number or {' or '.join(map(toml.format_value, choices))}"
        return words if int in key_type.parts else _describe_choices(detail["input"], choices)
    if error_type == "union_tag_invalid":
        return _describe_choices(
            detail["input"]["kind"],
            [kind for config_class in key_type.config_classes for kind in list_kinds(config_class)],
        )
    if error_type == "value_error":
        return str(detail["ctx"]["error"])
    if key_type.config_classes:
        return f"must be a table: {path[-1]} = {{ ... }}, or options such as --{'.'.join(path)}.KEY VALUE"
    return _EXPECTED.get(error_type, detail["msg"])


def describe_bound(detail: ErrorDetails) -> str | None:
    """Return the bound that a number violates, in words, from pydantic's details of an error; None for other errors."""
    if detail["type"] not in _BOUNDS:
        return None
    words, name = _BOUNDS[detail["type"]]
    return f"must be {words} {detail['ctx'][name]:g}"


def _format_value(value: Any) -> str:
    """Format a text, number or truth value as `= value ` in TOML, truncated if it is long; empty for any other value,
    such as a table, a list or None.
    """
    if not isinstance(value, str | bool | int | float):
        return ""
    text = toml.format_value(value)
    return f"= {text if len(text) <= _MAX_VALUE_LENGTH else text[:_MAX_VALUE_LENGTH] + '...'} "


def _describe_choices(value: Any, choices: Sequence[Any]) -> str:
    """Describe the allowed choices, with a suggestion for a word similar to `value`."""
    words = [toml.format_value(choice) for choice in choices]
    choice_texts = [str(choice) for choice in choices]
    synonyms_found = (word for word in synonyms.VALUE_SYNONYMS.get(str(value).lower(), ()) if word in choice_texts)
    suggestion = next(synonyms_found, None) or closest_match(str(value), choice_texts)
    hint = f"; did you mean {toml.format_value(suggestion)}?" if suggestion else ""
    return f"must be {words[0] if len(words) == 1 else 'one of ' + ', '.join(words)}{hint}"


def _describe_kinds(key_type: KeyType) -> str:
    """Describe each kind that a table of this type may have, by its required keys."""
    descriptions = []
    for config_class in key_type.config_classes:
        required_keys = [name for name, field in config_class.model_fields.items() if field.is_required()]
        descriptions.append(f"{' and '.join(required_keys)} ({get_kind(config_class)})")
    return " or ".join(descriptions)


def _suggest_key(path: Sequence[str], config_class: type[Config], root: type[Config], table: Mapping[str, Any]) -> str:
    """Suggest the key that an unknown key at a path may stand for; without a suggestion, list the keys of its table,
    which is of the class `config_class`. `table` is the whole recipe, of the class `root`.
    """
    *tables, name = path
    alternatives = _find_alternatives(tables, root)
    kinds = {key: section for section, _ in alternatives for key in get_key_types(section)}
    if name in kinds:
        return _describe_needed_kind(tables, name, alternatives)
    if (plural := f"{name}s") in get_key_types(config_class):  # which is closer than the same name elsewhere
        return f"did you mean {'.'.join([*tables, plural])}?"
    all_keys = list(dict.fromkeys(_iter_all_keys(root)))
    keys_nearby = [key for key in all_keys if tables and key.startswith(f"{tables[0]}.")]
    has_namesake = any(key.rpartition(".")[2] == name for key in keys_nearby)
    suggestion = _suggest_elsewhere(name, keys_nearby if has_namesake else all_keys, root, table)
    if suggestion:
        return suggestion
    if similar_key := closest_match(name, [*get_key_types(config_class), *kinds]):
        return (
            f"did you mean {'.'.join([*tables, similar_key])}?"
            if similar_key in get_key_types(config_class)
            else _describe_needed_kind(tables, similar_key, alternatives)
        )
    last_parts = dict.fromkeys(key.rpartition(".")[2] for key in all_keys)
    if similar_key := closest_match(name, last_parts, cutoff=_MIN_SIMILARITY):
        return f"did you mean {_join_shallowest(key for key in all_keys if key.rpartition('.')[2] == similar_key)}?"
    return f"known here: {', '.join(get_key_types(config_class))}"


def _suggest_elsewhere(name: str, all_keys: Sequence[str], root: type[Config], table: Mapping[str, Any]) -> str:
    """Return a suggestion for a key with this name or meaning in another table; empty if there is none. `all_keys` are
    the keys of recipes of the class `root`, and `table` is the recipe.
    """
    if name in synonyms.TRAIN_OPTIONS:
        return f"the device is set by {synonyms.TRAIN_OPTIONS[name]}, an option of heedful train"
    meaning, candidate_keys = synonyms.KEY_SYNONYMS.get(name, ("", ()))
    matching_key = next((key for key in candidate_keys if key in all_keys), None)
    if matching_key is not None:
        return f"{meaning} is {matching_key}{_describe_requirement(matching_key, root, table)}"
    if same_name := [key for key in all_keys if key.rpartition(".")[2] == name]:
        requirement = _describe_requirement(same_name[0], root, table) if len(same_name) == 1 else ""
        return f"did you mean {_join_shallowest(same_name)}{requirement}?"
    return ""


def _join_shallowest(keys: Iterable[str]) -> str:
    return " or ".join(sorted(keys, key=lambda key: key.count("."))[:_MAX_SUGGESTIONS])


def _describe_needed_kind(
    tables: Sequence[str], name: str, alternatives: Sequence[tuple[type[Config], tuple[str, str | None]]]
) -> str:
    """Describe which kind of the table at `tables` has the key `name`; `alternatives` are the results of
    `_find_alternatives`.
    """
    choices = dict.fromkeys(choice for config_class, choice in alternatives if name in get_key_types(config_class))
    selecting_key = next(iter(choices))[0]
    kinds = [toml.format_value(kind) for key, kind in choices if key == selecting_key]
    return f"{'.'.join([*tables, name])} needs {selecting_key} = {' or '.join(kinds)}"


def _describe_requirement(key: str, root: type[Config], content: Mapping[str, Any]) -> str:
    """Describe which kind must be chosen before a recipe can have a dotted key; empty if none must. `content` is the
    table of the recipe, of the class `root`.
    """
    *tables, name = key.split(".")
    config_class, table, path = root, content, []
    for part in tables:
        path.append(part)
        key_type = get_key_types(config_class).get(part)
        if key_type is None or key_type.value_type is not None:
            return ""
        nested_content = table.get(part, {})
        table = nested_content if isinstance(nested_content, Mapping) else {}
        chosen_class = key_type.select_class(table or _default_kind(config_class, part))
        if chosen_class is None:
            return ""
        wanted_key = name if len(path) == len(tables) else tables[len(path)]
        if wanted_key not in get_key_types(chosen_class):
            kinds = [
                toml.format_value(get_kind(other))
                for other in key_type.config_classes
                if wanted_key in get_key_types(other)
            ]
            return f", which needs {'.'.join(path)}.kind = {' or '.join(kinds)}" if kinds else ""
        config_class = chosen_class
    return ""


def _default_kind(config_class: type[Config], name: str) -> Mapping[str, Any]:
    """Return a table with only the kind that the default of a key has; empty if it has none."""
    default = config_class.model_fields[name].default if name in config_class.model_fields else None
    kind = getattr(default, "kind", None)
    return {} if kind is None else {"kind": kind}


def _find_alternatives(tables: Sequence[str], root: type[Config]) -> list[tuple[type[Config], tuple[str, str | None]]]:
    """Return the config classes that the table at the dotted key `tables` may have; empty if only one is possible. Each
    comes with the nearest key `kind` that selects it and the value of that key. `root` is the class of the recipe.
    """
    candidates: list[tuple[type[Config], tuple[str, str | None]]] = [(root, ("", None))]
    remaining = list(tables)
    while remaining:
        name = remaining.pop(0)
        key_types = [(get_key_type(section, name), choice) for section, choice in candidates]
        if remaining and any(key_type.value_type is not None for key_type, _ in key_types):
            remaining.pop(0)
            key_types = [(key_type.value_type or UNKNOWN_TYPE, choice) for key_type, choice in key_types]
        selecting_key = ".".join([*tables[: len(tables) - len(remaining)], "kind"])
        candidates = [
            (config_class, (selecting_key, get_kind(config_class)) if len(key_type.config_classes) > 1 else choice)
            for key_type, choice in key_types
            for config_class in key_type.config_classes
        ]
    return candidates if len(candidates) > 1 else []


def _suggest_kind_elsewhere(word: str, root: type[Config]) -> str:
    """Suggest a kind of any table that resembles an unknown word, with its key; empty if there is none. `root` is the
    class of the recipe.
    """
    keys_of_kinds: dict[str, str] = {}
    for key in _iter_all_keys(root):
        for config_class, _ in _find_alternatives(key.split("."), root):
            for kind in list_kinds(config_class):
                keys_of_kinds.setdefault(kind, key)
    similar_kind = closest_match(word, keys_of_kinds, cutoff=_MIN_SIMILARITY)
    return (
        f"; did you mean {keys_of_kinds[similar_kind]}.kind = {toml.format_value(similar_kind)}?"
        if similar_kind
        else ""
    )


def _iter_all_keys(config_class: type[Config], prefix: str = "") -> Iterator[str]:
    """Yield every dotted key that a table of a config class may have, of all kinds of nested tables; `prefix` stands
    before each.
    """
    for name, key_type in get_key_types(config_class).items():
        yield prefix + name
        name_part = "" if key_type.value_type is None else "NAME."
        for nested_class in (key_type.value_type or key_type).config_classes:
            yield from _iter_all_keys(nested_class, f"{prefix}{name}.{name_part}")


_MAX_SHOWN: Final = 80
"""Characters of a key or value that an error shows."""
_LINE_NUMBER: Final = re.compile(r"\(at line (\d+)")
_BARE_VALUE: Final = re.compile(r"^\s*([\w.-]+)\s*=\s*([A-Za-z_./~](?:[^\"'#\[\]{}]*[^\s\"'#\[\]{}])?)\s*(#.*)?$")
_BARE_WORD_HINTS: Final = dict.fromkeys(("true", "yes", "on"), "is written true")
_BARE_WORD_HINTS.update(dict.fromkeys(("false", "no", "off"), "is written false"))
_BARE_WORD_HINTS.update(dict.fromkeys(("none", "null", "nil"), "is not a value: leave the key out"))
_PATTERN_HINTS: Final = (
    (
        re.compile(r'"[^"\\]*\\[^"]*"'),
        "in double quotes a backslash begins an escape: write a path in single quotes, as in 'C:\\new\\train.txt', or "
        "with forward slashes",
    ),
    (re.compile("[\u201c\u201d\u2018\u2019\u201e]"), 'quotes must be straight ones, as in task = "tagging"'),
    (
        re.compile(r"^\s*[\w.-]+\s*:(\s|$)"),
        "write a key and its value as in key = value; a table begins with [name]",
    ),
)
"""Patterns of common mistakes in a line, with the hint for each."""


def suggest_fix(text: str, error_message: str) -> str:
    """Return a hint about the line of a text that the error message of a TOML parser names; empty if the mistake is not
    recognized.
    """
    match = _LINE_NUMBER.search(error_message)
    lines = text.splitlines()
    line = lines[int(match[1]) - 1] if match and int(match[1]) <= len(lines) else ""
    hint = _suggest_for_line(line)
    return f"; {hint}" if hint else ""


def _suggest_for_line(line: str) -> str:
    """Return a hint about the mistake in a line of TOML; empty if no known mistake is found."""
    if match := _BARE_VALUE.match(line):
        hint = _BARE_WORD_HINTS.get(match[2].lower())
        key, value = _shorten(match[1]), _shorten(match[2])
        return f"{value} {hint}" if hint else f'text must be in quotes, as in {key} = "{value}"'
    return next((hint_of_pattern for pattern, hint_of_pattern in _PATTERN_HINTS if pattern.search(line)), "")


def _shorten(text: str) -> str:
    """Return a text with at most 80 of its characters."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
