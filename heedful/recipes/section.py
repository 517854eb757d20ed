"""What every table of a recipe is: frozen, strict data that knows its own keys."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from heedful.files import name_problem

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class Section(BaseModel):
    """A table of a recipe: immutable, without unknown keys, and strict.

    Strict means that nothing is converted but whole numbers where a number with a fraction is expected:
    `"4"` is no number, `1` is no truth value, `4.0` is no whole number, and `inf` and `nan` are nothing at
    all. Defaults are validated as well, because a default may contradict what was given (4 heads and
    d_model = 250).

    Attributes:
        shorthands: keys that set several others where these are not given; they are not stored.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        validate_default=True,
        defer_build=True,  # a command needs few of them, and building them all takes a while
    )
    shorthands: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(core)
        table = handler.resolve_ref_schema(found)
        for name, about in cls.explanations().items():
            table.get("properties", {}).get(name, {}).setdefault("description", about)
        return found

    @classmethod
    def explanations(cls) -> Mapping[str, str]:
        """What is said of each key below it; read when it is asked for, which few commands do and takes a while."""
        above = (base.explanations() for base in reversed(cls.__bases__) if issubclass(base, Section))
        return {**dict(chain.from_iterable(each.items() for each in above)), **_explanations(cls)}

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """What differs from the defaults, and kinds; `heedful.recipes.load.dump` gives all keys."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in ("kind", "task") or field.is_required() or value != field.get_default():
                yield name, value

    @classmethod
    def formerly(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """What was done before there were the youngest keys, so that the tables of older runs mean what they meant.

        It may depend on the table of such a run, which holds all keys that there were when it began.
        """
        return {}

    def risks(self, above: str) -> Iterator[str]:
        """What is allowed and likely to go wrong, in sentences; `above` is what stands before a key of this table."""
        return iter(())


@cache
def _explanations(section: type[Section]) -> Mapping[str, str]:
    """Of the keys that it has itself; none of a class that was typed in, which no file holds."""
    try:
        source = inspect.getsource(section)
    except (OSError, TypeError):
        return {}
    (body,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(body, ast.ClassDef)
    return {
        key.target.id: inspect.cleandoc(about.value.value)
        for key, about in pairwise(body.body)
        if isinstance(key, ast.AnnAssign)
        and isinstance(key.target, ast.Name)
        and isinstance(about, ast.Expr)
        and isinstance(about.value, ast.Constant)
        and isinstance(about.value.value, str)
    }


def _layers_schema(schema: dict[str, Any]) -> None:
    schema["properties"]["layers"] = {
        "description": "sets encoder_layers and decoder_layers where they are not given",
        "minimum": 1,
        "type": "integer",
    }


class Layered(Section):
    """A model with an encoder and a decoder: `layers` stands for the layers of both."""

    model_config = ConfigDict(json_schema_extra=_layers_schema)
    shorthands: ClassVar = {"layers": ("encoder_layers", "decoder_layers")}

    @model_validator(mode="before")
    @classmethod
    def _expand_layers(cls, table: Any) -> Any:
        if not isinstance(table, dict) or "layers" not in table:
            return table
        layers = dict.fromkeys(cls.shorthands["layers"], table["layers"])
        return layers | {key: value for key, value in table.items() if key != "layers"}


def misfit(key: str, message: str) -> PydanticCustomError:
    """What a validator raises about another key than its own: `key` is complete, as in `model.tie`."""
    return PydanticCustomError("misfit", "{message}", {"key": key, "message": message})


def kind_from(infer: Callable[[Mapping[str, Any]], str | None]) -> BeforeValidator:
    """Adds the kind that `infer` reads from the other keys to tables that do not name theirs."""

    def fill(table: Any) -> Any:
        if not isinstance(table, Mapping) or "kind" in table:
            return table
        kind = infer(table)
        return dict(table) if kind is None else {"kind": kind, **table}

    return BeforeValidator(fill)


def default_kind(kind: str) -> BeforeValidator:
    """Tables without a kind are of this one, never guessed from keys, so that no option changes it unseen."""
    return kind_from(lambda _: kind)


@dataclass(frozen=True)
class Longest:
    """A length that tokens may not exceed: the key that sets it, complete, and its value."""

    key: str
    tokens: int

    def require(self, max_length: int, what: str) -> None:
        """Raises where a text of data.max_length tokens, `what`, has no place for each with the one that begins it."""
        if self.tokens <= max_length:
            raise misfit(
                self.key,
                f"= {self.tokens} must be above data.max_length = {max_length}, the token that begins or ends {what} "
                "takes a place too",
            )


class Anchor:
    """Marks paths that are counted from the recipe's folder (on a command line from the current one)."""


