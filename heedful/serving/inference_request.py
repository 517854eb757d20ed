"""What somebody asks of a model and waits for, whoever computes it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, final

from heedful.generation import Hypothesis
from heedful.serving.deadline import ClientDisconnected, RequestDeadline
from heedful.serving.http_errors import HTTPError
from heedful.tasks.batch_executor import BatchExecutor, BatchJob, SearchCall

_POLL_SECONDS: Final = 0.5
"""Seconds after which a thread that waits looks whether its term is over, though nothing was said."""


class InferenceBackend(Protocol):
    """Answers what is asked of one model."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be asked."""
        ...

    def build_executor(self, deadline: RequestDeadline) -> BatchExecutor:
        """What a thread asks, which waits until a term is over."""
        ...

    def close(self) -> None:
        """Ends it; what waits fails."""
        ...


@final
class InferenceRequest:
    """One caller's questions, on their way to be answers.

    Args:
        job: of the caller.
        deadline: how long it waits.
        on_done: told when there is an answer to all, or none will come.
    """

    def __init__(
        self, job: BatchJob[Any, Any], deadline: RequestDeadline, *, on_done: Callable[[], None] = lambda: None
    ) -> None:
        self.job = job
        self.deadline = deadline
        self.done = threading.Event()
        self._answers: dict[int, Any] = {}
        self._error: BaseException | None = None
        self._callbacks = [on_done]

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be done for it any more."""
        return self.done.is_set() or self.deadline.is_over

    def get_answers(self) -> list[Any]:
        """When all is done; raises what went wrong."""
        if self._error is not None:
            raise self._error
        return [self._answers[index] for index in range(len(self.job.examples))]

    def set_answer(self, index: int, answer: Any) -> None:
        """One of the examples is answered."""
        self._answers[index] = answer
        if len(self._answers) == len(self.job.examples) and not self.done.is_set():
            self._finish()

    def fail(self, error: BaseException) -> None:
        """No answer will come; nothing changes where there is one already."""
        if not self.done.is_set():
            self._error = error
            self._finish()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Has somebody told when there is nothing to wait for, or nobody waits; perhaps more than once."""
        self._callbacks.append(callback)
        self.deadline.add_cancel_callback(callback)
        if self.done.is_set():
            callback()

    def expire(self) -> None:
        """Its term is over."""
        try:
            self.deadline.raise_if_over()
        except (ClientDisconnected, HTTPError) as error:
            self.fail(error)

    def _finish(self) -> None:
        self.done.set()
        for callback in [*self._callbacks]:
            callback()

    def report_partial(self, index: int, ids: Sequence[int]) -> None:
        """More of a text."""
        if self.job.on_tokens is not None:
            try:
                self.job.on_tokens(index, ids)
            except Exception as error:  # whoever listens may break, and others go on
                self.fail(error)


@final
class SchedulerClient:
    """What one thread asks of a model.

    Args:
        submit: has questions answered.
        deadline: how long the thread waits.
    """

    def __init__(self, submit: Callable[[InferenceRequest], None], deadline: RequestDeadline) -> None:
        self._submit = submit
        self._deadline = deadline

    def run_job(self, job: BatchJob[Any, Any]) -> list[Any]:
        """To the examples, in their order.

        Raises:
            Refusal: the term ended.
            Gone: whoever asked has left.
        """
        if not job.examples:
            return []
        request = InferenceRequest(job, self._deadline)
        self._submit(request)
        while not request.done.wait(_POLL_SECONDS):
            self._deadline.raise_if_over()
        return request.get_answers()

    def stream_example(self, search_call: SearchCall[Any], example: Any) -> Iterator[Sequence[int] | Hypothesis]:
        """See `heedful.tasks.batch_executor.stream_one`."""
        updates: queue.SimpleQueue[Sequence[int] | None] = queue.SimpleQueue()
        questions = BatchJob[Any, Any]([example], search_call, [1], 1, 1, lambda _, ids: updates.put(list(ids)))
        request = InferenceRequest(questions, self._deadline, on_done=lambda: updates.put(None))
        self._submit(request)
        try:
            while True:
                try:
                    ids = updates.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    self._deadline.raise_if_over()
                    continue
                if ids is None:
                    break
                yield ids
        finally:
            request.fail(ClientDisconnected())  # whoever closes the stream waits no longer; nothing, where all has come
        yield request.get_answers()[0][0]
