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

from heedful.files import find_name_problem

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class Config(BaseModel):
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
        schema = handler(core)
        table = handler.resolve_ref_schema(schema)
        for name, description in cls.describe_keys().items():
            table.get("properties", {}).get(name, {}).setdefault("description", description)
        return schema

    @classmethod
    def describe_keys(cls) -> Mapping[str, str]:
        """What is said of each key below it; read when it is asked for, which few commands do and takes a while."""
        inherited = (base.describe_keys() for base in reversed(cls.__bases__) if issubclass(base, Config))
        return {
            **dict(chain.from_iterable(descriptions.items() for descriptions in inherited)),
            **_read_key_descriptions(cls),
        }

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """What differs from the defaults, and kinds; `heedful.recipes.load.dump` gives all keys."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in ("kind", "task") or field.is_required() or value != field.get_default():
                yield name, value

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """What was done before there were the youngest keys, so that the tables of older runs mean what they meant.

        It may depend on the table of such a run, which holds all keys that there were when it began.
        """
        return {}

    def find_risks(self, prefix: str) -> Iterator[str]:
        """What is allowed and likely to go wrong, in sentences; `prefix` is what stands before a key of this table."""
        return iter(())


@cache
def _read_key_descriptions(config_class: type[Config]) -> Mapping[str, str]:
    """Of the keys that it has itself; none of a class that was typed in, which no file holds."""
    try:
        source = inspect.getsource(config_class)
    except (OSError, TypeError):
        return {}
    (body,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(body, ast.ClassDef)
    return {
        key.target.id: inspect.cleandoc(description.value.value)
        for key, description in pairwise(body.body)
        if isinstance(key, ast.AnnAssign)
        and isinstance(key.target, ast.Name)
        and isinstance(description, ast.Expr)
        and isinstance(description.value, ast.Constant)
        and isinstance(description.value.value, str)
    }


def _add_layers_to_schema(schema: dict[str, Any]) -> None:
    schema["properties"]["layers"] = {
        "description": "sets encoder_layers and decoder_layers where they are not given",
        "minimum": 1,
        "type": "integer",
    }


class LayeredConfig(Config):
    """A model with an encoder and a decoder: `layers` stands for the layers of both."""

    model_config = ConfigDict(json_schema_extra=_add_layers_to_schema)
    shorthands: ClassVar = {"layers": ("encoder_layers", "decoder_layers")}

    @model_validator(mode="before")
    @classmethod
    def _expand_layers(cls, table: Any) -> Any:
        if not isinstance(table, dict) or "layers" not in table:
            return table
        layers = dict.fromkeys(cls.shorthands["layers"], table["layers"])
        return layers | {key: value for key, value in table.items() if key != "layers"}


def config_error(key: str, message: str) -> PydanticCustomError:
    """What a validator raises about another key than its own: `key` is complete, as in `model.tie`."""
    return PydanticCustomError("misfit", "{message}", {"key": key, "message": message})


def add_inferred_kind(infer: Callable[[Mapping[str, Any]], str | None]) -> BeforeValidator:
    """Adds the kind that `infer` reads from the other keys to tables that do not name theirs."""

    def insert_kind(table: Any) -> Any:
        if not isinstance(table, Mapping) or "kind" in table:
            return table
        kind = infer(table)
        return dict(table) if kind is None else {"kind": kind, **table}

    return BeforeValidator(insert_kind)


def add_default_kind(kind: str) -> BeforeValidator:
    """Tables without a kind are of this one, never guessed from keys, so that no option changes it unseen."""
    return add_inferred_kind(lambda _: kind)


@dataclass(frozen=True)
class LengthLimit:
    """A length that tokens may not exceed: the key that sets it, complete, and its value."""

    key: str
    tokens: int

    def require_above(self, max_length: int, what: str) -> None:
        """Raises where a text of data.max_length tokens, `what`, has no place for each with the one that begins it."""
        if self.tokens <= max_length:
            raise config_error(
                self.key,
                f"= {self.tokens} must be above data.max_length = {max_length}, the token that begins or ends {what} "
                "takes a place too",
            )


class RecipeRelative:
    """Marks paths that are counted from the recipe's folder (on a command line from the current one)."""


class FieldRole(Enum):
    """What a key means for a run that has begun; tables hand it down to keys that have none of their own."""

    FREE = "may change between two sittings: how they begin, end or look"
    FIXED = "decides what is learned"
    ENCODING = "says how text becomes ids"


_WINDOWS_ESCAPES: Final = re.compile(r"(^|[/\\])[A-Za-z]:[\x07\x08\t\n\x0b\x0c\r]")
"""A drive before what a backslash and a letter are in double quotes; the path may have been made absolute."""


def _check_path(path: Path) -> Path:
    text = str(path)
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("holds a character that no path written in UTF-8 can have; rename the file")
    if problem := find_name_problem(text):
        raise ValueError(f"cannot be a path ({problem}); write a shorter one")
    if _WINDOWS_ESCAPES.search(text):
        raise ValueError(
            r"has a line end or a tab in it, as \n and \t mean in double quotes: write a path of Windows in single "
            "quotes, or with forward slashes"
        )
    return path


