"""Search calls of predictors, and executors that batch the calls of several threads."""

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
"""Called with an example's index and the ids of its best text so far, whenever the text grows."""


@dataclass(frozen=True)
class SearchCall(ABC, Generic[Example]):
    """A search on one engine that generates the texts of a batch of examples.

    Examples of several callers with equal search calls may share a batch, or join a running search if it supports that.

    Abstract: subclasses define the examples.

    Attributes:
        engine: the engine to decode with.
        search: the search algorithm.
    """

    engine: Engine[Any]
    search: SearchStrategy

    @abstractmethod
    def start_search(self, batch: list[Example]) -> tuple[State, GenerationRequest]:
        """Return the initial decoding state of the examples and the generation request."""

    @final
    def __call__(self, batch: list[Example]) -> Hypotheses:
        """Return the hypotheses found for each example."""
        return self.search.decode_request(self.engine.step, *self.start_search(batch)).hypotheses

    @final
    @property
    def incremental_search(self) -> BatchableSearch | None:
        """The search if sentences can join and leave it while it runs, else None; requests with lexical constraints
        cannot use it.
        """
        return self.search if isinstance(self.search, GreedySearch | SamplingSearch | BeamSearch) else None


def search_width(search: BatchableSearch) -> int:
    """Return the number of decoder rows for each sentence."""
    return search.rows_per_sentence


@final
@dataclass(frozen=True)
class BatchJob(Generic[Example, Output]):
    """Examples to be answered in batches; see `run_batched`.

    Attributes:
        examples: encoded examples.
        answer_batch: answers a batch; equal objects answer alike.
        sizes: number of ids of each example.
        batch_tokens: padded ids in a batch.
        max_rows: examples in a batch at most.
        on_tokens: called with the tokens of texts that are being generated.
    """

    examples: Sequence[Example]
    answer_batch: Callable[[list[Example]], Any]
    sizes: Sequence[int]
    batch_tokens: int
    max_rows: int
    on_tokens: TokenCallback | None = None


class BatchExecutor(Protocol):
    """Protocol of executors that answer the concurrent requests of several threads on one model together."""

    def run_job(self, job: BatchJob[Any, Any]) -> list[Any]:
        """Answer the examples of a job, in their order."""
        ...

    def stream_example(self, search_call: SearchCall[Any], example: Any) -> Iterator[Sequence[int] | Hypothesis]:
        """Yield the ids of one example's best text so far, whenever there are more of them, and finally its best
        hypothesis.
        """
        ...

    def run_call(self, call: Callable[[], Output]) -> Output:
        """Call a function that computes with the model outside of batches, where its weights are, and return the
        result.
        """
        ...


_EXECUTOR: Final[ContextVar[BatchExecutor | None]] = ContextVar("company", default=None)


@contextmanager
def use_executor(executor: BatchExecutor) -> Iterator[None]:
    """Run the batches of this thread's predictors through an executor, inside a `with` block."""
    token = _EXECUTOR.set(executor)
    try:
        yield
    finally:
        _EXECUTOR.reset(token)


def current_executor() -> BatchExecutor | None:
    """Return this thread's executor; None if it has none."""
    return _EXECUTOR.get()


def run_call(call: Callable[[], Output]) -> Output:
    """Call a function that computes with a model outside of `run_batched`, and return its result.

    It runs in the process that holds the weights, which is another one if this thread's executor says so. The function,
    such as a `partial` of a predictor's method, and its result are pickled then.
    """
    executor = current_executor()
    return call() if executor is None else executor.run_call(call)


def run_streaming(
    search_call: SearchCall[Example], batch: list[Example], on_tokens: TokenCallback, *, numbers: Sequence[int]
) -> Any:
    """Generate the texts of a batch and report new tokens to a callback; searches that cannot stream report none.

    Args:
        search_call: the search.
        batch: the examples.
        on_tokens: called with an example's number and its tokens so far.
        numbers: number of each example, for the callback.
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
    """Generate the text of one example, and yield the ids of its best text so far after each step and finally the best
    hypothesis. Searches that cannot stream yield only the hypothesis.

    Ids of greedy search and sampling never change; the best text of a beam may be replaced by another.
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
    """Generate the text of one example by greedy search or sampling, yield each id once it is generated, the end id
    included, and return the hypothesis. The search of `search_call` must be one of the two.
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
    raise AssertionError("a growing text ends as the text that was found")
