"""Requests for model computations, and the client through which a thread submits them and waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar, cast, final

from heedful.generation import Hypothesis
from heedful.serving.deadline import ClientDisconnected, RequestDeadline
from heedful.serving.http_errors import HTTPError
from heedful.serving.tracing import JobTrace, start_job_trace
from heedful.tasks.batch_executor import BatchExecutor, BatchJob, SearchCall

T = TypeVar("T")

_POLL_SECONDS: Final = 0.5
"""Seconds after which a waiting thread checks its deadline again."""


class InferenceBackend(Protocol):
    """Protocol of what runs the computations of one model."""

    @property
    def is_ready(self) -> bool:
        """Whether it accepts requests now."""
        ...

    def build_executor(self, deadline: RequestDeadline) -> BatchExecutor:
        """Return an executor for one thread, whose calls wait until the deadline at most."""
        ...

    def close(self) -> None:
        """Stop it; waiting requests fail."""
        ...


@final
class InferenceRequest:
    """A batch job that one caller has submitted, and the answers that have arrived so far.

    Args:
        job: examples of the caller.
        deadline: of the caller.
        on_done: called when all answers are there, or none will come.
        trace: spans of the job, if it is traced.
    """

    def __init__(
        self,
        job: BatchJob[Any, Any],
        deadline: RequestDeadline,
        *,
        on_done: Callable[[], None] = lambda: None,
        trace: JobTrace | None = None,
    ) -> None:
        self.job = job
        self.deadline = deadline
        self.trace = trace
        self.done = threading.Event()
        self._answers: dict[int, Any] = {}
        self._error: BaseException | None = None
        self._callbacks = [on_done]

    @property
    def is_over(self) -> bool:
        """Whether no more work is needed: it is answered, has failed, or its deadline is over."""
        return self.done.is_set() or self.deadline.is_over

    def get_answers(self) -> list[Any]:
        """Return all answers in the order of the examples, or raise the error of the request."""
        if self._error is not None:
            raise self._error
        return [self._answers[index] for index in range(len(self.job.examples))]

    def set_answer(self, index: int, answer: Any) -> None:
        """Store the answer to one example; the last one finishes the request."""
        self._answers[index] = answer
        if len(self._answers) == len(self.job.examples) and not self.done.is_set():
            self._finish()

    def fail(self, error: BaseException) -> None:
        """Finish the request with an error, unless it is finished already."""
        if not self.done.is_set():
            self._error = error
            self._finish()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Register a callback for when the request is finished or its client disconnects; it may be called more
        than once.
        """
        self._callbacks.append(callback)
        self.deadline.add_cancel_callback(callback)
        if self.done.is_set():
            callback()

    def expire(self) -> None:
        """Fail the request with the error of its deadline, if that is over."""
        try:
            self.deadline.raise_if_over()
        except (ClientDisconnected, HTTPError) as error:
            self.fail(error)

    def _finish(self) -> None:
        try:
            if self.trace is not None:
                self.trace.finish(self._error)
        finally:
            self.done.set()
            for callback in [*self._callbacks]:
                callback()

    def report_partial(self, index: int, ids: Sequence[int]) -> None:
        """Pass the token ids that the example of this index has so far to the listener of the request, if there is one;
        an error of the listener fails the request.
        """
        if self.job.on_tokens is not None:
            try:
                self.job.on_tokens(index, ids)
            except Exception as error:  # a failing listener must not stop the others
                self.fail(error)


def run_calls(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results of functions; this is the `answer_batch` of calls that a worker process runs in threads of
    their own.
    """
    return [call() for call in calls]


@final
class SchedulerClient:
    """Executor of one thread: submits its batch jobs to a scheduler and waits for the answers.

    Args:
        submit: hands a request to the scheduler.
        deadline: until which the thread waits.
        sends_calls: whether the scheduler, which another process has, runs single calls too.
    """

    def __init__(
        self, submit: Callable[[InferenceRequest], None], deadline: RequestDeadline, *, sends_calls: bool = False
    ) -> None:
        self._submit = submit
        self._deadline = deadline
        self._sends_calls = sends_calls

    def run_job(self, job: BatchJob[Any, Any]) -> list[Any]:
        """Submit a job and return the answers to its examples, in order.

        Raises:
            HTTPError: the deadline has passed.
            ClientDisconnected: the client has disconnected.
        """
        if not job.examples:
            return []
        request = InferenceRequest(job, self._deadline, trace=start_job_trace(len(job.examples)))
        self._submit(request)
        while not request.done.wait(_POLL_SECONDS):
            self._deadline.raise_if_over()
        return request.get_answers()

    def run_call(self, call: Callable[[], T]) -> T:
        """Call a function in this thread, or in the process of the scheduler; see `run_job` for further errors."""
        if not self._sends_calls:
            return call()
        (result,) = self.run_job(BatchJob[Any, Any]([call], run_calls, [1], 1, 1))
        return cast("T", result)

    def stream_example(self, search_call: SearchCall[Any], example: Any) -> Iterator[Sequence[int] | Hypothesis]:
        """Yield the token ids of one example so far, whenever there are more, then its best hypothesis; `search_call`
        is the search that generates them.
        """
        updates: queue.SimpleQueue[Sequence[int] | None] = queue.SimpleQueue()
        questions = BatchJob[Any, Any]([example], search_call, [1], 1, 1, lambda _, ids: updates.put(list(ids)))
        request = InferenceRequest(
            questions, self._deadline, on_done=lambda: updates.put(None), trace=start_job_trace(1)
        )
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
            request.fail(ClientDisconnected())  # a stream that is closed needs no more; no effect if all has arrived
        yield request.get_answers()[0][0]
