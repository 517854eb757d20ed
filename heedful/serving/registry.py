"""The models that are served, by their names, and what all requests share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

from heedful.serving.auth import Authenticator
from heedful.serving.deadline import ClientDisconnected, RequestDeadline
from heedful.serving.http_errors import bad_request, not_found, unavailable
from heedful.serving.languages import ModelLanguages
from heedful.serving.memory_budget import MemoryBudget
from heedful.serving.metrics import ServerMetrics
from heedful.serving.request_log import note_request
from heedful.serving.settings import ServerSettings
from heedful.serving.work_queue import WorkQueue

if TYPE_CHECKING:
    from heedful.serving.inference_request import InferenceBackend

T = TypeVar("T")
Event = TypeVar("Event")
PredictorT = TypeVar("PredictorT")

_END_OF_STREAM: Final = object()
_FILE_THREADS: Final = 4
"""Files that are parsed at one time: Python runs one thread at a time, so more would make each slower."""


@final
class LoadedModel(Generic[PredictorT]):
    """One face, which answers many at a time.

    Args:
        name: under which it is asked for.
        predictor: that answers.
        settings: the limits.
        model_languages: what it translates, as far as that is known.
        backend: computes what the face asks; a thread of this process unless given.
    """

    def __init__(
        self,
        name: str,
        predictor: PredictorT,
        settings: ServerSettings,
        *,
        model_languages: ModelLanguages = ModelLanguages(),  # noqa: B008 - frozen
        backend: InferenceBackend | None = None,
    ) -> None:
        self.name = name
        self.predictor = predictor
        self.model_languages = model_languages
        self.created = int(time.time())
        self._queue = WorkQueue(name, threads=settings.limits.queue, max_requests=settings.limits.queue)
        if backend is None:
            from heedful.serving.scheduler import Scheduler  # which reads torch, and a house answers before it is there

            backend = Scheduler(max_rows=settings.limits.rows)
        self.backend = backend

    @property
    def language_pair(self) -> tuple[str | None, str | None]:
        """What it reads and what it writes, each where that is known and one language."""
        return self.model_languages.source, self.model_languages.target

    @property
    def num_waiting(self) -> int:
        """Requests that wait for an answer or are being answered."""
        return self._queue.num_waiting

    async def run(self, deadline: RequestDeadline, work: Callable[[], T]) -> T:
        """What `work` gives, which asks the face; it runs in a thread, and what it has computed is batched with what
        others ask at the same time.

        Raises:
            Refusal: too much is waiting, or the term ended.
            Gone: whoever asked has left.
        """
        note_request(model=self.name)
        return await self._queue.run(deadline, self._with_executor(deadline, work))

    async def stream(
        self, deadline: RequestDeadline, work: Callable[[Callable[[Event], None]], object]
    ) -> AsyncIterator[Event]:
        """What `work` says while it goes on, to the function that it is given."""
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Any] = asyncio.Queue()

        def emit(event: Event) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        def end_stream(future: asyncio.Future[Any]) -> None:
            events.put_nowait(_END_OF_STREAM)  # however it ended, and if it never began
            _ = future.cancelled() or future.exception()  # whoever left asks for nothing

        note_request(model=self.name)
        with self._queue.reserve_slot():
            task = asyncio.wrap_future(self._queue.submit(deadline, self._with_executor(deadline, lambda: work(emit))))
            task.add_done_callback(end_stream)
            try:
                while (event := await events.get()) is not _END_OF_STREAM:
                    yield event
                await task
            finally:
                deadline.cancel()

    def close(self) -> None:
        """Nothing more is asked: threads end as soon as they have nothing to do."""
        self._queue.close()
        self.backend.close()

    def _with_executor(self, deadline: RequestDeadline, work: Callable[[], T]) -> Callable[[], T]:
        from heedful.tasks.batch_executor import use_executor

        def run() -> T:
            with use_executor(self.backend.build_executor(deadline)):
                return work()

        return run


def index_key(name: str) -> str:
    """Of an index among models, which may have its name."""
    return f"index {name}"


@final
class ModelRegistry:
    """All that is served.

    Attributes:
        settings: within which.
        models: by their names, in the order in which they were given.
        indices: of passages, likewise; they are asked as models are.
        state: of the whole.
        authenticator: lets requests in.
        decoding_memory: memory for what requests bring, while it is decoded.
        file_queue: threads that parse files.
        metrics: of what is done.

    Raises:
        RecipeError: there are to be keys, and their file cannot be read.
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
        self.metrics = ServerMetrics(self.models)

    @property
    def models_and_indices(self) -> Mapping[str, LoadedModel[Any]]:
        """Models and indices, by names that they share with nobody."""
        return {**{index_key(name): index for name, index in self.indices.items()}, **self.models}

    def find_models(self, predictor_type: type[PredictorT]) -> list[LoadedModel[PredictorT]]:
        """The models of a kind."""
        return [model for model in self.models.values() if isinstance(model.predictor, predictor_type)]

    def get_model(
        self, predictor_type: type[PredictorT] | tuple[type[Any], ...], name: str | None, *, action: str
    ) -> LoadedModel[Any]:
        """The model of this name, or the only one of a kind.

        Args:
            predictor_type: of face.
            name: under which it is served; none where there is one of the kind.
            action: what models of the kind do, in words, as `translate`.

        Raises:
            Refusal: there is none, or there are several and none is named.
        """
        predictor_types = predictor_type if isinstance(predictor_type, tuple) else (predictor_type,)
        candidates = [model for model in self.models.values() if isinstance(model.predictor, predictor_types)]
        names = ", ".join(model.name for model in candidates) or "none"
        if name is None:
            if len(candidates) == 1:
                return candidates[0]
            several = f"model: several {action}: {names}; name one"
            raise bad_request(several if candidates else f"model: there are none here that {action}", param="model")
        if name not in self.models:
            message = f"model: {name!r} is not served here; those that {action}: {names}"
            raise not_found(message, param="model", code="model_not_found")
        if self.models[name] not in candidates:
            raise bad_request(f"model: {name!r} is not among those that {action}: {names}", param="model")
        return self.models[name]

    def require_ready(self) -> None:
        """`HTTPError` while models are loaded, as after the end of what computed, and when the server is about to end."""
        if self.state != "ready":
            raise unavailable(self.state)
        if not all(model.backend.is_ready for model in (*self.models.values(), *self.indices.values())):
            raise unavailable("loading")


__all__ = ["ClientDisconnected", "LoadedModel", "ModelRegistry", "RequestDeadline"]
