"""A worker process: it loads the same models as its parent and answers the parent's requests."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn, TypeVar, final

from heedful.errors import HeedfulError
from heedful.serving.deadline import ClientDisconnected, RequestDeadline
from heedful.serving.inference_request import InferenceRequest, run_calls
from heedful.serving.load_models import load_into, warm_up_models
from heedful.serving.registry import ModelRegistry
from heedful.serving.scheduler import Scheduler
from heedful.serving.settings import ServerSettings
from heedful.serving.tracing import JobTrace, build_request_tracer
from heedful.serving.workers.messages import (
    AnswersMessage,
    CancelMessage,
    CountsMessage,
    ErrorMessage,
    LoadErrorMessage,
    ParentMessage,
    PartialMessage,
    ReadyMessage,
    RunJobMessage,
    SharedObjects,
    ShutdownMessage,
    WorkerMessage,
    collect_shared_objects,
)
from heedful.tasks.batch_executor import BatchJob

T = TypeVar("T")

IGNORED_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals for the parent process, although a terminal or systemd sends them to all processes."""
_PR_SET_PDEATHSIG: Final = 1
"""See prctl(2)."""
_MAX_CACHED_CALLS: Final = 256
"""Number of unpickled `answer_batch` functions that are cached, the most recently used ones."""
_FLUSH_SECONDS: Final = 1.0
"""Seconds for sending the last spans; the parent waits for two."""
_GC_THRESHOLD: Final = 50_000
"""Threshold of the garbage collector, as in every command (`heedful.__main__`)."""


def run_worker(connection: Connection, settings: ServerSettings) -> NoReturn:
    """Load the models of the settings, and answer requests from the pipe `connection` until its other end is closed.

    `IGNORED_SIGNALS` are ignored: the process ends when its parent does.
    """
    _end_with_parent()
    for signal_number in IGNORED_SIGNALS:  # where they could not be blocked
        signal.signal(signal_number, signal.SIG_IGN)
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    registry = ModelRegistry(settings, {}, {})
    try:
        registry.tracer = build_request_tracer(settings, process="worker")
        load_into(registry, _ignore_message)
        shared_objects = collect_shared_objects(registry)
        warm_up_models(registry, _ignore_message)
    except HeedfulError as error:
        connection.send_bytes(SharedObjects({}).dumps([LoadErrorMessage(error)]))
        os._exit(0)
    gc.freeze()
    request_handler = WorkerRequestHandler(connection, registry, shared_objects)
    request_handler.send(ReadyMessage())
    try:
        while request_handler.handle_message(connection.recv_bytes()):
            pass
    except (EOFError, OSError):  # the caller has ended
        pass
    if registry.tracer is not None:
        registry.tracer.flush(_FLUSH_SECONDS)
    os._exit(0)


