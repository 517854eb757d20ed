"""What faces ask of searches, so that what several callers ask of one model may grow side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

import torch

from heedful.generation import Hypotheses, Hypothesis
from heedful.generation.party import Growable
from heedful.generation.running import Running
from heedful.generation.search import Beam, Greedy, Sampling, Search
from heedful.generation.start import Request
from heedful.models.interface import Engine, State

Example = TypeVar("Example")
Said = TypeVar("Said")

Heard: TypeAlias = Callable[[int, Sequence[int]], None]
"""Told of an example, by its number, the ids of the best text so far, whenever there is more of it."""


@dataclass(frozen=True)
class Finder(ABC, Generic[Example]):
    """Looks for the texts of examples by a search.

    Finders that are equal ask one engine in one way, so the examples of several callers may stand beside each other:
    in a batch, or, where the search is one whose sentences come and go, in a search that goes on already.

    Abstract: which examples there are is a matter of faces.

    Attributes:
        engine: that is asked.
        search: how.
    """

    engine: Engine[Any]
    search: Search

    @abstractmethod
    def begun(self, batch: list[Example]) -> tuple[State, Request]:
        """The state behind their sources, and what is asked for them."""

    @final
    def __call__(self, batch: list[Example]) -> Hypotheses:
        """What is found for each."""
        return self.search.answer(self.engine.step, *self.begun(batch)).hypotheses

    @final
    @property
    def growable(self) -> Growable | None:
        """The search, where its sentences may come and go, but for those of requests with terms."""
        return self.search if isinstance(self.search, Greedy | Sampling | Beam) else None


def width_of(search: Growable) -> int:
    """Rows of each sentence."""
    match search:
        case Beam(width=width):
            return width
        case Sampling(n=copies):
            return copies
        case Greedy():
            return 1


@final
@dataclass(frozen=True)
class Questions(Generic[Example, Said]):
    """Examples that are to be answered, as `in_batches` has them.

    Attributes:
        examples: encoded.
        say: answers a batch; equal ones answer alike.
        sizes: ids of each example.
        tokens: ids that are read at one time, with padding.
        rows: examples that are, at most.
        heard: of texts that grow, if anybody listens.
    """

    examples: Sequence[Example]
    say: Callable[[list[Example]], Any]
    sizes: Sequence[int]
    tokens: int
    rows: int
    heard: Heard | None = None


class Company(Protocol):
    """Answers what several threads ask of one model at the same time."""

    def answers(self, questions: Questions[Any, Any]) -> list[Any]:
        """To the examples, in their order."""
        ...

    def grown(self, finder: Finder[Any], example: Any) -> Iterator[Sequence[int] | Hypothesis]:
        """The ids of the best text so far of one example, whenever there is more of it, and its best hypothesis."""
        ...


_COMPANY: Final[ContextVar[Company | None]] = ContextVar("company", default=None)


@contextmanager
def in_company(company: Company) -> Iterator[None]:
    """Whatever faces ask of models in this thread is answered together with what others ask."""
    before = _COMPANY.set(company)
    try:
        yield
    finally:
        _COMPANY.reset(before)


def company() -> Company | None:
    """That of this thread."""
    return _COMPANY.get()


def overheard(finder: Finder[Example], batch: list[Example], heard: Heard, *, numbers: Sequence[int]) -> Any:
    """What is found for each, while somebody listens to how it grows; a search that cannot be heard is silent.

    Args:
        finder: of the texts.
        batch: some examples.
        heard: is told.
        numbers: of the examples, by which that is.
    """
    search, (state, request) = finder.growable, finder.begun(batch)
    if search is None or request.terms is not None:
        return finder.search.answer(finder.engine.step, state, request).hypotheses
    running, found = Running(finder.engine.step, width=width_of(search)), dict[int, Sequence[Hypothesis]]()
    tickets, left = running.admit(state, request, search)
    while True:
        for each in left:
            if each.error is not None:
                raise each.error
            found[each.ticket] = each.hypotheses
        if not len(running):
            return [list(found[ticket]) for ticket in tickets]
        for ticket, ids in running.newest(tickets).items():
            heard(numbers[ticket], ids)
        left = running.advance()


def grown(finder: Finder[Example], example: Example) -> Iterator[Sequence[int] | Hypothesis]:
    """A text as it is written: the ids of the best so far, whenever there is more of it, and then the best hypothesis.

    What greedy search and sampling have written stays; the best of a beam may become another one.
    """
    if (others := company()) is not None:
        yield from others.grown(finder, example)
        return
    search = finder.growable
    with torch.inference_mode():
        state, request = finder.begun([example])
    if search is None or request.terms is not None:
        yield finder.search.answer(finder.engine.step, state, request).hypotheses[0][0]
        return
    running = Running(finder.engine.step, width=width_of(search))
    (ticket,), left = running.admit(state, request, search)
    while not left:
        yield running.newest([ticket])[ticket]
        left = running.advance()
    if left[0].error is not None:
        raise left[0].error
    yield left[0].hypotheses[0]


def written(finder: Finder[Example], example: Example) -> Generator[int, None, Hypothesis]:
    """The ids of one text as they come, with the one that ends it, and then what was found; by greedy search or
    sampling, whose ids stay.
    """
    assert isinstance(finder.search, Greedy | Sampling), "the ids of other searches change until the end"
    count = 0
    for each in grown(finder, example):
        ids = list(each.ids) if isinstance(each, Hypothesis) else each
        yield from ids[count:]
        count = len(ids)
        if isinstance(each, Hypothesis):
            if each.finished:
                yield finder.search.eos
            return each
    raise AssertionError("what grows ends with what was found")