class Mark(Enum):
    """What a key means for a run that has begun; tables hand it down to keys that have none of their own."""

    FREE = "may change between two sittings: how they begin, end or look"
    FIXED = "decides what is learned"
    ENCODES = "says how text becomes ids"


_ESCAPED: Final = re.compile(r"(^|[/\\])[A-Za-z]:[\x07\x08\t\n\x0b\x0c\r]")
"""A drive before what a backslash and a letter are in double quotes; the path may have been made absolute."""


def _usable(path: Path) -> Path:
    text = str(path)
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("holds a character that no path written in UTF-8 can have; rename the file")
    if problem := name_problem(text):
        raise ValueError(f"cannot be a path ({problem}); write a shorter one")
    if _ESCAPED.search(text):
        raise ValueError(
            r"has a line end or a tab in it, as \n and \t mean in double quotes: write a path of Windows in single "
            "quotes, or with forward slashes"
        )
    return path


def _not_empty(value: Any) -> Any:
    if value == "":
        raise ValueError("must not be empty")
    return value


AnyPath = Annotated[Path, Field(strict=False), BeforeValidator(_not_empty), AfterValidator(_usable)]
InputPath = Annotated[AnyPath, Anchor()]
Count = Annotated[int, Field(ge=1)]


def _has_vectors(freeze: bool, info: ValidationInfo) -> bool:
    files = [key for key in ("vectors", "source_vectors", "target_vectors") if key in info.data]
    if freeze and not any(info.data[key] for key in files):
        raise ValueError(f"has nothing to keep: give {' or '.join(files)}, or leave it away")
    return freeze


FreezeVectors = Annotated[bool, AfterValidator(_has_vectors)]
"""Stands behind the keys of files of word vectors."""
Probability = Annotated[float, Field(ge=0, lt=1)]


@cache
def keys(section: type[Section]) -> Mapping[str, Any]:
    """Each key that may stand in the table, with its annotation; shorthands take that of what they set."""
    hints = get_type_hints(section, include_extras=True)
    known = {name: hints[name] for name in section.model_fields}
    known |= {name: known[names[0]] for name, names in section.shorthands.items()}
    return known


def marked(section: type[Section], mark: Mark) -> set[str]:
    """The keys of a table that have a mark."""
    return {name for name, annotation in keys(section).items() if mark in parts(annotation)}


def fixed(table: Any, *, mark: Mark = Mark.FIXED, key: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys in a table that may not change once a run has begun, and their values."""
    above = f"{key}." if key else ""
    if isinstance(table, Section):
        annotations = keys(type(table))
        for name in type(table).model_fields:
            own = next((part for part in parts(annotations[name]) if part in (Mark.FREE, Mark.FIXED)), mark)
            yield from fixed(getattr(table, name), mark=own, key=f"{above}{name}")
    elif isinstance(table, Mapping):
        for name, part in table.items():
            yield from fixed(part, mark=mark, key=f"{above}{name}")
    elif mark is Mark.FIXED:
        yield key, table


def parts(annotation: Any) -> Iterator[Any]:
    """The plain types, literals and metadata that an annotation is put together from."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        yield from parts(inner)
        yield from metadata
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from parts(member)
    else:
        yield annotation


def named(annotation: Any) -> Any | None:
    """What stands below each name in a table whose names are the user's own; None for every other annotation."""
    return next((get_args(part)[1] for part in parts(annotation) if get_origin(part) is dict), None)


def members(annotation: Any) -> tuple[type[Section], ...]:
    """The tables that may stand where `annotation` does; none where a plain value is expected."""
    return tuple(part for part in parts(annotation) if isinstance(part, type) and issubclass(part, Section))


def kind_of(section: type[Section]) -> str | None:
    """The word in `kind` that chooses this table; None for a table without alternatives."""
    field = section.model_fields.get("kind")
    return None if field is None else str(field.default)


def kinds_of(section: type[Section]) -> tuple[str, ...]:
    """All words in `kind` that choose this table, the default first; most tables have one."""
    first = kind_of(section)
    if first is None:
        return ()
    literals = [part for part in parts(keys(section)["kind"]) if get_origin(part) is Literal]
    return tuple(dict.fromkeys((first, *(str(word) for literal in literals for word in get_args(literal)))))


def complete(annotation: Any, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table with its kind, where the annotation has a rule for the one it leaves out."""
    for part in parts(annotation):
        if isinstance(part, BeforeValidator):
            filled: Mapping[str, Any] = part.func(table)  # type: ignore[call-arg]  # ours take one argument
            return filled
    return table


def member(annotation: Any, table: Mapping[str, Any]) -> type[Section] | None:
    """The one of `members(annotation)` that a table is, by its kind; None if that cannot be told."""
    possible = members(annotation)
    if len(possible) == 1:
        return possible[0]
    kind = complete(annotation, table).get("kind")
    return next((section for section in possible if kind in kinds_of(section)), None)
