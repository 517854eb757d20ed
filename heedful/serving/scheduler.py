"""Continuous batching of the requests to one model.

One thread computes. Requests wait in its queue. Generation requests join the running batch at any step and
leave it when they are done, when their deadline is over or when their client disconnects; all other
requests are answered in batches of similar lengths with requests of the same kind. A search that cannot
share a running batch (with constraints, diverse groups, minimum Bayes risk or coverage) is split into
parts; callers take turns with these, and between two steps of a part all other requests are advanced.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, final

import numpy as np
import torch

from heedful.data.batches import batch_by_length
from heedful.generation import Hypothesis
from heedful.generation.continuous_batch import ContinuousBatch, FinishedRequest
from heedful.generation.prefill import GenerationRequest
from heedful.models.interface import Engine, State
from heedful.runs.device import trim_malloc
from heedful.serving.deadline import ClientDisconnected, RequestDeadline
from heedful.serving.inference_request import InferenceRequest, SchedulerClient
from heedful.tasks.batch_executor import SearchCall, search_width
from heedful.tensors import Tokens

_MIN_JOIN_SHARE, _MAX_JOIN_WAIT = 1 / 5, 6
"""If fewer examples than this share of the running ones are ready to join, they wait up to `_MAX_JOIN_WAIT` steps for
others, since joining costs about as much as a step."""
_MAX_STEPS_AT_ONCE, _SECONDS_AT_ONCE = 8, 0.05
"""Maximum steps of a running batch in one call of an engine that supports several, and the seconds that they may take.
New sentences and results wait for the call, but the code between two steps of a small model takes nearly as long as the
steps themselves."""
_MIN_STEP_SECONDS: Final = 1e-4
"""Least seconds of a step, for the number of steps in a call."""
_IDLE_SECONDS, _BUSY_SECONDS = 1.0, 30.0
"""Seconds after which free memory is returned, without requests and with some."""
_WIDE_BEAM: Final = 8
"""Beam width from which on fewer sentences are searched for at the same time."""
_SEPARATE_FACTOR: Final = 2
"""Maximum rows of a separate search, as a multiple of `max_rows`, so that none of its steps takes long."""


@final
@dataclass(frozen=True, eq=False)
class _RequestExample:
    """One example of a request, with its index there."""

    request: InferenceRequest
    index: int

    @property
    def example(self) -> Any:
        """The encoded example."""
        return self.request.job.examples[self.index]

    @property
    def num_tokens(self) -> int:
        """Number of token ids of the example."""
        return self.request.job.sizes[self.index]


@final
class _QueuedRequest:
    """A request with the examples that have not started yet; `batch_key` names the running batch that they may
    join, or is None.
    """

    def __init__(self, request: InferenceRequest) -> None:
        self.request = request
        self.examples = deque(_RequestExample(request, index) for index in range(len(request.job.examples)))
        self.batch_key = batch_key(request.job.answer_batch)

    @property
    def is_search(self) -> bool:
        """Whether it needs a search rather than one forward pass."""
        return isinstance(self.request.job.answer_batch, SearchCall)

    def requeue_separately(self, examples: Iterable[_RequestExample]) -> None:
        """Put examples back at the front of the queue, to be answered by a search of their own."""
        self.batch_key = None
        self.examples.extendleft(reversed([*examples]))


@final
@dataclass
class _RunningBatch:
    """A running search, and its examples by their ids in the batch."""

    engine: Engine[Any]
    continuous_batch: ContinuousBatch
    examples: dict[int, _RequestExample] = field(default_factory=dict)
    steps_to_wait: int = 0
    last_steps: int = 1
    seconds_per_step: float = _SECONDS_AT_ONCE
    is_traced: bool = False

    def add_examples(self, examples: Mapping[int, _RequestExample]) -> None:
        """Add examples that have joined the search, by their ids there."""
        self.examples.update(examples)
        for example in examples.values():
            if example.request.trace is not None:
                example.request.trace.note_start()
                self.is_traced = True

    def run_steps(self) -> list[FinishedRequest]:
        """Generate one token of every sentence, or a few at once if they take little time and no listener waits for
        each; return the sentences that have finished.
        """
        has_listener = any(example.request.job.on_tokens is not None for example in self.examples.values())
        max_steps = 1 if has_listener else min(_MAX_STEPS_AT_ONCE, int(_SECONDS_AT_ONCE / self.seconds_per_step))
        start, steps_before = time.monotonic(), self.continuous_batch.num_steps
        outputs = self.continuous_batch.step(max_steps)
        self.last_steps = max(1, self.continuous_batch.num_steps - steps_before)
        self.seconds_per_step = max((time.monotonic() - start) / self.last_steps, _MIN_STEP_SECONDS)
        if self.is_traced:
            _trace_steps(self.examples.values(), num_steps=self.last_steps)
        return outputs

    def finish_examples(self, outputs: Sequence[FinishedRequest]) -> None:
        """Hand the outputs of finished examples, which are hypotheses or an error, to their requests, and forget the
        examples.
        """
        for output in outputs:
            example = self.examples.pop(output.request_id, None)
            if example is None:
                continue
            if output.error is not None:
                example.request.fail(output.error)
            else:
                example.request.set_answer(example.index, list(output.hypotheses))

    def report_partials(self) -> None:
        """Send the token ids generated so far to the requests that have a callback for them."""
        request_ids = [
            request_id for request_id, example in self.examples.items() if example.request.job.on_tokens is not None
        ]
        for request_id, ids in self.continuous_batch.partial_outputs(request_ids).items():
            example = self.examples[request_id]
            example.request.report_partial(example.index, ids)


@final
class Scheduler:
    """Schedules the computations that several threads request of one model.

    Args:
        max_rows: texts that are searched for at the same time, at most.
        on_batch: called with the number of texts of each step or batch.
        on_tokens: called with the number of tokens of finished texts.
        on_answers: called when all answers that were found at the same time are stored in their requests.
    """

    def __init__(
        self,
        *,
        max_rows: int,
        on_batch: Callable[[int], None] = lambda _: None,
        on_tokens: Callable[[int], None] = lambda _: None,
        on_answers: Callable[[], None] = lambda: None,
    ) -> None:
        self._max_rows = max_rows
        self.on_batch = on_batch
        self.on_tokens = on_tokens
        self.on_answers = on_answers
        self._inbox: queue.SimpleQueue[InferenceRequest | None] = queue.SimpleQueue()
        self._queue: deque[_QueuedRequest] = deque()
        self._running: dict[tuple[int, int], _RunningBatch] = {}
        self._separate_examples: Sequence[_RequestExample] = ()
        self._is_closing = False
        self._pages_returned_at = self._last_request_at = time.monotonic()
        self._thread = threading.Thread(target=self._run_loop, name="heedful model", daemon=True)
        self._thread.start()

    @property
    def is_ready(self) -> bool:
        """Whether it accepts requests, which is always true."""
        return True

    def build_executor(self, deadline: RequestDeadline) -> SchedulerClient:
        """Return an executor for one thread, whose calls wait until the deadline at most."""
        return SchedulerClient(self.submit, deadline)

    def submit(self, request: InferenceRequest) -> None:
        """Put a request into the queue."""
        self._inbox.put(request)

    def close(self) -> None:
        """Stop the thread; waiting requests fail."""
        self._inbox.put(None)
        self._thread.join(timeout=10)

    def _run_loop(self) -> None:
        """Schedule and compute until the scheduler is closed."""
        with torch.inference_mode():
            while self._receive_requests():
                try:
                    self._drop_finished()
                    self._admit_examples()
                    self._step_batches()
                    self._run_next_batch()
                    self._return_free_memory(_BUSY_SECONDS)
                except Exception as error:  # waiting callers get the error, and the next requests are answered
                    self._fail_all(error, (*self._separate_examples,))
                finally:
                    self.on_answers()

    def _return_free_memory(self, min_interval: float) -> None:
        """Return free memory to the system, unless that was done within the last `min_interval` seconds."""
        now = time.monotonic()
        if now - self._pages_returned_at >= min_interval:
            trim_malloc()
            self._pages_returned_at = now

    def _fail_all(self, error: BaseException, examples: Sequence[_RequestExample] = ()) -> None:
        """Fail all requests with an error, and clear the queue and the batches. The requests of a separate search under
        way fail only if its examples are given.
        """
        for request in [*self._iter_shared_requests(), *(example.request for example in examples)]:
            request.fail(error)
        self._queue.clear()
        self._running.clear()

    def _receive_requests(self) -> bool:
        """Move new requests into the queue, waiting for one if there is no work; return False when the scheduler is
        to stop.
        """
        if self._is_closing:
            return False
        idle = not self._queue and not self._running and not self._separate_examples
        while idle or not self._inbox.empty():
            try:
                request = self._inbox.get(
                    timeout=_IDLE_SECONDS if idle and self._pages_returned_at < self._last_request_at else None
                )
            except queue.Empty:
                self._return_free_memory(0.0)
                continue
            self._last_request_at = time.monotonic()
            if request is None:
                self._is_closing = True
                self._fail_all(ClientDisconnected(), self._separate_examples)
                return False
            idle = False
            self._queue.append(_QueuedRequest(request))
        return True

    def _iter_requests(self) -> Iterator[InferenceRequest]:
        """Yield every request, those of the separate search included."""
        yield from self._iter_shared_requests()
        yield from (example.request for example in self._separate_examples)

    def _iter_shared_requests(self) -> Iterator[InferenceRequest]:
        """Yield the requests that are queued or in a running batch."""
        yield from (queued.request for queued in self._queue)
        yield from (example.request for batch in self._running.values() for example in batch.examples.values())

    def _drop_finished(self) -> None:
        """Fail the requests whose deadline is over, and remove these and the finished ones from the queue and the
        running batches.
        """
        over_requests = {request for request in self._iter_requests() if request.is_over}
        for request in over_requests:
            request.expire()
        self._queue = deque(queued for queued in self._queue if queued.examples and queued.request not in over_requests)
        for batch in self._running.values() if over_requests else ():
            request_ids = [
                request_id for request_id, example in batch.examples.items() if example.request in over_requests
            ]
            for request_id in request_ids:
                del batch.examples[request_id]
            batch.continuous_batch.abort(request_ids)
        self._running = {key: batch for key, batch in self._running.items() if batch.examples}

    def _admit_examples(self) -> None:
        """Let queued examples join running batches while there is room, one of each request in turn."""
        free_rows: dict[tuple[int, int], int] = {}
        groups: dict[SearchCall[Any], list[_RequestExample]] = {}
        candidates = deque(queued for queued in self._queue if queued.batch_key is not None)
        while candidates:
            queued = candidates.popleft()
            search_call, key = queued.request.job.answer_batch, queued.batch_key
            assert isinstance(search_call, SearchCall) and key is not None
            if key not in free_rows:
                free_rows[key] = self._count_free_rows(key)
            if not free_rows[key]:
                continue
            free_rows[key] -= 1
            groups.setdefault(search_call, []).append(queued.examples.popleft())
            if queued.examples:
                candidates.append(queued)
        for search_call, examples in groups.items():
            for chunk in _plan_batches(examples):
                _isolate_errors(chunk, partial(self._start_examples, search_call))

    def _count_free_rows(self, key: tuple[int, int]) -> int:
        """Return how many sentences may join the running batch of this key (see `batch_key`) now.

        Wide beams take more room, and a few sentences wait some steps for others to join with them.
        """
        capacity = max(1, min(self._max_rows, _WIDE_BEAM * self._max_rows // key[1]))
        if (batch := self._running.get(key)) is None:
            return capacity
        num_queued = sum(len(caller.examples) for caller in self._queue if caller.batch_key == key)
        num_free = capacity - len(batch.examples)
        batch.steps_to_wait -= batch.last_steps
        if batch.steps_to_wait > 0 and min(num_queued, num_free) < _MIN_JOIN_SHARE * len(batch.examples):
            return 0
        batch.steps_to_wait = _MAX_JOIN_WAIT
        return num_free

    def _start_examples(self, search_call: SearchCall[Any], examples: Sequence[_RequestExample]) -> None:
        """Add examples to the running batch that their search call may use, or to a new one; if some have constraints,
        the examples of their requests go back to the queue for a search of their own.
        """
        search = search_call.incremental_search
        assert search is not None
        state, request = search_call.start_search([example.example for example in examples])
        if request.constraints is not None:
            constrained = [
                example for example, terms in zip(examples, request.constraints.terms_by_row, strict=True) if terms
            ]
            constrained_requests = dict.fromkeys(example.request for example in constrained)
            for queued in self._queued_entries(constrained_requests):
                queued.requeue_separately(example for example in examples if example.request is queued.request)
            if unconstrained := [example for example in examples if example.request not in constrained_requests]:
                self._start_examples(search_call, unconstrained)
            return
        key = batch_key(search_call)
        assert key is not None
        if key not in self._running:
            self._running[key] = _RunningBatch(
                search_call.engine, ContinuousBatch(search_call.engine.step, width=key[1])
            )
        batch = self._running[key]
        request_ids, outputs = batch.continuous_batch.add_requests(state, request, search)
        batch.add_examples(dict(zip(request_ids, examples, strict=True)))
        self._count_tokens([output.hypotheses for output in outputs])
        batch.finish_examples(outputs)
        batch.report_partials()

    def _step_batches(self) -> None:
        """Generate one token of every sentence in every running batch, or a few at once."""
        for key, batch in [*self._running.items()]:
            self.on_batch(len(batch.examples))
            try:
                outputs = batch.run_steps()
                self._count_tokens([output.hypotheses for output in outputs])
                batch.finish_examples(outputs)
            except Exception as error:  # a broken state belongs to no request any more
                for example in batch.examples.values():
                    example.request.fail(error)
                del self._running[key]
                continue
            batch.report_partials()

    def _queued_entries(self, requests: Iterable[InferenceRequest]) -> list[_QueuedRequest]:
        """Return the queue entries of requests, adding new ones for requests whose examples have all started."""
        entries = {caller.request: caller for caller in self._queue}
        for request in requests:
            if request not in entries:
                entries[request] = _QueuedRequest(request)
                entries[request].examples.clear()
                self._queue.append(entries[request])
        return [entries[request] for request in requests]

    def _run_next_batch(self, *, between_steps: bool = False) -> None:
        """Answer one batch of examples of similar lengths, from the next request in turn and those of the same kind.

        Args:
            between_steps: whether a separate search is under way, so that no other one may start.
        """
        candidates = (queued for queued in self._queue if queued.batch_key is None and queued.examples)
        head = next((queued for queued in candidates if not (between_steps and queued.is_search)), None)
        if head is None:
            return
        self._queue.remove(head)
        self._queue.append(head)
        answer_batch = head.request.job.answer_batch
        compatible = [
            queued
            for queued in self._queue
            if queued.batch_key is None and queued.request.job.answer_batch == answer_batch
        ]
        examples = [
            *head.examples,
            *(example for queued in compatible if queued is not head for example in queued.examples),
        ]
        batch = next(chunk for chunk in _plan_batches(examples) if head.examples[0] in chunk)
        if isinstance(answer_batch, SearchCall):
            max_examples = max(1, _SEPARATE_FACTOR * self._max_rows // answer_batch.search.rows_per_sentence)
            batch = sorted(batch, key=lambda example: example.request is not head.request)[:max_examples]
        chosen = set(map(id, batch))
        for queued in compatible:
            queued.examples = deque(example for example in queued.examples if id(example) not in chosen)
        self.on_batch(len(batch))
        _isolate_errors(batch, partial(self._answer_batch, answer_batch))

    def _answer_batch(self, answer_batch: Any, examples: Sequence[_RequestExample]) -> None:
        """Answer the examples by one forward pass, if `answer_batch` is a function, or by a separate search, if it is a
        `SearchCall`.
        """
        inputs = [example.example for example in examples]
        _trace_steps(examples, num_steps=1)
        if not isinstance(answer_batch, SearchCall):
            _set_answers(examples, list(answer_batch(inputs)))
            return
        self._separate_examples = examples
        try:
            answers = self._run_separate_search(answer_batch, *answer_batch.start_search(inputs), examples)
        finally:
            self._separate_examples = ()
        self._count_tokens(answers)
        _set_answers(examples, answers)

    def _run_separate_search(
        self,
        search_call: SearchCall[Any],
        state: State,
        request: GenerationRequest,
        examples: Sequence[_RequestExample],
    ) -> Sequence[Sequence[Hypothesis]]:
        """Run a search for examples outside the running batches, from its initial state and generation request, and
        return the hypotheses of each example. All other requests advance between its steps; it ends when no request
        waits for it.
        """

        def step(tokens: Tokens, state: State) -> tuple[Any, State]:
            """Advance all other requests, then run one step of this search."""
            self._advance_others()
            return search_call.engine.step(tokens, state)

        request = replace(request, until=lambda: all(example.request.is_over for example in examples))
        return search_call.search.decode_request(step, state, request).hypotheses

    def _advance_others(self) -> None:
        """Advance all other requests between two steps of a separate search: receive new ones, run a step of every
        running batch, and answer one batch that needs no search. An error fails them, but not the separate search.
        """
        try:
            if self._receive_requests():
                self._drop_finished()
                self._admit_examples()
                self._step_batches()
                self._run_next_batch(between_steps=True)
                self.on_answers()
        except Exception as error:  # waiting callers get the error, and the running search continues
            self._fail_all(error)

    def _count_tokens(self, results: Iterable[Sequence[Hypothesis]]) -> None:
        self.on_tokens(sum(len(hypotheses[0].ids) for hypotheses in results if hypotheses))


def batch_key(answer_batch: Any) -> tuple[int, int] | None:
    """Return the key of the running batch that examples with this `answer_batch` may join, which is the id of their
    engine and the number of decoder rows for each example; None if it is no search, or one that cannot be shared.
    """
    search = answer_batch.incremental_search if isinstance(answer_batch, SearchCall) else None
    return None if search is None else (id(answer_batch.engine), search_width(search))


def _plan_batches(examples: Sequence[_RequestExample]) -> list[list[_RequestExample]]:
    """Group examples into batches of similar lengths; the first example's request says how many tokens and rows a batch
    may have.
    """
    job = examples[0].request.job
    lengths = np.array([example.num_tokens for example in examples], dtype=np.int64)
    plan = batch_by_length(lengths, max_tokens=job.batch_tokens, max_rows=job.max_rows)
    return [[examples[index] for index in batch.tolist()] for batch in plan]


def _isolate_errors(examples: Sequence[_RequestExample], answer: Callable[[Sequence[_RequestExample]], None]) -> None:
    """Call `answer` on all examples together; if that fails, call it on those of each request separately, so that an
    error affects only the request that causes it.
    """
    try:
        answer(examples)
        return
    except Exception as error:
        requests = {id(example.request): example.request for example in examples}
        if len(requests) == 1:
            examples[0].request.fail(error)
            return
    for request in requests.values():
        own_examples = [example for example in examples if example.request is request]
        try:
            answer(own_examples)
        except Exception as error:  # this caller gets any error, and others continue
            request.fail(error)


def _trace_steps(examples: Collection[_RequestExample], *, num_steps: int) -> None:
    """Count steps of a batch of examples in the traces of their requests, which begin to run now if they have not."""
    traces = {id(trace): trace for example in examples if (trace := example.request.trace) is not None}
    for trace in traces.values():
        trace.note_start()
        trace.note_steps(num_steps, len(examples))


def _set_answers(examples: Sequence[_RequestExample], answers: Sequence[Any]) -> None:
    for example, answer in zip(examples, answers, strict=True):
        example.request.set_answer(example.index, answer)
