"""Base class of all recipe tables: frozen, strict pydantic models that describe their own keys."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
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
    final,
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
    """A table of a recipe: immutable, strict, and without unknown keys.

    Strict means that values are not converted, except whole numbers where a number with a fraction is expected: `"4"`
    is not a number, `1` is not a truth value, `4.0` is not a whole number, and `inf` and `nan` are not accepted.
    Defaults are validated too, because a default may contradict a given value (4 heads and d_model = 250).

    Attributes:
        shorthands: keys that set several other keys if these are not given; they are not stored.
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
        """Return the JSON schema of the table, with the description of each key."""
        schema = handler(core)
        table = handler.resolve_ref_schema(schema)
        for name, description in cls.describe_keys().items():
            table.get("properties", {}).get(name, {}).setdefault("description", description)
        return schema

    @classmethod
    def describe_keys(cls) -> Mapping[str, str]:
        """Return the description of each key, read from the string below it in the source; read only on demand
        because it takes time.
        """
        bases = [base for base in reversed(cls.__mro__) if issubclass(base, Config)]
        return dict(chain.from_iterable(read_field_docs(base).items() for base in bases))

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yield the keys and values that differ from their defaults, and kinds; `heedful.recipes.load.dump` writes all
        keys.
        """
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in ("kind", "task") or field.is_required() or value != field.get_default():
                yield name, value

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return, by key, the values that newer keys have in the stored table of an older run, which was written before
        these keys existed.

        The values may depend on the other keys of that table.
        """
        return {}

    def find_risks(self, prefix: str) -> Iterator[str]:
        """Yield a sentence for each setting that is allowed but likely to go wrong; `prefix` stands before the keys
        of this table.
        """
        return iter(())


@cache
def read_field_docs(cls: type[Any]) -> Mapping[str, str]:
    """Read the docstrings of the fields that a class defines itself; empty for a class without a source file."""
    try:
        source = inspect.getsource(cls)
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
    """Add the shorthand `layers` to the JSON schema of a model with encoder and decoder layers, in place."""
    schema["properties"]["layers"] = {
        "description": "sets encoder_layers and decoder_layers where they are not given",
        "minimum": 1,
        "type": "integer",
    }


class LayeredConfig(Config):
    """Base of models with an encoder and a decoder: the shorthand `layers` sets the number of layers of both."""

    model_config = ConfigDict(json_schema_extra=_add_layers_to_schema)
    shorthands: ClassVar = {"layers": ("encoder_layers", "decoder_layers")}

    @model_validator(mode="before")
    @classmethod
    def _expand_layers(cls, table: Any) -> Any:
        """Replace the shorthand `layers` of a table by the two keys that it sets, unless they are given themselves.
        Anything but a table is returned as it is.
        """
        if not isinstance(table, dict) or "layers" not in table:
            return table
        layers = dict.fromkeys(cls.shorthands["layers"], table["layers"])
        return layers | {key: value for key, value in table.items() if key != "layers"}


def config_error(key: str, message: str) -> PydanticCustomError:
    """Build the error that a validator raises for a key other than its own; `key` is the full key, as in
    `model.tie`.
    """
    return PydanticCustomError("misfit", "{message}", {"key": key, "message": message})


def add_inferred_kind(infer: Callable[[Mapping[str, Any]], str | None]) -> BeforeValidator:
    """Build a validator that adds the key `kind` to tables without one. `infer` derives its value from the other keys;
    it returns None if it cannot.
    """

    def insert_kind(table: Any) -> Any:
        """Return the table with its kind, if it has none and one can be inferred; anything else as it is."""
        if not isinstance(table, Mapping) or "kind" in table:
            return table
        kind = infer(table)
        return dict(table) if kind is None else {"kind": kind, **table}

    return BeforeValidator(insert_kind)


def add_default_kind(kind: str) -> BeforeValidator:
    """Build a validator that adds this kind to tables without one, whatever their keys are."""
    return add_inferred_kind(lambda _: kind)


@dataclass(frozen=True)
class LengthLimit:
    """Largest number of tokens that a model accepts.

    Attributes:
        key: full key that sets the limit.
        tokens: value of the limit.
    """

    key: str
    tokens: int

    def require_above(self, max_length: int, what: str) -> None:
        """Raise an error unless the limit is above `max_length` (data.max_length), so that a text and its begin or end
        token fit. `what` names the text in the message.
        """
        if self.tokens <= max_length:
            raise config_error(
                self.key,
                f"= {self.tokens} must be above data.max_length = {max_length}, because the token that begins or ends "
                f"{what} also takes a place",
            )


class RecipeRelative:
    """Marks paths that are relative to the folder of the recipe (on a command line, to the current folder)."""


class FieldRole(Enum):
    """Role of a key in a run that has already started; tables pass their role on to keys that have none."""

    FREE = "may change when training is resumed: its start, end or output"
    FIXED = "determines what the model learns"
    ENCODING = "determines how text is encoded as ids"


_WINDOWS_ESCAPES: Final = re.compile(r"(^|[/\\])[A-Za-z]:[\x07\x08\t\n\x0b\x0c\r]")
"""A drive letter followed by a character that a backslash and a letter mean in double quotes; the path may have been
made absolute."""


