"""The models that are served, by their names, and what all requests share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

from heedful.serving.budget import MemoryBudget
from heedful.serving.door import Door
from heedful.serving.languages import Languages
from heedful.serving.logs import note
from heedful.serving.meters import Meters
from heedful.serving.refusal import closed, missing, wrong
from heedful.serving.settings import Settings
from heedful.serving.term import Gone, Term
from heedful.serving.work import WorkQueue

if TYPE_CHECKING:
    from heedful.serving.waiting import Answering

T = TypeVar("T")
Event = TypeVar("Event")
Kind = TypeVar("Kind")

_END: Final = object()
_PARSED: Final = 4
"""Files that are parsed at one time: Python runs one thread at a time, so more would make each slower."""


@final
class Model(Generic[Kind]):
    """One face, which answers many at a time.

    Args:
        name: under which it is asked for.
        face: that answers.
        settings: the limits.
        spoken: what it translates, as far as that is known.
        answering: computes what the face asks; a thread of this process unless given.
    """

    def __init__(
        self,
        name: str,
        face: Kind,
        settings: Settings,
        *,
        spoken: Languages = Languages(),  # noqa: B008 - frozen
        answering: Answering | None = None,
    ) -> None:
        self.name = name
        self.face = face
        self.spoken = spoken
        self.created = int(time.time())
        self._queue = WorkQueue(name, threads=settings.limits.queue, most=settings.limits.queue)
        if answering is None:
            from heedful.serving.gathering import Gathering  # which reads torch, and a house answers before it is there

            answering = Gathering(rows=settings.limits.rows)
        self.answering = answering

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """What it reads and what it writes, each where that is known and one language."""
        return self.spoken.source, self.spoken.target

    @property
    def waiting(self) -> int:
        """Requests that wait for an answer or are being answered."""
        return self._queue.waiting

    async def ask(self, term: Term, work: Callable[[], T]) -> T:
        """What `work` gives, which asks the face; it runs in a thread, and what it has computed is batched with what
        others ask at the same time.

        Raises:
            Refusal: too much is waiting, or the term ended.
            Gone: whoever asked has left.
        """
        note(model=self.name)
        return await self._queue.run(term, self._within(term, work))

    async def hear(self, term: Term, work: Callable[[Callable[[Event], None]], object]) -> AsyncIterator[Event]:
        """What `work` says while it goes on, to the function that it is given."""
        loop = asyncio.get_running_loop()
        said: asyncio.Queue[Any] = asyncio.Queue()

        def say(event: Event) -> None:
            loop.call_soon_threadsafe(said.put_nowait, event)

        def over(done: asyncio.Future[Any]) -> None:
            said.put_nowait(_END)  # however it ended, and if it never began
            _ = done.cancelled() or done.exception()  # whoever left asks for nothing

        note(model=self.name)
        with self._queue.place():
            working = asyncio.wrap_future(self._queue.begin(term, self._within(term, lambda: work(say))))
            working.add_done_callback(over)
            try:
                while (event := await said.get()) is not _END:
                    yield event
                await working
            finally:
                term.leave()

    def close(self) -> None:
        """Nothing more is asked: threads end as soon as they have nothing to do."""
        self._queue.close()
        self.answering.close()

    def _within(self, term: Term, work: Callable[[], T]) -> Callable[[], T]:
        from heedful.tasks.finding import in_company

        def run() -> T:
            with in_company(self.answering.company(term)):
                return work()

        return run


def index_name(name: str) -> str:
    """Of an index among models, which may have its name."""
    return f"index {name}"


@final
class House:
    """All that is served.

    Attributes:
        settings: within which.
        models: by their names, in the order in which they were given.
        indices: of passages, likewise; they are asked as models are.
        state: of the whole.
        door: lets requests in.
        decoding: memory for what requests bring, while it is decoded.
        files: threads that parse files.
        meters: of what is done.

    Raises:
        RecipeError: there are to be keys, and their file cannot be read.
    """

    def __init__(self, settings: Settings, models: Mapping[str, Model[Any]], indices: Mapping[str, Model[Any]]) -> None:
        self.settings = settings
        self.models = dict(models)
        self.indices = dict(indices)
        self.state: str = "loading"
        self.door = Door(settings)
        self.decoding = MemoryBudget(settings.limits.decoding)
        self.files = WorkQueue("files", threads=_PARSED, most=settings.limits.queue)
        self.meters = Meters(self.models)

    @property
    def all(self) -> Mapping[str, Model[Any]]:
        """Models and indices, by names that they share with nobody."""
        return {**{index_name(name): index for name, index in self.indices.items()}, **self.models}

    def of(self, kind: type[Kind]) -> list[Model[Kind]]:
        """The models of a kind."""
        return [model for model in self.models.values() if isinstance(model.face, kind)]

    def model(self, kind: type[Kind] | tuple[type[Any], ...], name: str | None, *, use: str) -> Model[Any]:
        """The model of this name, or the only one of a kind.

        Args:
            kind: of face.
            name: under which it is served; none where there is one of the kind.
            use: what models of the kind do, in words, as `translate`.

        Raises:
            Refusal: there is none, or there are several and none is named.
        """
        kinds = kind if isinstance(kind, tuple) else (kind,)
        able = [each for each in self.models.values() if isinstance(each.face, kinds)]
        names = ", ".join(each.name for each in able) or "none"
        if name is None:
            if len(able) == 1:
                return able[0]
            several = f"model: several {use}: {names}; name one"
            raise wrong(several if able else f"model: there are none here that {use}", param="model")
        if name not in self.models:
            message = f"model: {name!r} is not served here; those that {use}: {names}"
            raise missing(message, param="model", code="model_not_found")
        if self.models[name] not in able:
            raise wrong(f"model: {name!r} is not among those that {use}: {names}", param="model")
        return self.models[name]

    def require_open(self) -> None:
        """`Refusal` while models are loaded, as after the end of what computed, and when the server is about to end."""
        if self.state != "ready":
            raise closed(self.state)
        if not all(model.answering.is_ready for model in (*self.models.values(), *self.indices.values())):
            raise closed("loading")


__all__ = ["Gone", "House", "Model", "Term"]