def _end_with_parent() -> None:
    """Let the system kill this process when its parent ends, even if this process is stopped then.

    A running process notices the end of its pipe; a stopped one (SIGSTOP) would stay for ever. Only Linux
    offers this.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@final
class WorkerRequestHandler:
    """Receives the parent's messages, runs the requests in them, and sends the answers.

    Args:
        connection: pipe to the parent.
        registry: with the loaded models.
        shared_objects: objects of the models, which messages refer to by name.
    """

    def __init__(self, connection: Connection, registry: ModelRegistry, shared_objects: SharedObjects) -> None:
        self._connection = connection
        self._shared_objects = shared_objects
        self._load_call: Callable[[bytes], Any] = lru_cache(_MAX_CACHED_CALLS)(shared_objects.loads)
        self._deadlines: dict[int, RequestDeadline] = {}
        self._send_lock = threading.Lock()
        self._batch_counts: deque[tuple[str, int]] = deque()
        self._token_counts: deque[tuple[str, int]] = deque()
        self._answers: deque[AnswersMessage] = deque()
        self._models = registry.models_and_indices
        self._tracer = registry.tracer
        self._schedulers: dict[str, Scheduler] = {}
        for name, model in self._models.items():
            assert isinstance(model.backend, Scheduler), "models run in this process"
            self._schedulers[name] = model.backend
            model.backend.on_batch = partial(self._record_batch, name)
            model.backend.on_tokens = partial(self._record_tokens, name)
            model.backend.on_answers = self.send_answers

    def send(self, *messages: WorkerMessage) -> None:
        """Send messages to the parent, together with the answers that wait and the numbers of texts and tokens computed
        since the last ones.
        """
        with self._send_lock:
            steps, tokens = _drain(self._batch_counts), _drain(self._token_counts)
            counts = [CountsMessage(steps, tokens)] if steps or tokens else []
            sent: list[WorkerMessage] = [*counts, *_drain(self._answers), *messages]
            with suppress(OSError):  # without a parent, this process ends
                self._connection.send_bytes(self._shared_objects.dumps(sent))

    def send_answers(self) -> None:
        """Send the answers that wait, if there are any; those of one step are sent together, since each message wakes
        the parent.
        """
        if self._answers:
            self.send()

    def handle_message(self, content: bytes) -> bool:
        """Handle one message of the parent, given as pickled bytes; return False if it was the last one."""
        message: ParentMessage = self._shared_objects.loads(content)
        match message:
            case RunJobMessage():
                self._start_request(message)
            case CancelMessage(request_number=number):
                if (deadline := self._deadlines.get(number)) is not None:
                    deadline.cancel()
            case ShutdownMessage():
                return False
        return True

    def _start_request(self, message: RunJobMessage) -> None:
        """Submit the job in a message to the scheduler of its model; its answers are sent when it is done."""
        deadline, request_number = RequestDeadline(message.seconds, message.expires_at), message.request_number
        try:
            answer_batch, examples = self._load_call(message.answer_batch), self._shared_objects.loads(message.examples)
        except Exception as error:  # the caller gets the error, and others continue
            self._send_error(request_number, error)
            return

        def send_partial(index: int, ids: Any) -> None:
            self.send(PartialMessage(request_number, index, list(ids)))

        def send_result() -> None:
            self._deadlines.pop(request_number, None)
            self._store_answers(request_number, request)

        job = BatchJob[Any, Any](
            examples,
            answer_batch,
            message.sizes,
            message.batch_tokens,
            message.max_rows,
            send_partial if message.with_partials else None,
        )
        request = InferenceRequest(job, deadline, on_done=send_result, trace=self._start_trace(message, len(examples)))
        self._deadlines[request_number] = deadline
        if answer_batch is run_calls:
            self._models[message.model].submit(deadline, partial(self._run_calls, request))
        else:
            self._schedulers[message.model].submit(request)

    def _start_trace(self, message: RunJobMessage, num_examples: int) -> JobTrace | None:
        """Start the span of the job in a message; return None if the job is not traced."""
        if self._tracer is None or message.trace_parent is None:
            return None
        return self._tracer.start_job(message.trace_parent, model=message.model, num_examples=num_examples)

    def _run_calls(self, request: InferenceRequest) -> None:
        """Answer a request whose examples are calls, unless its deadline is over."""
        if request.trace is not None:
            request.trace.note_start()
        try:
            request.deadline.raise_if_over()
            for index, result in enumerate(run_calls(request.job.examples)):
                request.set_answer(index, result)
        except Exception as error:  # the caller gets the error
            request.fail(error)
        self.send_answers()

    def _store_answers(self, request_number: int, request: InferenceRequest) -> None:
        """Store the answers of a finished request for `send_answers`, or send its error if it failed or an answer
        cannot be pickled.
        """
        try:
            answers = self._shared_objects.dumps(request.get_answers())
        except Exception as error:  # of the model, or an answer that cannot be sent
            self._send_error(request_number, error)
        else:
            self._answers.append(AnswersMessage(request_number, answers))

    def _send_error(self, request_number: int, error: Exception) -> None:
        """Send the error of a request, with its traceback unless it is meant for the client."""
        sent_error: Exception = error
        try:
            self._shared_objects.loads(self._shared_objects.dumps(error))
        except Exception:  # those of some libraries cannot be sent
            sent_error = RuntimeError(f"{type(error).__name__}: {error}")
        if not isinstance(error, HeedfulError | ClientDisconnected):
            sent_error.add_note("".join(traceback.format_exception(error)))
        self.send(ErrorMessage(request_number, sent_error))

    def _record_batch(self, model: str, num_texts: int) -> None:
        """Remember the number of texts of one step, for the parent's metrics."""
        self._batch_counts.append((model, num_texts))

    def _record_tokens(self, model: str, num_tokens: int) -> None:
        """Remember a number of generated tokens, for the parent's metrics."""
        if num_tokens:
            self._token_counts.append((model, num_tokens))


def _drain(queue: deque[T]) -> list[T]:
    """Remove and return the items that are in a queue now; other threads may append meanwhile."""
    return [queue.popleft() for _ in range(len(queue))]


def _ignore_message(_: str) -> None:
    """Discard a log message, since the parent logs the same one."""
