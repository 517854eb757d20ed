"""Load the models and indices that the settings name into a registry, and warm them up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from heedful.errors import HeedfulError, RecipeError
from heedful.serving.capabilities import list_capabilities
from heedful.serving.deadline import RequestDeadline
from heedful.serving.languages import find_languages
from heedful.serving.registry import LoadedModel, ModelRegistry, index_key
from heedful.serving.settings import ModelSettings, ServerSettings

if TYPE_CHECKING:
    from heedful.serving.inference_request import InferenceBackend


_WARM_UP_SECONDS: Final = 600.0


def load_registry(settings: ServerSettings, log: Callable[[str], None] = lambda _: None) -> ModelRegistry:
    """Load everything that the settings name and return a registry that is ready; `log` is called with messages about
    assumptions.

    Raises:
        RecipeError: something cannot be computed on the device in the settings.
        RunError: a folder is missing or damaged.
    """
    registry = ModelRegistry(settings, {}, {})
    load_into(registry, log)
    registry.state = "ready"
    return registry


def load_into(
    registry: ModelRegistry, log: Callable[[str], None], build_backend: Callable[[str], InferenceBackend] | None = None
) -> None:
    """Load the models and indices of the registry's settings into it; see `load_registry`.

    Args:
        registry: that receives them.
        log: called with messages about assumptions.
        build_backend: returns the backend for a model of this name; by default a scheduler thread in this
            process.
    """
    settings, build_backend = registry.settings, build_backend or partial(_build_scheduler, registry)
    if settings.threads is not None:
        import torch

        torch.set_num_threads(settings.threads)
    from heedful.runs.prepare import read_run_id

    for name, model_settings in settings.models.items():
        run_id = read_run_id(model_settings.run)
        for served_name, predictor in _load_predictors(name, model_settings, settings, log):
            model_languages = find_languages(predictor, model_settings, name=served_name, log=log)
            registry.models[served_name] = LoadedModel(
                served_name,
                predictor,
                settings,
                model_languages=model_languages,
                backend=build_backend(served_name),
                run_id=run_id,
            )
    if settings.indices:
        from heedful.retrieval.index import load_index

        for name, index in settings.indices.items():
            passage_index = load_index(index.folder, device=settings.device, say=log)
            if passage_index.has_vectors:
                _ = passage_index.encoder  # loaded before the first request, as messages between processes name it
            registry.indices[name] = LoadedModel(name, passage_index, settings, backend=build_backend(index_key(name)))


def _build_scheduler(registry: ModelRegistry, name: str) -> InferenceBackend:
    """Start a scheduler for the model of this name, whose work is counted in the metrics of the registry."""
    from heedful.serving.scheduler import Scheduler  # which reads torch

    on_batch, on_tokens = partial(registry.metrics.record_batch, name), partial(registry.metrics.count_tokens, name)
    return Scheduler(max_rows=registry.settings.limits.rows, on_batch=on_batch, on_tokens=on_tokens)


def _load_predictors(
    name: str, model_settings: ModelSettings, settings: ServerSettings, log: Callable[[str], None]
) -> list[tuple[str, Any]]:
    """Load the run of a model and return its predictors with the names under which they are served: `name`, or
    `name/TASK` for each task if the run has several and the settings of the model choose none. `log` is called with
    messages about assumptions.
    """
    from heedful.runs.load import load
    from heedful.tasks.predictor import MultiHeadPredictor

    predictor = load(
        model_settings.run,
        device=settings.device,
        engine=model_settings.engine,
        adapter=model_settings.adapter,
        say=log,
    )
    if not isinstance(predictor, MultiHeadPredictor):
        return [(name, predictor)]
    if model_settings.task is not None:
        return [(name, predictor.head(model_settings.task))]
    return [(f"{name}/{task_name}", predictor.head(task_name)) for task_name in predictor.names]


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
            log(f"{name}: could not be warmed up, so its first request will take longer ({error})")


def _build_warm_up(name: str, predictor: Any) -> Callable[[], object]:
    """Return a function that sends a predictor the tiny request of one of its capabilities; raise a `RecipeError`,
    which calls the model by `name`, if none has one.
    """
    warm_up = next(
        (capability.warm_up for capability in list_capabilities(predictor) if capability.warm_up is not None), None
    )
    if warm_up is None:
        raise RecipeError(f"{name}: is a {type(predictor).__name__}, which cannot be used over HTTP; leave it out")
    return partial(warm_up, predictor)
