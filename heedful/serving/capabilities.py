"""What models can do, by name: which predictors do it, and how each is warmed up, inspected and described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, final

from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import Route, declare_route

CAPABILITY_MODULES: Final = (
    "heedful.serving.api.translation",
    "heedful.serving.api.generation",
    "heedful.serving.api.encoders",
    "heedful.serving.api.media",
    "heedful.serving.api.search",
)
"""Modules with a constant `CAPABILITIES`, and the routes for these."""


@final
@dataclass(frozen=True)
class Capability:
    """One thing that models can do, as translating.

    Attributes:
        name: under which it is requested.
        predictor_types: types of predictors that do it.
        phrase: what they do, as in "those that translate".
        warm_up: sends a tiny request to a predictor; None if another capability has one.
        inspect: returns a function that records what a predictor attends to; None if it cannot be
            inspected.
        describe: returns facts about a model for clients.
    """

    name: str
    predictor_types: tuple[type[Any], ...]
    phrase: str
    warm_up: Callable[[Any], object] | None = None
    inspect: Callable[..., Any] | None = None
    describe: Callable[[LoadedModel[Any]], Mapping[str, Any]] | None = None

    def supports(self, predictor: Any) -> bool:
        """Return whether a predictor does it."""
        return isinstance(predictor, self.predictor_types)


@cache
def all_capabilities() -> Mapping[str, Capability]:
    """Return all capabilities by name."""
    modules = map(import_module, CAPABILITY_MODULES)
    return {capability.name: capability for module in modules for capability in module.CAPABILITIES}


def list_capabilities(predictor: Any) -> list[Capability]:
    """Return the capabilities of a predictor."""
    return [capability for capability in all_capabilities().values() if capability.supports(predictor)]


def has_capable_model(registry: ModelRegistry, capability: str) -> bool:
    """Return whether any served model has this capability."""
    return any(all_capabilities()[capability].supports(model.predictor) for model in registry.models.values())


def find_capable_model(registry: ModelRegistry, capability: str, model_name: str | None) -> LoadedModel[Any]:
    """Return the served model of this name; None means the only one that has a capability, which is given by name, as
    `translate`. Raise an `HTTPError` if no model fits, or several do and none is named.
    """
    chosen = all_capabilities()[capability]
    return registry.get_model(chosen.predictor_types, model_name, action=chosen.phrase)


def declare_model_route(
    name: str, summary: str, response_type: Any, *examples: Mapping[str, Any], **options: Any
) -> Callable[[Callable[..., Any]], Route]:
    """Make the decorated handler the route of the capability `name`, which is served if a model has it. `examples` are
    examples of requests; the other parameters are further attributes of `Route`.
    """
    is_served = partial(has_capable_model, capability=name)
    return declare_route(
        f"/v1/heedful/{name}", summary, response_type=response_type, examples=examples, is_served=is_served, **options
    )
