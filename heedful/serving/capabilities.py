"""What models are asked for, by name: which faces do it, and how each is asked first, looked at and told of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, final

from heedful.serving.registry import LoadedModel, ModelRegistry

_CAPABILITY_MODULES: Final = (
    "heedful.serving.api.translation",
    "heedful.serving.api.generation",
    "heedful.serving.api.encoders",
    "heedful.serving.api.captioning",
    "heedful.serving.api.glimpses",
    "heedful.serving.api.speech",
    "heedful.serving.api.search",
)
"""Modules that have `CAPABILITIES`."""


@final
@dataclass(frozen=True)
class Capability:
    """One thing that models do.

    Attributes:
        name: under which it is asked for.
        predictor_types: faces that do it.
        phrase: what they do, as in: those that `phrase`.
        warm_up: a tiny request to a face, which pays for what is made only once; None where another use has one.
        inspect: how a face is looked at while it does it; None where it is not.
        describe: what whoever asks may want to know of such a model.
    """

    name: str
    predictor_types: tuple[type[Any], ...]
    phrase: str
    warm_up: Callable[[Any], object] | None = None
    inspect: Callable[..., Any] | None = None
    describe: Callable[[LoadedModel[Any]], Mapping[str, Any]] | None = None

    def supports(self, predictor: Any) -> bool:
        """Whether a face does it."""
        return isinstance(predictor, self.predictor_types)


@cache
def all_capabilities() -> Mapping[str, Capability]:
    """All of them, by their names."""
    modules = map(import_module, _CAPABILITY_MODULES)
    return {capability.name: capability for module in modules for capability in module.CAPABILITIES}


def list_capabilities(predictor: Any) -> list[Capability]:
    """What a face does."""
    return [capability for capability in all_capabilities().values() if capability.supports(predictor)]


def has_capable_model(registry: ModelRegistry, capability: str) -> bool:
    """Whether a model does it."""
    return any(all_capabilities()[capability].supports(model.predictor) for model in registry.models.values())


def find_capable_model(registry: ModelRegistry, capability: str, model_name: str | None) -> LoadedModel[Any]:
    """The model that does it, by its name where there are several; `HTTPError` where it is not known which."""
    chosen = all_capabilities()[capability]
    return registry.get_model(chosen.predictor_types, model_name, action=chosen.phrase)
