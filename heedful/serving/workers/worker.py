"""A process that computes: it loads models as the one that has begun it does, and answers what that one asks."""

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
from typing import Any, Final, NoReturn, final

from heedful.errors import HeedfulError
from heedful.serving.deadline import ClientDisconnected, RequestDeadline
from heedful.serving.inference_request import InferenceRequest
from heedful.serving.load_models import load_into
from heedful.serving.registry import ModelRegistry
from heedful.serving.scheduler import Scheduler
from heedful.serving.settings import ServerSettings
from heedful.serving.warmup import warm_up_models
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
    ShutdownMessage,
    WorkerMessage,
)
from heedful.serving.workers.pickling import SharedObjects, collect_shared_objects
from heedful.tasks.batch_executor import BatchJob

IGNORED_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""That are for whoever has begun a process, though a terminal or systemd sends them to all."""
_PR_SET_PDEATHSIG: Final = 1
"""See prctl(2)."""
_MAX_CACHED_CALLS: Final = 256
"""Ways to answer that are kept, the last ones that were asked for."""
_GC_THRESHOLD: Final = 50_000
"""As every command has it (`heedful.__main__`)."""


def run_worker(connection: Connection, settings: ServerSettings) -> NoReturn:
    """Answers until nobody is at the other end of the pipe.

    `IGNORED_SIGNALS` are ignored: the end of whoever has begun this process is the end of it.
    """
    _end_with_parent()
    for signal_number in IGNORED_SIGNALS:  # where they could not be blocked
        signal.signal(signal_number, signal.SIG_IGN)
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    registry = ModelRegistry(settings, {}, {})
    try:
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
    except (EOFError, OSError):  # whoever asked is gone
        pass
    os._exit(0)


def _end_with_parent() -> None:
    """Have the system kill this process when the one that has begun it ends, even where it is stopped then.

    A process that runs notices the end of its pipe; one that is stopped (SIGSTOP) would stay for ever. Linux alone can
    do this.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@final
class WorkerRequestHandler:
    """Where questions lie while they are answered.

    Args:
        connection: from which they come, and into which answers go.
        registry: whose models are asked.
        shared_objects: of these.
    """

    def __init__(self, connection: Connection, registry: ModelRegistry, shared_objects: SharedObjects) -> None:
        self._connection = connection
        self._shared_objects = shared_objects
        self._load_call: Callable[[bytes], Any] = lru_cache(_MAX_CACHED_CALLS)(shared_objects.loads)
        self._deadlines: dict[int, RequestDeadline] = {}
        self._send_lock = threading.Lock()
        self._batch_counts: deque[tuple[str, int]] = deque()
        self._token_counts: deque[tuple[str, int]] = deque()
        self._schedulers: dict[str, Scheduler] = {}
        for name, model in registry.models_and_indices.items():
            assert isinstance(model.backend, Scheduler), "models are asked here"
            self._schedulers[name] = model.backend
            model.backend.on_batch = partial(self._record_batch, name)
            model.backend.on_tokens = partial(self._record_tokens, name)

    def send(self, message: WorkerMessage) -> None:
        """Says something, and what was done until now."""
        with self._send_lock:
            steps, tokens = _drain(self._batch_counts), _drain(self._token_counts)
            messages = [CountsMessage(steps, tokens), message] if steps or tokens else [message]
            with suppress(OSError):  # where nobody is there, this process ends
                self._connection.send_bytes(self._shared_objects.dumps(messages))

    def handle_message(self, content: bytes) -> bool:
        """Something was said; whether more will be."""
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
        deadline, request_number = RequestDeadline(message.seconds, message.expires_at), message.request_number
        try:
            answer_batch, examples = self._load_call(message.answer_batch), self._shared_objects.loads(message.examples)
        except Exception as error:  # whoever asked is told, and others go on
            self._send_error(request_number, error)
            return

        def send_partial(index: int, ids: Any) -> None:
            self.send(PartialMessage(request_number, index, list(ids)))

        def send_result() -> None:
            self._deadlines.pop(request_number, None)
            self._send_answers(request_number, request)

        job = BatchJob[Any, Any](
            examples,
            answer_batch,
            message.sizes,
            message.batch_tokens,
            message.max_rows,
            send_partial if message.with_partials else None,
        )
        request = InferenceRequest(job, deadline, on_done=send_result)
        self._deadlines[request_number] = deadline
        self._schedulers[message.model].submit(request)

    def _send_answers(self, request_number: int, request: InferenceRequest) -> None:
        try:
            answers = self._shared_objects.dumps(request.get_answers())
        except Exception as error:  # of the model, or an answer that cannot be sent
            self._send_error(request_number, error)
        else:
            self.send(AnswersMessage(request_number, answers))

    def _send_error(self, request_number: int, error: Exception) -> None:
        """Says what went wrong, and where, if that is no decision."""
        sent_error: Exception = error
        try:
            self._shared_objects.loads(self._shared_objects.dumps(error))
        except Exception:  # those of some libraries cannot be sent
            sent_error = RuntimeError(f"{type(error).__name__}: {error}")
        if not isinstance(error, HeedfulError | ClientDisconnected):
            sent_error.add_note("".join(traceback.format_exception(error)))
        self.send(ErrorMessage(request_number, sent_error))

    def _record_batch(self, model: str, num_texts: int) -> None:
        self._batch_counts.append((model, num_texts))

    def _record_tokens(self, model: str, num_tokens: int) -> None:
        if num_tokens:
            self._token_counts.append((model, num_tokens))


def _drain(queue: deque[tuple[str, int]]) -> list[tuple[str, int]]:
    """All that are there; others may come meanwhile."""
    return [queue.popleft() for _ in range(len(queue))]


def _ignore_message(_: str) -> None:
    """Whoever has begun this process says the same."""