def _check_path(path: Path) -> Path:
    """Raise `ValueError` if a path contains a character that UTF-8 cannot encode, a line end or a tab, or cannot be the
    name of a file; otherwise return it.
    """
    text = str(path)
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("contains a character that UTF-8 cannot encode; rename the file")
    if problem := find_name_problem(text):
        raise ValueError(f"cannot be a path ({problem}); write a shorter one")
    if _WINDOWS_ESCAPES.search(text):
        raise ValueError(
            r"contains a line end or a tab, which is the meaning of \n and \t in double quotes: write a Windows path "
            r"in single quotes, or with forward slashes"
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
    """Raise `ValueError` if `freeze` is true, so that word vectors stay fixed, but no file of vectors is given."""
    vector_keys = [key for key in ("vectors", "source_vectors", "target_vectors") if key in info.data]
    if freeze and not any(info.data[key] for key in vector_keys):
        raise ValueError(f"has nothing to keep: give {' or '.join(vector_keys)}, or leave it out")
    return freeze


FreezeVectors = Annotated[bool, AfterValidator(_require_vectors)]
"""Type of `freeze_vectors`; the field must come after the keys of the vector files."""
Probability = Annotated[float, Field(ge=0, lt=1)]


@final
class KeyType:
    """Type of a key, read once from its annotation.

    Attributes:
        parts: the plain types, literals and metadata that make up the annotation.
        config_classes: classes of the tables that the key may hold; empty for plain values.
        value_type: type of the values, if the key holds a table with user-defined names; otherwise None.
    """

    def __init__(self, annotation: Any) -> None:
        self.parts = tuple(_list_annotation_parts(annotation))
        self.config_classes = tuple(
            [part for part in self.parts if isinstance(part, type) and issubclass(part, Config)]
        )
        value_types = [KeyType(get_args(part)[1]) for part in self.parts if get_origin(part) is dict]
        self.value_type = value_types[0] if value_types else None

    @cached_property
    def choices(self) -> tuple[Any, ...]:
        """The values that literals of the annotation allow."""
        return tuple(choice for part in self.parts if get_origin(part) is Literal for choice in get_args(part))

    @cached_property
    def is_recipe_relative(self) -> bool:
        """Whether it is a path relative to the folder of the recipe."""
        return any(isinstance(part, RecipeRelative) for part in self.parts)

    def add_kind(self, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the table with a key `kind`, if it has none and there is a rule that infers it from the other keys."""
        for part in self.parts:
            if isinstance(part, BeforeValidator):
                completed: Mapping[str, Any] = part.func(table)  # type: ignore[call-arg]  # ours take one argument
                return completed
        return table

    def select_class(self, table: Any) -> type[Config] | None:
        """Return the config class of a table, chosen by its key `kind`; None if that does not determine it, or for a
        plain value.
        """
        if not self.config_classes or not isinstance(table, Mapping):
            return None
        if len(self.config_classes) == 1:
            return self.config_classes[0]
        kind = self.add_kind(table).get("kind")
        return next((config_class for config_class in self.config_classes if kind in list_kinds(config_class)), None)


def _list_annotation_parts(annotation: Any) -> list[Any]:
    """List the plain types, literals and metadata that make up an annotation."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        return [*_list_annotation_parts(inner), *metadata]
    if origin in (Union, UnionType):
        return [part for member in get_args(annotation) for part in _list_annotation_parts(member)]
    return [annotation]


UNKNOWN_TYPE: Final = KeyType(None)
"""Type of a key that a table does not have."""


@cache
def get_key_types(config_class: type[Config]) -> Mapping[str, KeyType]:
    """Return each key that a table of a config class may have, with its type; shorthands have the type of the key that
    they set.
    """
    hints = get_type_hints(config_class, include_extras=True)
    types = {name: KeyType(hints[name]) for name in config_class.model_fields}
    types |= {name: types[names[0]] for name, names in config_class.shorthands.items()}
    return types


def get_key_type(config_class: type[Config] | None, name: str) -> KeyType:
    """Return the type of a key; `UNKNOWN_TYPE` if the table does not have it, or is itself unknown."""
    return UNKNOWN_TYPE if config_class is None else get_key_types(config_class).get(name, UNKNOWN_TYPE)


def find_keys_with_role(config_class: type[Config], role: FieldRole) -> set[str]:
    """Return the keys of a table that have a role."""
    return {name for name, key_type in get_key_types(config_class).items() if role in key_type.parts}


def iter_fixed_keys(table: Any, *, role: FieldRole = FieldRole.FIXED, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of a table that must not change once a run has started, with their values. `role` is the
    role of keys that have none themselves, and `key` the dotted key of the table.
    """
    prefix = f"{key}." if key else ""
    if isinstance(table, Config):
        key_types = get_key_types(type(table))
        for name in type(table).model_fields:
            roles = (part for part in key_types[name].parts if part in (FieldRole.FREE, FieldRole.FIXED))
            yield from iter_fixed_keys(getattr(table, name), role=next(roles, role), key=f"{prefix}{name}")
    elif isinstance(table, Mapping):
        for name, value in table.items():
            yield from iter_fixed_keys(value, role=role, key=f"{prefix}{name}")
    elif role is FieldRole.FIXED:
        yield key, table


def get_kind(config_class: type[Config]) -> str | None:
    """Return the default value of `kind` that selects a config class; None for a class without alternatives."""
    field = config_class.model_fields.get("kind")
    return None if field is None else str(field.default)


@cache
def list_kinds(config_class: type[Config]) -> tuple[str, ...]:
    """Return all values of `kind` that select a config class, the default first."""
    default = get_kind(config_class)
    if default is None:
        return ()
    return tuple(dict.fromkeys((default, *map(str, get_key_types(config_class)["kind"].choices))))
