"""Send each model a first request, so that no client waits for one-time initialisation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from heedful.errors import HeedfulError, RecipeError
from heedful.serving.capabilities import list_capabilities
from heedful.serving.deadline import RequestDeadline
from heedful.serving.registry import ModelRegistry

_WARM_UP_SECONDS: Final = 600.0


def warm_up_models(registry: ModelRegistry, log: Callable[[str], None]) -> None:
    """Send a tiny request to every model and index, through the same path as client requests.

    Args:
        registry: with its models.
        log: called if a model cannot answer the request.

    Raises:
        RecipeError: a model is of a type that no route serves.
    """
    for name, model in (*registry.models.items(), *registry.indices.items()):
        request = _build_warm_up(name, model.predictor)
        try:
            asyncio.run(model.run(RequestDeadline.from_seconds(_WARM_UP_SECONDS), request))
        except HeedfulError as error:
            log(f"{name}: is not warm, its first request will take longer ({error})")


def _build_warm_up(name: str, predictor: Any) -> Callable[[], object]:
    """Return a tiny request to a predictor, as a function without arguments."""
    warm_up = next(
        (capability.warm_up for capability in list_capabilities(predictor) if capability.warm_up is not None), None
    )
    if warm_up is None:
        raise RecipeError(f"{name}: is a {type(predictor).__name__}, which cannot be used over HTTP; leave it out")
    return partial(warm_up, predictor)
