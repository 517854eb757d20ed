"""Base class of all recipe tables: frozen, strict pydantic models that describe their own keys."""

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
        inherited = (base.describe_keys() for base in reversed(cls.__bases__) if issubclass(base, Config))
        return {
            **dict(chain.from_iterable(descriptions.items() for descriptions in inherited)),
            **read_field_docs(cls),
        }

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yield the values that differ from their defaults, and kinds; `heedful.recipes.load.dump` writes all keys."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in ("kind", "task") or field.is_required() or value != field.get_default():
                yield name, value

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return the values that newer keys have in the stored table of an older run, which was written before these
        keys existed.

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
    """Add the shorthand `layers` to a JSON schema."""
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
        """Replace `layers` by the two keys that it sets."""
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
    """Build a validator that adds a kind to tables without one; `infer` derives it from the other keys."""

    def insert_kind(table: Any) -> Any:
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
        """Raise an error unless a text of data.max_length tokens and its begin or end token fit; `what` names the
        text.
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
    """Return the path if it can be used; raise `ValueError` otherwise."""
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
    """Return the value unless it is an empty string; raise `ValueError` otherwise."""
    if value == "":
        raise ValueError("must not be empty")
    return value


AnyPath = Annotated[Path, Field(strict=False), BeforeValidator(_require_not_empty), AfterValidator(_check_path)]
InputPath = Annotated[AnyPath, RecipeRelative()]
PositiveInt = Annotated[int, Field(ge=1)]


def _require_vectors(freeze: bool, info: ValidationInfo) -> bool:
    """Raise `ValueError` if vectors are to be frozen but no file of vectors is given."""
    vector_keys = [key for key in ("vectors", "source_vectors", "target_vectors") if key in info.data]
    if freeze and not any(info.data[key] for key in vector_keys):
        raise ValueError(f"has nothing to keep: give {' or '.join(vector_keys)}, or leave it out")
    return freeze


FreezeVectors = Annotated[bool, AfterValidator(_require_vectors)]
"""Type of `freeze_vectors`; the field must come after the keys of the vector files."""
Probability = Annotated[float, Field(ge=0, lt=1)]


@cache
def get_key_annotations(config_class: type[Config]) -> Mapping[str, Any]:
    """Return each key that a table may have with its annotation; shorthands have that of the key that they set."""
    hints = get_type_hints(config_class, include_extras=True)
    annotations = {name: hints[name] for name in config_class.model_fields}
    annotations |= {name: annotations[names[0]] for name, names in config_class.shorthands.items()}
    return annotations


def find_keys_with_role(config_class: type[Config], role: FieldRole) -> set[str]:
    """Return the keys of a table that have a role."""
    return {
        name
        for name, annotation in get_key_annotations(config_class).items()
        if role in iter_annotation_parts(annotation)
    }


def iter_fixed_keys(table: Any, *, role: FieldRole = FieldRole.FIXED, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys that must not change once a run has started, with their values."""
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
    """Yield the plain types, literals and metadata that make up an annotation."""
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
    """Return the annotation of the values of a dict with user-defined names; None for other annotations."""
    return next(
        (
            get_args(annotation_part)[1]
            for annotation_part in iter_annotation_parts(annotation)
            if get_origin(annotation_part) is dict
        ),
        None,
    )


def get_config_classes(annotation: Any) -> tuple[type[Config], ...]:
    """Return the config classes that an annotation allows; empty for plain values."""
    return tuple(
        annotation_part
        for annotation_part in iter_annotation_parts(annotation)
        if isinstance(annotation_part, type) and issubclass(annotation_part, Config)
    )


def get_kind(config_class: type[Config]) -> str | None:
    """Return the default value of `kind` that selects a config class; None for a class without alternatives."""
    field = config_class.model_fields.get("kind")
    return None if field is None else str(field.default)


def list_kinds(config_class: type[Config]) -> tuple[str, ...]:
    """Return all values of `kind` that select a config class, the default first."""
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
    """Return the table with its kind, if the annotation has a rule that infers a missing one."""
    for annotation_part in iter_annotation_parts(annotation):
        if isinstance(annotation_part, BeforeValidator):
            completed: Mapping[str, Any] = annotation_part.func(table)  # type: ignore[call-arg]  # ours take one argument
            return completed
    return table


def select_config_class(annotation: Any, table: Mapping[str, Any]) -> type[Config] | None:
    """Return the config class of a table, chosen by its kind; None if it cannot be determined."""
    candidates = get_config_classes(annotation)
    if len(candidates) == 1:
        return candidates[0]
    kind = add_kind(annotation, table).get("kind")
    return next((config_class for config_class in candidates if kind in list_kinds(config_class)), None)
