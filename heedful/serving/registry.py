"""The loaded models by name, and the objects that all requests share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

from heedful.serving.auth import Authenticator
from heedful.serving.deadline import RequestDeadline
from heedful.serving.http_errors import bad_request, not_found, unavailable
from heedful.serving.languages import ModelLanguages
from heedful.serving.metrics import ServerMetrics, WorkerState
from heedful.serving.request_log import note_request
from heedful.serving.resource_limits import MemoryBudget, WorkQueue
from heedful.serving.settings import ServerSettings
from heedful.serving.tracing import RequestTracer

if TYPE_CHECKING:
    from heedful.serving.inference_request import InferenceBackend

T = TypeVar("T")
Event = TypeVar("Event")
PredictorT = TypeVar("PredictorT")

_END_OF_STREAM: Final = object()
_FILE_THREADS: Final = 4
"""Threads that parse files. Python runs one thread at a time, so more would make each slower."""


@final
class LoadedModel(Generic[PredictorT]):
    """A loaded predictor that answers many requests at the same time.

    Args:
        name: under which it is served.
        predictor: the loaded predictor.
        settings: with the limits.
        model_languages: its translation directions, as far as they are known.
        backend: runs its computations; a scheduler thread in this process by default.
        run_id: id of the run that trained it, for the log.
    """

    def __init__(
        self,
        name: str,
        predictor: PredictorT,
        settings: ServerSettings,
        *,
        model_languages: ModelLanguages = ModelLanguages(),  # noqa: B008 - frozen
        backend: InferenceBackend | None = None,
        run_id: str | None = None,
    ) -> None:
        self.name = name
        self.run_id = run_id
        self.predictor = predictor
        self.model_languages = model_languages
        self.created = int(time.time())
        self._queue = WorkQueue(name, threads=settings.limits.queue, max_requests=settings.limits.queue)
        if backend is None:
            from heedful.serving.scheduler import (
                Scheduler,
            )  # which reads torch, and the server answers before torch is loaded

            backend = Scheduler(max_rows=settings.limits.rows)
        self.backend = backend

    @property
    def language_pair(self) -> tuple[str | None, str | None]:
        """Its source and target language; each is None if it is unknown or there are several."""
        return self.model_languages.source, self.model_languages.target

    @property
    def num_waiting(self) -> int:
        """Number of requests that wait for an answer or are being answered."""
        return self._queue.num_waiting

    async def run(self, deadline: RequestDeadline, work: Callable[[], T]) -> T:
        """Run `work` in a thread and return its result; model calls in it are batched with those of other requests.

        Raises:
            HTTPError: too many requests are waiting, or the deadline has passed.
            ClientDisconnected: the client has disconnected.
        """
        note_request(model=self.name, run_id=self.run_id)
        return await self._queue.run(deadline, self._with_executor(deadline, work))

    def submit(self, deadline: RequestDeadline, work: Callable[[], T]) -> Future[T]:
        """Submit `work` to a thread, where model calls in it are batched with those of other requests, and return the
        future of its result. The number of waiting requests is not limited.
        """
        return self._queue.submit(deadline, self._with_executor(deadline, work))

    async def stream(
        self, deadline: RequestDeadline, work: Callable[[Callable[[Event], None]], object]
    ) -> AsyncIterator[Event]:
        """Run `work` in a thread, within the deadline, and yield the events that it passes to its argument, a callback.
        The deadline is cancelled when the stream ends.
        """
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Any] = asyncio.Queue()

        def emit(event: Event) -> None:
            """Pass an event from the worker thread to the event loop."""
            loop.call_soon_threadsafe(events.put_nowait, event)

        def end_stream(future: asyncio.Future[Any]) -> None:
            """End the stream when the work has ended or was cancelled."""
            events.put_nowait(_END_OF_STREAM)  # whether it finished, failed or never began
            _ = future.cancelled() or future.exception()  # a cancelled caller needs no answer

        note_request(model=self.name, run_id=self.run_id)
        with self._queue.reserve_slot():
            task = asyncio.wrap_future(self.submit(deadline, lambda: work(emit)))
            task.add_done_callback(end_stream)
            try:
                while (event := await events.get()) is not _END_OF_STREAM:
                    yield event
                await task
            finally:
                deadline.cancel()

    def close(self) -> None:
        """Stop accepting requests; the threads end as soon as they are idle."""
        self._queue.close()
        self.backend.close()

    def _with_executor(self, deadline: RequestDeadline, work: Callable[[], T]) -> Callable[[], T]:
        """Wrap `work` so that model calls in it go through the backend, within the deadline."""
        from heedful.tasks.batch_executor import use_executor

        def run() -> T:
            with use_executor(self.backend.build_executor(deadline)):
                return work()

        return run


def index_key(name: str) -> str:
    """Return the key of an index among models, since a model may have the same name."""
    return f"index {name}"


@final
class ModelRegistry:
    """All models and indices that are served, with the state that their requests share.

    Attributes:
        settings: of the server.
        models: by name, in the order of the settings.
        indices: of passages, by name; requests run on them as on models.
        state: `loading`, `ready` or `ending`.
        authenticator: checks keys and rate limits.
        decoding_memory: budget of bytes for decoding what requests send.
        file_queue: threads that parse files.
        metrics: counters for Prometheus.
        tracer: starts spans of requests; None if they are not traced.
        started_at: when the server was started, on the `time.monotonic` clock.
        list_workers: returns the state of each process that computes.

    Raises:
        RecipeError: the file of API keys cannot be read.
    """

    def __init__(
        self, settings: ServerSettings, models: Mapping[str, LoadedModel[Any]], indices: Mapping[str, LoadedModel[Any]]
    ) -> None:
        self.settings = settings
        self.models = dict(models)
        self.indices = dict(indices)
        self.state: str = "loading"
        self.authenticator = Authenticator(settings)
        self.decoding_memory = MemoryBudget(settings.limits.decoding)
        self.file_queue = WorkQueue("files", threads=_FILE_THREADS, max_requests=settings.limits.queue)
        self.started_at = time.monotonic()
        self.list_workers: Callable[[], Sequence[WorkerState]] = lambda: ()
        self.metrics = ServerMetrics(self)
        self.tracer: RequestTracer | None = None
        self._shared: dict[Callable[[ModelRegistry], Any], Any] = {}

    @property
    def models_and_indices(self) -> Mapping[str, LoadedModel[Any]]:
        """All models and indices by unique keys."""
        return {**{index_key(name): index for name, index in self.indices.items()}, **self.models}

    def get_shared(self, build: Callable[[ModelRegistry], T]) -> T:
        """Return what `build` makes for this registry; it is made once, for all requests."""
        if build not in self._shared:
            self._shared[build] = build(self)
        shared: T = self._shared[build]
        return shared

    def find_models(self, predictor_type: type[PredictorT]) -> list[LoadedModel[PredictorT]]:
        """Return the models whose predictor is of this type."""
        return [model for model in self.models.values() if isinstance(model.predictor, predictor_type)]

    def get_model(
        self, predictor_type: type[PredictorT] | tuple[type[Any], ...], name: str | None, *, action: str
    ) -> LoadedModel[Any]:
        """Return the model of this name, or the only one of this type if no name is given.

        Args:
            predictor_type: one type of predictor, or several.
            name: under which the model is served; may be None if only one model fits.
            action: what such models do, for messages, as `translate`.

        Raises:
            HTTPError: no model fits, or several do and none is named.
        """
        predictor_types = predictor_type if isinstance(predictor_type, tuple) else (predictor_type,)
        candidates = [model for model in self.models.values() if isinstance(model.predictor, predictor_types)]
        names = ", ".join(model.name for model in candidates) or "none"
        if name is None:
            if len(candidates) == 1:
                return candidates[0]
            several = f"model: several {action}: {names}; name one"
            raise bad_request(several if candidates else f"model: this server has none that {action}", param="model")
        if name not in self.models:
            message = f"model: {name!r} is not served here; those that {action}: {names}"
            raise not_found(message, param="model", code="model_not_found")
        if self.models[name] not in candidates:
            raise bad_request(f"model: {name!r} is not among those that {action}: {names}", param="model")
        return self.models[name]

    def require_ready(self) -> None:
        """Raise a 503 `HTTPError` unless the models are loaded, their backends run, and the server is not shutting
        down.
        """
        if self.state != "ready":
            raise unavailable(self.state)
        if not self.has_ready_backends:
            raise unavailable("loading")

    @property
    def has_ready_backends(self) -> bool:
        """Whether all models and indices can be computed now."""
        return all(model.backend.is_ready for model in (*self.models.values(), *self.indices.values()))
