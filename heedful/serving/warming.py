"""The first request of each model, so that nobody who asks pays for what is made only once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from heedful.errors import HeedfulError, RecipeError
from heedful.serving.house import House
from heedful.serving.term import Term
from heedful.serving.uses import uses_of

_SECONDS: Final = 600.0


def warm(house: House, say: Callable[[str], None]) -> None:
    """Asks every model and index of a house for something tiny, the way in which requests ask.

    Args:
        house: with its models.
        say: told which model said that it cannot answer that.

    Raises:
        RecipeError: a model is of a kind that no route asks.
    """
    for name, model in (*house.models.items(), *house.indices.items()):
        first = _first(name, model.face)
        try:
            asyncio.run(model.ask(Term.of(_SECONDS), first))
        except HeedfulError as error:
            say(f"{name}: is not warm, its first request will take longer ({error})")


def _first(name: str, face: Any) -> Callable[[], object]:
    """A request that a face answers."""
    first = next((use.first for use in uses_of(face) if use.first is not None), None)
    if first is None:
        raise RecipeError(f"{name}: is a {type(face).__name__}, which cannot be asked over HTTP; leave it out")
    return partial(first, face)
