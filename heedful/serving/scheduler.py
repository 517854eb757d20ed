"""What requests ask of one model at the same time, answered together.

One thread computes. What is asked waits in its queue: examples that are searched for join a search that runs, at any
step, and leave it when they are done, when their term is over, or when nobody waits for them; all others are answered
in batches of like lengths with those that are asked alike. A search that no other may join (with terms, by groups, by
risk or coverage) is cut into pieces, callers take turns with these, and between two steps of a piece all others get
theirs.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, final

import numpy as np
import torch

from heedful.data.bucketing import batch_by_length
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
"""A share of the sentences under way, and the steps that so few wait for others, since to join costs as much as one."""
_IDLE_SECONDS, _BUSY_SECONDS = 1.0, 30.0
"""Seconds without a question, and with some, after which memory that is free is given back."""
_WIDE_BEAM: Final = 8
"""Rows of a sentence from which on fewer sentences are searched for at one time."""
_SEPARATE_FACTOR: Final = 2
"""Times as many rows as texts that are searched for at one time: the most of a search of its own, so that no step of it
takes long."""


@final
@dataclass(frozen=True, eq=False)
class _RequestExample:
    """An example: the caller that asks, and its number there."""

    request: InferenceRequest
    index: int

    @property
    def example(self) -> Any:
        return self.request.job.examples[self.index]

    @property
    def num_tokens(self) -> int:
        return self.request.job.sizes[self.index]


@final
class _QueuedRequest:
    """What is left to be begun of a caller's questions; `batch_key` is that which they may join, if there is one."""

    def __init__(self, request: InferenceRequest) -> None:
        self.request = request
        self.examples = deque(_RequestExample(request, index) for index in range(len(request.job.examples)))
        self.batch_key = batch_key(request.job.answer_batch)

    @property
    def is_search(self) -> bool:
        """Whether it asks for a search, and not for a batch."""
        return isinstance(self.request.job.answer_batch, SearchCall)

    def requeue_separately(self, examples: Iterable[_RequestExample]) -> None:
        """Have places be begun by a search of their own, which is what they turned out to need."""
        self.batch_key = None
        self.examples.extendleft(reversed([*examples]))


@final
@dataclass
class _RunningBatch:
    """A search that runs, and whose its sentences are, by their tickets."""

    engine: Engine[Any]
    continuous_batch: ContinuousBatch
    examples: dict[int, _RequestExample] = field(default_factory=dict)
    steps_to_wait: int = 0

    def finish_examples(self, outputs: Sequence[FinishedRequest]) -> None:
        """Sentences that have ended."""
        for output in outputs:
            example = self.examples.pop(output.request_id, None)
            if example is None:
                continue
            if output.error is not None:
                example.request.fail(output.error)
            else:
                example.request.set_answer(example.index, list(output.hypotheses))

    def report_partials(self) -> None:
        """Has callers hear what stands there so far."""
        request_ids = [
            request_id for request_id, example in self.examples.items() if example.request.job.on_tokens is not None
        ]
        for request_id, ids in self.continuous_batch.partial_outputs(request_ids).items():
            example = self.examples[request_id]
            example.request.report_partial(example.index, ids)


