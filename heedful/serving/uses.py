"""What models are asked for, by name: which faces do it, and how each is asked first, looked at and told of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, final

from heedful.serving.house import House, Model

_ANSWERED_IN: Final = (
    "heedful.serving.own.translating",
    "heedful.serving.own.writing",
    "heedful.serving.own.reading",
    "heedful.serving.own.seeing",
    "heedful.serving.own.glimpsing",
    "heedful.serving.own.hearing",
    "heedful.serving.own.searching",
)
"""Modules that have `USES`."""


@final
@dataclass(frozen=True)
class Use:
    """One thing that models do.

    Attributes:
        name: under which it is asked for.
        kinds: faces that do it.
        words: what they do, as in: those that `words`.
        first: a tiny request to a face, which pays for what is made only once; None where another use has one.
        look: how a face is looked at while it does it; None where it is not.
        facts: what whoever asks may want to know of such a model.
    """

    name: str
    kinds: tuple[type[Any], ...]
    words: str
    first: Callable[[Any], object] | None = None
    look: Callable[..., Any] | None = None
    facts: Callable[[Model[Any]], Mapping[str, Any]] | None = None

    def does(self, face: Any) -> bool:
        """Whether a face does it."""
        return isinstance(face, self.kinds)


@cache
def uses() -> Mapping[str, Use]:
    """All of them, by their names."""
    return {use.name: use for module in _ANSWERED_IN for use in import_module(module).USES}


def uses_of(face: Any) -> list[Use]:
    """What a face does."""
    return [use for use in uses().values() if use.does(face)]


def is_served(house: House, name: str) -> bool:
    """Whether a model does it."""
    return any(uses()[name].does(model.face) for model in house.models.values())


def model_for(house: House, name: str, model: str | None) -> Model[Any]:
    """The model that does it, by its name where there are several; `Refusal` where it is not known which."""
    use = uses()[name]
    return house.model(use.kinds, model, use=use.words)