def _require_not_empty(value: Any) -> Any:
    if value == "":
        raise ValueError("must not be empty")
    return value


AnyPath = Annotated[Path, Field(strict=False), BeforeValidator(_require_not_empty), AfterValidator(_check_path)]
InputPath = Annotated[AnyPath, RecipeRelative()]
PositiveInt = Annotated[int, Field(ge=1)]


def _require_vectors(freeze: bool, info: ValidationInfo) -> bool:
    vector_keys = [key for key in ("vectors", "source_vectors", "target_vectors") if key in info.data]
    if freeze and not any(info.data[key] for key in vector_keys):
        raise ValueError(f"has nothing to keep: give {' or '.join(vector_keys)}, or leave it away")
    return freeze


FreezeVectors = Annotated[bool, AfterValidator(_require_vectors)]
"""Stands behind the keys of files of word vectors."""
Probability = Annotated[float, Field(ge=0, lt=1)]


@cache
def get_key_annotations(config_class: type[Config]) -> Mapping[str, Any]:
    """Each key that may stand in the table, with its annotation; shorthands take that of what they set."""
    hints = get_type_hints(config_class, include_extras=True)
    annotations = {name: hints[name] for name in config_class.model_fields}
    annotations |= {name: annotations[names[0]] for name, names in config_class.shorthands.items()}
    return annotations


def find_keys_with_role(config_class: type[Config], role: FieldRole) -> set[str]:
    """The keys of a table that have a mark."""
    return {
        name
        for name, annotation in get_key_annotations(config_class).items()
        if role in iter_annotation_parts(annotation)
    }


def iter_fixed_keys(table: Any, *, role: FieldRole = FieldRole.FIXED, key: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys in a table that may not change once a run has begun, and their values."""
    prefix = f"{key}." if key else ""
    if isinstance(table, Config):
        annotations = get_key_annotations(type(table))
        for name in type(table).model_fields:
            own_role = next(
                (
                    value
                    for value in iter_annotation_parts(annotations[name])
                    if value in (FieldRole.FREE, FieldRole.FIXED)
                ),
                role,
            )
            yield from iter_fixed_keys(getattr(table, name), role=own_role, key=f"{prefix}{name}")
    elif isinstance(table, Mapping):
        for name, value in table.items():
            yield from iter_fixed_keys(value, role=role, key=f"{prefix}{name}")
    elif role is FieldRole.FIXED:
        yield key, table


def iter_annotation_parts(annotation: Any) -> Iterator[Any]:
    """The plain types, literals and metadata that an annotation is put together from."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        yield from iter_annotation_parts(inner)
        yield from metadata
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from iter_annotation_parts(member)
    else:
        yield annotation


def get_dict_value_annotation(annotation: Any) -> Any | None:
    """What stands below each name in a table whose names are the user's own; None for every other annotation."""
    return next(
        (
            get_args(annotation_part)[1]
            for annotation_part in iter_annotation_parts(annotation)
            if get_origin(annotation_part) is dict
        ),
        None,
    )


def get_config_classes(annotation: Any) -> tuple[type[Config], ...]:
    """The tables that may stand where `annotation` does; none where a plain value is expected."""
    return tuple(
        annotation_part
        for annotation_part in iter_annotation_parts(annotation)
        if isinstance(annotation_part, type) and issubclass(annotation_part, Config)
    )


def get_kind(config_class: type[Config]) -> str | None:
    """The word in `kind` that chooses this table; None for a table without alternatives."""
    field = config_class.model_fields.get("kind")
    return None if field is None else str(field.default)


def list_kinds(config_class: type[Config]) -> tuple[str, ...]:
    """All words in `kind` that choose this table, the default first; most tables have one."""
    default = get_kind(config_class)
    if default is None:
        return ()
    literals = [
        annotation_part
        for annotation_part in iter_annotation_parts(get_key_annotations(config_class)["kind"])
        if get_origin(annotation_part) is Literal
    ]
    return tuple(dict.fromkeys((default, *(str(word) for literal in literals for word in get_args(literal)))))


def add_kind(annotation: Any, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table with its kind, where the annotation has a rule for the one it leaves out."""
    for annotation_part in iter_annotation_parts(annotation):
        if isinstance(annotation_part, BeforeValidator):
            completed: Mapping[str, Any] = annotation_part.func(table)  # type: ignore[call-arg]  # ours take one argument
            return completed
    return table


def select_config_class(annotation: Any, table: Mapping[str, Any]) -> type[Config] | None:
    """The one of `get_config_classes(annotation)` that a table is, by its kind; None if that cannot be told."""
    candidates = get_config_classes(annotation)
    if len(candidates) == 1:
        return candidates[0]
    kind = add_kind(annotation, table).get("kind")
    return next((config_class for config_class in candidates if kind in list_kinds(config_class)), None)