@final
class Scheduler:
    """Answers what several threads ask of one model.

    Args:
        max_rows: texts that are searched for at one time, at most.
        on_batch: told of each step or batch how many texts it had.
        on_tokens: told how many tokens the best texts have that searches have found.
    """

    def __init__(
        self,
        *,
        max_rows: int,
        on_batch: Callable[[int], None] = lambda _: None,
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._max_rows = max_rows
        self.on_batch = on_batch
        self.on_tokens = on_tokens
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
        """It always can be asked."""
        return True

    def build_executor(self, deadline: RequestDeadline) -> SchedulerClient:
        """What a thread asks, which waits until a term is over."""
        return SchedulerClient(self.submit, deadline)

    def submit(self, request: InferenceRequest) -> None:
        """Has questions answered."""
        self._inbox.put(request)

    def close(self) -> None:
        """Ends the thread; what waits fails."""
        self._inbox.put(None)
        self._thread.join(timeout=10)

    def _run_loop(self) -> None:
        with torch.inference_mode():
            while self._receive_requests():
                try:
                    self._drop_finished()
                    self._admit_examples()
                    self._step_batches()
                    self._run_next_batch()
                    self._return_free_memory(_BUSY_SECONDS)
                except Exception as error:  # whoever waits is told, and the next are answered
                    self._fail_all(error, (*self._separate_examples,))

    def _return_free_memory(self, min_interval: float) -> None:
        """Gives back memory that is free, where that was not done for so long."""
        now = time.monotonic()
        if now - self._pages_returned_at >= min_interval:
            trim_malloc()
            self._pages_returned_at = now

    def _fail_all(self, error: BaseException, examples: Sequence[_RequestExample] = ()) -> None:
        """Tell whoever waits, but for the search of its own that is under way, unless its places are given."""
        for request in [*self._iter_shared_requests(), *(example.request for example in examples)]:
            request.fail(error)
        self._queue.clear()
        self._running.clear()

    def _receive_requests(self) -> bool:
        """Takes in what has come, waiting for it where there is nothing to do; False when all is to end."""
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
        yield from self._iter_shared_requests()
        yield from (example.request for example in self._separate_examples)

    def _iter_shared_requests(self) -> Iterator[InferenceRequest]:
        yield from (queued.request for queued in self._queue)
        yield from (example.request for batch in self._running.values() for example in batch.examples.values())

    def _drop_finished(self) -> None:
        """Whoever waits no longer frees its places."""
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
        """Lets examples join the searches that run, one of each caller in turn, while there is room."""
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
        """Sentences that may join a search now; wide beams are fewer, and few wait a step for others to come along."""
        capacity = max(1, min(self._max_rows, _WIDE_BEAM * self._max_rows // key[1]))
        if (batch := self._running.get(key)) is None:
            return capacity
        num_queued = sum(len(caller.examples) for caller in self._queue if caller.batch_key == key)
        num_free = capacity - len(batch.examples)
        batch.steps_to_wait -= 1
        if batch.steps_to_wait > 0 and min(num_queued, num_free) < _MIN_JOIN_SHARE * len(batch.examples):
            return 0
        batch.steps_to_wait = _MAX_JOIN_WAIT
        return num_free

    def _start_examples(self, search_call: SearchCall[Any], examples: Sequence[_RequestExample]) -> None:
        """Has examples join a search; callers whose examples need one of their own are answered by `_run_next_batch`."""
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
        batch.examples.update(zip(request_ids, examples, strict=True))
        self._count_tokens([output.hypotheses for output in outputs])
        batch.finish_examples(outputs)
        batch.report_partials()

    def _step_batches(self) -> None:
        """One token of every sentence of every search that runs."""
        for key, batch in [*self._running.items()]:
            self.on_batch(len(batch.examples))
            try:
                outputs = batch.continuous_batch.step()
                self._count_tokens([output.hypotheses for output in outputs])
                batch.finish_examples(outputs)
            except Exception as error:  # a state that broke is nobody's any more
                for example in batch.examples.values():
                    example.request.fail(error)
                del self._running[key]
                continue
            batch.report_partials()

    def _queued_entries(self, requests: Iterable[InferenceRequest]) -> list[_QueuedRequest]:
        """Those of questions, which come back where all of their examples had begun."""
        entries = {caller.request: caller for caller in self._queue}
        for request in requests:
            if request not in entries:
                entries[request] = _QueuedRequest(request)
                entries[request].examples.clear()
                self._queue.append(entries[request])
        return [entries[request] for request in requests]

    def _run_next_batch(self, *, between_steps: bool = False) -> None:
        """One batch of like lengths of a caller, with all that is asked alike; callers take turns.

        Args:
            between_steps: of a search of its own, which no other one interrupts.
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
        inputs = [example.example for example in examples]
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
        """By a search of their own, which ends when nobody waits for it."""

        def step(tokens: Tokens, state: State) -> tuple[Any, State]:
            self._advance_others()
            return search_call.engine.step(tokens, state)

        request = replace(request, until=lambda: all(example.request.is_over for example in examples))
        return search_call.search.decode_request(step, state, request).hypotheses

    def _advance_others(self) -> None:
        """A step of every search that others joined, and a batch, while a search of its own is under way."""
        try:
            if self._receive_requests():
                self._drop_finished()
                self._admit_examples()
                self._step_batches()
                self._run_next_batch(between_steps=True)
        except Exception as error:  # whoever waits is told, and the search that is under way goes on
            self._fail_all(error)

    def _count_tokens(self, results: Iterable[Sequence[Hypothesis]]) -> None:
        self.on_tokens(sum(len(hypotheses[0].ids) for hypotheses in results if hypotheses))


def batch_key(answer_batch: Any) -> tuple[int, int] | None:
    """Which search that runs examples may join: that of their engine with as many rows; None where there is none."""
    search = answer_batch.incremental_search if isinstance(answer_batch, SearchCall) else None
    return None if search is None else (id(answer_batch.engine), search_width(search))


def _plan_batches(examples: Sequence[_RequestExample]) -> list[list[_RequestExample]]:
    """Batches of like lengths, by the bounds of the first caller."""
    job = examples[0].request.job
    lengths = np.array([example.num_tokens for example in examples], dtype=np.int64)
    plan = batch_by_length(lengths, max_tokens=job.batch_tokens, max_rows=job.max_rows)
    return [[examples[index] for index in batch.tolist()] for batch in plan]


def _isolate_errors(examples: Sequence[_RequestExample], answer: Callable[[Sequence[_RequestExample]], None]) -> None:
    """Answers examples together; where that fails, each caller's by themselves, so that one's fault is its own."""
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
        except Exception as error:  # whatever it is, this caller is told, and others go on
            request.fail(error)


def _set_answers(examples: Sequence[_RequestExample], answers: Sequence[Any]) -> None:
    for example, answer in zip(examples, answers, strict=True):
        example.request.set_answer(example.index, answer)
