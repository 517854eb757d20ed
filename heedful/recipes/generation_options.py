"""Options of a search, from the configs of generation: for commands and requests, which change a recipe's config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from heedful.errors import RecipeError
from heedful.recipes.config import Config
from heedful.recipes.error_messages import describe_bound
from heedful.recipes.generation import RECIPE_ONLY

_OPTION_NAMES: Final = {"kind": "search", "width": "beam"}
"""Keys of recipes whose options have another name."""


@dataclass(frozen=True)
class SearchOption:
    """An option of a search.

    Attributes:
        key: its key in a recipe.
        value_type: type of its values, without bounds; None if the option is not given is no part of it.
        bounds: the bounds, as metadata of `Annotated`.
        owner: a config class that has the key.
    """

    key: str
    value_type: Any
    bounds: Sequence[Any]
    owner: type[Config]

    @property
    def name(self) -> str:
        """Its name in commands and requests."""
        return _OPTION_NAMES.get(self.key, self.key)

    def describe(self) -> str:
        """Return its meaning, from the docstring of the key."""
        return "kind of search" if self.key == "kind" else self.owner.describe_keys()[self.key]


def list_kinds(config_type: Any) -> dict[str, type[Config]]:
    """Return the config classes of a union such as `GenerationConfig` by their kind."""
    return {member.model_fields["kind"].default: member for member in get_args(get_args(config_type)[0])}


def list_search_options(config_type: Any) -> list[SearchOption]:
    """List the options of a union of configs: the kind of search, then options of one kind, then those of all."""
    kinds, literal = list_kinds(config_type), Literal
    owners = {key: member for member in kinds.values() for key in member.model_fields if key != "kind"}
    keys = [key for key, member in owners.items() if RECIPE_ONLY not in member.model_fields[key].metadata]
    keys.sort(key=lambda key: _find_owning_kinds(key, config_type) == list(kinds))
    options = [SearchOption(key, *_split_bounds(owners[key].model_fields[key]), owners[key]) for key in keys]
    return [SearchOption("kind", literal[tuple(sorted(kinds))], (), next(iter(kinds.values()))), *options]


def _find_owning_kinds(key: str, config_type: Any) -> list[str]:
    return [kind for kind, member in list_kinds(config_type).items() if key in member.model_fields]


def _split_bounds(field: FieldInfo) -> tuple[Any, Sequence[Any]]:
    """Return the type of the values of a field without None and without bounds, and the bounds."""
    value_type, bounds = field.annotation, list(field.metadata)
    if get_origin(value_type) in (Union, UnionType):
        (value_type,) = (member for member in get_args(value_type) if member is not NoneType)
    if get_origin(value_type) is Annotated:
        value_type, *metadata = get_args(value_type)
        bounds += (bound for part in metadata for bound in (part.metadata if isinstance(part, FieldInfo) else [part]))
    return value_type, bounds


def override_generation(
    generation: Any,
    config_type: Any,
    options: Mapping[str, Any],
    *,
    format_name: Callable[[str], str] = str,
    help_hint: str,
) -> Any:
    """Return the generation config changed by options.

    If the kind of search changes, only the keys that all kinds have are kept. An option of only one kind implies that
    kind, if none is given.

    Args:
        generation: the current config, of one of the kinds of `config_type`.
        config_type: the union of all kinds.
        options: values of options by their names; None stands for an option that is not given.
        format_name: formats the name of an option as the user writes it.
        help_hint: where all options are listed, for messages about unknown ones.

    Raises:
        RecipeError: an option does not belong to the kind of search, or its value is out of range.
    """
    kinds = list_kinds(config_type)
    keys_by_name = {option_name: key for key, option_name in _OPTION_NAMES.items()}
    overrides = {keys_by_name.get(name, name): value for name, value in options.items() if value not in (None, ())}
    owners_of_keys = [_find_owning_kinds(key, config_type) for key in overrides]
    implied_kind = next((kind for kind in reversed(kinds) if [kind] in owners_of_keys), generation.kind)
    kind = overrides.get("kind") or implied_kind
    old_values = generation.model_dump(exclude_none=True)
    kept = {
        key: value
        for key, value in old_values.items()
        if generation.kind == kind or len(_find_owning_kinds(key, config_type)) == len(kinds)
    }

    def format_key(key: str) -> str:
        return format_name(_OPTION_NAMES.get(key, key))

    try:
        return TypeAdapter(config_type).validate_python({**kept, **overrides, "kind": kind})
    except ValidationError as error:
        error_detail = error.errors()[0]
        key = next(str(part) for part in reversed(error_detail["loc"]) if isinstance(part, str))
        if message := describe_bound(error_detail) or error_detail.get("ctx", {}).get("error"):
            raise RecipeError(f"{format_key(key)}: {error_detail['input']} {message}") from None
        owners = _find_owning_kinds(key, config_type)
        reason = "is not an option of it" if error_detail["type"] == "extra_forbidden" else error_detail["msg"].lower()
        remedy = help_hint
        if owners and kind not in owners:
            remedy = "leave it out, or give " + " or ".join(f"{format_key('kind')} {owner}" for owner in owners)
        raise RecipeError(f"{format_key(key)}: does not fit {format_key('kind')} {kind} ({reason}); {remedy}") from None
