"""Fields of requests for the options of a search, which the configs of recipes declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from annotated_types import Le, Lt
from pydantic import BaseModel, Field, create_model

from heedful.recipes.generation import list_search_options
from heedful.serving.routes import MAX_FACTOR, MAX_INTEGER

MessageT = TypeVar("MessageT", bound=BaseModel)


def add_search_fields(
    config_type: Any, *, limits: Mapping[str, Any] | None = None, excluded: tuple[str, ...] = (), note: str = ""
) -> Callable[[type[MessageT]], type[MessageT]]:
    """Decorate a request class: add a field for each option of a search that the class does not declare itself.

    Values have the bounds of the recipe. A number without an upper bound there gets the server's.

    Args:
        config_type: union of the configs with the options (`list_search_options`).
        limits: further bounds by the name of an option.
        excluded: names of options that get no field.
        note: text after each description.
    """

    def add_fields(cls: type[MessageT]) -> type[MessageT]:
        own_names = cls.__annotations__.keys() | set(excluded)
        new_fields: dict[str, Any] = {}
        for option in list_search_options(config_type):
            if option.name in own_names:
                continue
            bounds = [*option.bounds, *filter(None, [(limits or {}).get(option.name)])]
            if option.value_type in (int, float) and not any(isinstance(bound, Le | Lt) for bound in bounds):
                bounds.append(Le(MAX_INTEGER if option.value_type is int else MAX_FACTOR))
            value_type = Annotated[option.value_type, *bounds] if bounds else option.value_type
            new_fields[option.name] = (value_type | None, Field(None, description=option.describe() + note))
        return create_model(cls.__name__, __base__=cls, __module__=cls.__module__, __doc__=cls.__doc__, **new_fields)

    return add_fields


def read_search_options(message: BaseModel, config_type: Any) -> dict[str, Any]:
    """Return the options of a search that a request gives, by their names."""
    values = {option.name: getattr(message, option.name, None) for option in list_search_options(config_type)}
    return {name: value for name, value in values.items() if value is not None}
