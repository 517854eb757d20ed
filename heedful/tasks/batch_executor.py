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
from heedful.generation.continuous_batch import ContinuousBatch
from heedful.generation.decode_batch import BatchableSearch
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import BeamSearch, GreedySearch, SamplingSearch, SearchStrategy
from heedful.models.interface import Engine, State

Example = TypeVar("Example")
Output = TypeVar("Output")

TokenCallback: TypeAlias = Callable[[int, Sequence[int]], None]
"""Told of an example, by its number, the ids of the best text so far, whenever there is more of it."""


@dataclass(frozen=True)
class SearchCall(ABC, Generic[Example]):
    """Looks for the texts of examples by a search.

    Finders that are equal ask one engine in one way, so the examples of several callers may stand beside each other:
    in a batch, or, where the search is one whose sentences come and go, in a search that goes on already.

    Abstract: which examples there are is a matter of faces.

    Attributes:
        engine: that is asked.
        search: how.
    """

    engine: Engine[Any]
    search: SearchStrategy

    @abstractmethod
    def start_search(self, batch: list[Example]) -> tuple[State, GenerationRequest]:
        """The state behind their sources, and what is asked for them."""

    @final
    def __call__(self, batch: list[Example]) -> Hypotheses:
        """What is found for each."""
        return self.search.decode_request(self.engine.step, *self.start_search(batch)).hypotheses

    @final
    @property
    def incremental_search(self) -> BatchableSearch | None:
        """The search, where its sentences may come and go, but for those of requests with terms."""
        return self.search if isinstance(self.search, GreedySearch | SamplingSearch | BeamSearch) else None


def search_width(search: BatchableSearch) -> int:
    """Rows of each sentence."""
    match search:
        case BeamSearch(width=width):
            return width
        case SamplingSearch(num_samples=samples):
            return samples
        case GreedySearch():
            return 1


@final
@dataclass(frozen=True)
class BatchJob(Generic[Example, Output]):
    """Examples that are to be answered, as `run_batched` has them.

    Attributes:
        examples: encoded.
        answer_batch: answers a batch; equal ones answer alike.
        sizes: ids of each example.
        batch_tokens: ids that are read at one time, with padding.
        max_rows: examples that are, at most.
        on_tokens: of texts that grow, if anybody listens.
    """

    examples: Sequence[Example]
    answer_batch: Callable[[list[Example]], Any]
    sizes: Sequence[int]
    batch_tokens: int
    max_rows: int
    on_tokens: TokenCallback | None = None


class BatchExecutor(Protocol):
    """Answers what several threads ask of one model at the same time."""

    def run_job(self, job: BatchJob[Any, Any]) -> list[Any]:
        """To the examples, in their order."""
        ...

    def stream_example(self, search_call: SearchCall[Any], example: Any) -> Iterator[Sequence[int] | Hypothesis]:
        """The ids of the best text so far of one example, whenever there is more of it, and its best hypothesis."""
        ...


_EXECUTOR: Final[ContextVar[BatchExecutor | None]] = ContextVar("company", default=None)


@contextmanager
def use_executor(executor: BatchExecutor) -> Iterator[None]:
    """Whatever faces ask of models in this thread is answered together with what others ask."""
    token = _EXECUTOR.set(executor)
    try:
        yield
    finally:
        _EXECUTOR.reset(token)


def current_executor() -> BatchExecutor | None:
    """That of this thread."""
    return _EXECUTOR.get()


def run_streaming(
    search_call: SearchCall[Example], batch: list[Example], on_tokens: TokenCallback, *, numbers: Sequence[int]
) -> Any:
    """What is found for each, while somebody listens to how it grows; a search that cannot be heard is silent.

    Args:
        search_call: of the texts.
        batch: some examples.
        on_tokens: is told.
        numbers: of the examples, by which that is.
    """
    search, (state, request) = search_call.incremental_search, search_call.start_search(batch)
    if search is None or request.constraints is not None:
        return search_call.search.decode_request(search_call.engine.step, state, request).hypotheses
    running, results = (
        ContinuousBatch(search_call.engine.step, width=search_width(search)),
        dict[int, Sequence[Hypothesis]](),
    )
    tickets, finished_rows = running.add_requests(state, request, search)
    while True:
        for row in finished_rows:
            if row.error is not None:
                raise row.error
            results[row.request_id] = row.hypotheses
        if not len(running):
            return [list(results[ticket]) for ticket in tickets]
        for ticket, ids in running.partial_outputs(tickets).items():
            on_tokens(numbers[ticket], ids)
        finished_rows = running.step()


def stream_one(search_call: SearchCall[Example], example: Example) -> Iterator[Sequence[int] | Hypothesis]:
    """A text as it is written: the ids of the best so far, whenever there is more of it, and then the best hypothesis.

    What greedy search and sampling have written stays; the best of a beam may become another one.
    """
    if (executor := current_executor()) is not None:
        yield from executor.stream_example(search_call, example)
        return
    search = search_call.incremental_search
    with torch.inference_mode():
        state, request = search_call.start_search([example])
    if search is None or request.constraints is not None:
        yield search_call.search.decode_request(search_call.engine.step, state, request).hypotheses[0][0]
        return
    running = ContinuousBatch(search_call.engine.step, width=search_width(search))
    (ticket,), finished_rows = running.add_requests(state, request, search)
    while not finished_rows:
        yield running.partial_outputs([ticket])[ticket]
        finished_rows = running.step()
    if finished_rows[0].error is not None:
        raise finished_rows[0].error
    yield finished_rows[0].hypotheses[0]


def stream_ids(search_call: SearchCall[Example], example: Example) -> Generator[int, None, Hypothesis]:
    """The ids of one text as they come, with the one that ends it, and then what was found; by greedy search or
    sampling, whose ids stay.
    """
    assert isinstance(search_call.search, GreedySearch | SamplingSearch), (
        "the ids of other searches change until the end"
    )
    count = 0
    for update in stream_one(search_call, example):
        ids = list(update.ids) if isinstance(update, Hypothesis) else update
        yield from ids[count:]
        count = len(ids)
        if isinstance(update, Hypothesis):
            if update.finished:
                yield search_call.search.eos
            return update
    raise AssertionError("what grows ends with what was found")
