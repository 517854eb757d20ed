"""What is wrong with a recipe, in sentences: place, key, value, remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from heedful.recipes import synonyms, toml
from heedful.recipes.section import Section, keys, kind_of, kinds_of, member, members, named, parts
from heedful.words import near

_EXPECTED = {
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "path_type": "must be a path in quotes",
    "string_type": "must be text in quotes",
    "string_too_short": "must not be empty",
    "string_unicode": "holds a character that UTF-8 cannot write",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_LONGEST = 60
_MOST = 50
"""Problems that are told at a time."""
_FEW = 3
"""Keys that are named where several are meant."""
_ALIKE = 0.8
"""How like a name must be to one of another table."""


def sentences(
    error: ValidationError,
    *,
    root: type[Section],
    content: Mapping[str, Any],
    place: str,
    flags: Sequence[str],
) -> list[str]:
    """One sentence for each problem of `content`, the table that was refused.

    `flags` are the dotted keys that come from the command line; all others come from `place`.
    """
    found: dict[str, None] = {}
    details = error.errors(include_url=False)
    for number, detail in enumerate(details):
        if len(found) == _MOST:  # each takes time to find out what was meant
            found[f"{place}: and {len(details) - number:,} more problems; mend these first"] = None
            break
        # This one only follows from another that has its own sentence: a default could not be derived.
        if detail["type"] == "default_factory_not_called":
            continue
        path, text = _problem(detail, root, content)
        dotted = ".".join(_as_written(path, root, content))
        plain = dotted.replace("-", "_")  # as flags are
        typed = any(plain == flag or flag.startswith(f"{plain}.") for flag in flags)
        found[f"{'command line' if typed else place}: {dotted} {text}"] = None
    return list(found)


def risks(section: Section, above: str = "") -> Iterator[str]:
    """What a recipe allows and is likely to go wrong, one sentence each."""
    yield from section.risks(above)
    for name in type(section).model_fields:
        value = getattr(section, name)
        inside = {name: value} if isinstance(value, Section) else value if isinstance(value, Mapping) else {}
        for own, each in inside.items():
            if isinstance(each, Section):
                yield from risks(each, f"{above}{name}." if each is value else f"{above}{name}.{own}.")


def _as_written(path: Sequence[str], root: type[Section], content: Mapping[str, Any]) -> Sequence[str]:
    """The key with the shorthand that was really given in the place of what it stands for."""
    *tables, last = path
    table: Any = content
    section: type[Section] | None = root
    inside: Any = None
    for name in tables:
        annotation = inside if inside is not None else keys(section).get(name) if section else None
        inside = named(annotation)
        table = table.get(name) if isinstance(table, Mapping) else None
        section = member(annotation, table) if members(annotation) and isinstance(table, Mapping) else None
    for shorthand, covered in section.shorthands.items() if section else ():
        if last in covered and last not in table and shorthand in table:
            return [*tables, shorthand]
    return path


def _problem(detail: ErrorDetails, root: type[Section], whole: Mapping[str, Any]) -> tuple[list[str], str]:
    if detail["type"] == "misfit":
        return detail["ctx"]["key"].split("."), detail["ctx"]["message"]
    path, table, annotation = _locate(detail["loc"], root)
    content = detail["input"]
    if detail["type"] == "missing":
        about = table.explanations().get(path[-1])
        return path, f"is missing: {about}" if about else "is missing"
    if detail["type"] == "extra_forbidden":
        return path, f"{_shown(content)}is no known key; {_remedy(path, table, root, whole)}"
    if detail["type"] == "union_tag_not_found":
        return path, f"is not complete: give {_ways(annotation)}"
    if detail["type"] == "union_tag_invalid":
        path, content = [*path, "kind"], content["kind"]
    text = f"{_shown(content)}{_expected(detail, annotation, path)}"
    if detail["type"] == "union_tag_invalid" and "; did you mean" not in text:
        text += _kind_elsewhere(str(content), root)
    return path, text


def _locate(loc: Sequence[int | str], root: type[Section]) -> tuple[list[str], type[Section], Any]:
    """The dotted key, the table it stands in and its annotation.

    Behind the name of a table with alternatives pydantic names the chosen kind, which is no part of the key.
    """
    waiting = [str(part) for part in loc]
    path: list[str] = []
    table = root
    while True:
        path.append(waiting.pop(0))
        annotation = keys(table).get(path[-1])
        if waiting and (inside := named(annotation)) is not None:
            path.append(waiting.pop(0))
            annotation = inside
        possible = members(annotation)
        kind = waiting.pop(0) if waiting and len(possible) > 1 else None
        if not waiting or not possible:  # of a plain value pydantic names the type that was expected
            return path, table, annotation
        table = next(section for section in possible if kind is None or kind in kinds_of(section))


def _expected(detail: ErrorDetails, annotation: Any, path: Sequence[str]) -> str:
    kind = detail["type"]
    if bound := out_of_bounds(detail):
        return bound
    choices = [choice for part in parts(annotation) if get_origin(part) is Literal for choice in get_args(part)]
    if choices and kind in ("literal_error", "int_type", "int_from_float"):
        words = f"must be a whole number or {' or '.join(map(toml.value, choices))}"
        return words if int in parts(annotation) else _one_of(detail["input"], choices)
    if kind == "union_tag_invalid":
        return _one_of(detail["input"]["kind"], [kind for section in members(annotation) for kind in kinds_of(section)])
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if members(annotation):
        return f"must be a table: {path[-1]} = {{ ... }}, or options such as --{'.'.join(path)}.KEY VALUE"
    return _EXPECTED.get(kind, detail["msg"])


def out_of_bounds(detail: ErrorDetails) -> str | None:
    """What a number must be, where one is too large or too small."""
    if detail["type"] not in _BOUNDS:
        return None
    words, name = _BOUNDS[detail["type"]]
    return f"must be {words} {detail['ctx'][name]:g}"


def _shown(content: Any) -> str:
    """`= value ` in the words of TOML; nothing for tables and lists, which are long, or without a value."""
    if not isinstance(content, str | bool | int | float):
        return ""
    text = toml.value(content)
    return f"= {text if len(text) <= _LONGEST else text[:_LONGEST] + '...'} "


def _one_of(content: Any, choices: Sequence[Any]) -> str:
    words = [toml.value(choice) for choice in choices]
    known = [str(choice) for choice in choices]
    elsewhere = (word for word in synonyms.WORDS.get(str(content).lower(), ()) if word in known)
    meant = next(elsewhere, None) or near(str(content), known)
    hint = f"; did you mean {toml.value(meant)}?" if meant else ""
    return f"must be {words[0] if len(words) == 1 else 'one of ' + ', '.join(words)}{hint}"


def _ways(annotation: Any) -> str:
    """The keys that each kind cannot do without."""
    ways = []
    for section in members(annotation):
        needed = [name for name, field in section.model_fields.items() if field.is_required()]
        ways.append(f"{' and '.join(needed)} ({kind_of(section)})")
    return " or ".join(ways)


def _remedy(path: Sequence[str], table: type[Section], root: type[Section], content: Mapping[str, Any]) -> str:
    """Where an unknown key belongs, as far as that can be guessed."""
    *tables, name = path
    others = _alternatives(tables, root)
    kinds = {key: section for section, _ in others for key in keys(section)}
    if name in kinds:
        return _of_kind(tables, name, others)
    if (several := f"{name}s") in keys(table):  # which is closer than the same name elsewhere
        return f"did you mean {'.'.join([*tables, several])}?"
    anywhere = list(dict.fromkeys(_everywhere(root)))
    told = _meant(name, anywhere, root, content)
    if told:
        return told
    if meant := near(name, [*keys(table), *kinds]):
        return (
            f"did you mean {'.'.join([*tables, meant])}?" if meant in keys(table) else _of_kind(tables, meant, others)
        )
    lasts = dict.fromkeys(key.rpartition(".")[2] for key in anywhere)
    if meant := near(name, lasts, cutoff=_ALIKE):
        return f"did you mean {_joined(key for key in anywhere if key.rpartition('.')[2] == meant)}?"
    return f"known here: {', '.join(keys(table))}"


def _meant(name: str, anywhere: Sequence[str], root: type[Section], content: Mapping[str, Any]) -> str:
    """The key of this name elsewhere, or of this meaning; empty where there is none."""
    if name in synonyms.OPTIONS:
        return f"where to compute is said by {synonyms.OPTIONS[name]}, an option of heedful train"
    about, called = synonyms.KEYS.get(name, ("", ()))
    found = next((key for key in called if key in anywhere), None)
    if found is not None:
        return f"{about} is {found}{_needs(found, root, content)}"
    if same := [key for key in anywhere if key.rpartition(".")[2] == name]:
        return f"did you mean {_joined(same)}{_needs(same[0], root, content) if len(same) == 1 else ''}?"
    return ""


def _joined(found: Iterable[str]) -> str:
    """The shallowest of some keys."""
    return " or ".join(sorted(found, key=lambda key: key.count("."))[:_FEW])


def _of_kind(tables: Sequence[str], name: str, others: Sequence[tuple[type[Section], tuple[str, str | None]]]) -> str:
    """Which kind of a table has a key."""
    choices = dict.fromkeys(choice for section, choice in others if name in keys(section))
    chooser = next(iter(choices))[0]
    kinds = [toml.value(kind) for key, kind in choices if key == chooser]
    return f"{'.'.join([*tables, name])} needs {chooser} = {' or '.join(kinds)}"


def _needs(key: str, root: type[Section], content: Mapping[str, Any]) -> str:
    """Which kind must be chosen before there is such a key in this recipe; empty where nothing must."""
    *tables, name = key.split(".")
    section, table, above = root, content, []
    for each in tables:
        above.append(each)
        annotation = keys(section).get(each)
        if annotation is None or named(annotation) is not None:
            return ""
        inside = table.get(each, {})
        table = inside if isinstance(inside, Mapping) else {}
        chosen, possible = member(annotation, table or _default(section, each)), members(annotation)
        if chosen is None:
            return ""
        wanted = name if len(above) == len(tables) else tables[len(above)]
        if wanted not in keys(chosen):
            kinds = [toml.value(kind_of(other)) for other in possible if wanted in keys(other)]
            return f", which needs {'.'.join(above)}.kind = {' or '.join(kinds)}" if kinds else ""
        section = chosen
    return ""


def _default(section: type[Section], name: str) -> Mapping[str, Any]:
    """The kind that a table has where nothing is said of it."""
    default = section.model_fields[name].default if name in section.model_fields else None
    kind = getattr(default, "kind", None)
    return {} if kind is None else {"kind": kind}


def _alternatives(tables: Sequence[str], root: type[Section]) -> list[tuple[type[Section], tuple[str, str | None]]]:
    """All tables that might stand at a dotted key, each with the nearest key that chooses it and the word for it."""
    possible: list[tuple[type[Section], tuple[str, str | None]]] = [(root, ("", None))]
    waiting = list(tables)
    while waiting:
        name = waiting.pop(0)
        annotations = [(keys(section).get(name), choice) for section, choice in possible]
        if waiting and any(named(each) is not None for each, _ in annotations):
            waiting.pop(0)
            annotations = [(named(each), choice) for each, choice in annotations]
        chooser = ".".join([*tables[: len(tables) - len(waiting)], "kind"])
        possible = [
            (inner, (chooser, kind_of(inner)) if len(members(each)) > 1 else choice)
            for each, choice in annotations
            for inner in members(each)
        ]
    return possible if len(possible) > 1 else []


def _kind_elsewhere(word: str, root: type[Section]) -> str:
    """The table that has a kind like this word, where the table that it was given for has none; empty if none has."""
    known: dict[str, str] = {}
    for key in _everywhere(root):
        for section, _ in _alternatives(key.split("."), root):
            for kind in kinds_of(section):
                known.setdefault(kind, key)
    meant = near(word, known, cutoff=_ALIKE)
    return f"; did you mean {known[meant]}.kind = {toml.value(meant)}?" if meant else ""


def _everywhere(section: type[Section], above: str = "") -> Iterator[str]:
    """Every key that there may be, whatever the kinds of tables."""
    for name, annotation in keys(section).items():
        yield above + name
        inside = named(annotation)
        for inner in members(annotation if inside is None else inside):
            yield from _everywhere(inner, f"{above}{name}." if inside is None else f"{above}{name}.NAME.")
