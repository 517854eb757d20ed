"""The pool of worker processes, as the parent uses it."""

from __future__ import annotations

import multiprocessing
import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, Final, final

import torch
from torch import nn

from heedful.engines.select_engine import detect_engine
from heedful.errors import RunError
from heedful.models.placeholders import load_placeholders
from heedful.runs.device import trim_malloc
from heedful.serving.deadline import RequestDeadline
from heedful.serving.http_errors import unavailable
from heedful.serving.inference_request import InferenceRequest, SchedulerClient
from heedful.serving.load_models import load_into
from heedful.serving.metrics import ServerMetrics, WorkerState
from heedful.serving.registry import ModelRegistry
from heedful.serving.request_log import log_event
from heedful.serving.settings import ServerSettings
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
from heedful.serving.workers.worker import IGNORED_SIGNALS, run_worker

_MIN_RESTART_SECONDS, _MAX_RESTART_SECONDS = 0.5, 60.0
"""Minimum and maximum seconds before a process is restarted; the delay doubles as long as it answers nothing."""
_CLOSE_SECONDS: Final = 2.0
"""Seconds that a process has to end by itself before it is killed."""


def load_into_workers(registry: ModelRegistry, log: Callable[[str], None], num_workers: int) -> None:
    """Load the models into `num_workers` worker processes, and without their weights into the registry, whose
    predictors prepare requests; `log` is called with messages about assumptions.

    Raises:
        RecipeError: something cannot be computed on the device in the settings.
        RunError: a folder is missing or damaged, or a worker process ended.
    """
    pool = WorkerPool(num_workers, metrics=registry.metrics)
    registry.list_workers = pool.list_workers
    try:
        with load_placeholders():
            load_into(registry, log, pool.build_backend)
        trim_malloc()
        pool.start(registry)
    except BaseException:
        pool.close()
        raise


class WorkerDied(Exception):  # noqa: N818 - named by what happened
    """A worker process ended while it computed an answer."""


@final
class WorkerPool:
    """A pool of worker processes, each of which has all models.

    A process that ends is started again: its requests fail, and new ones go to the other processes, if there
    are any.

    Args:
        num_workers: number of processes.
        metrics: that count their work.
    """

    def __init__(self, num_workers: int, *, metrics: ServerMetrics) -> None:
        self.stop_event = threading.Event()
        self.metrics = metrics
        self.shared_objects = SharedObjects({})
        self._workers = [WorkerProcess(self, worker_number) for worker_number in range(1, num_workers + 1)]
        self._request_numbers = count()
        self._cancellations: queue.SimpleQueue[tuple[WorkerProcess, int] | None] = queue.SimpleQueue()
        self._close_lock = threading.Lock()
        threading.Thread(target=self._send_cancellations, name="heedful parting", daemon=True).start()

    def start(self, registry: ModelRegistry) -> None:
        """Start all workers, and wait until they have loaded the models.

        Args:
            registry: with the same models, which have not been used yet.

        Raises:
            RecipeError: something cannot be computed on the device in the settings.
            RunError: a folder is missing or damaged, or a worker process ended.
        """
        self.shared_objects, settings = collect_shared_objects(registry), worker_settings(registry, len(self._workers))
        for worker in self._workers:
            worker.start(settings)
        for worker in self._workers:
            worker.wait_started()

    @property
    def is_ready(self) -> bool:
        """Whether any worker accepts requests."""
        return any(worker.is_ready for worker in self._workers)

    def list_workers(self) -> Sequence[WorkerState]:
        """Return the state of each worker."""
        return [worker.describe_state() for worker in self._workers]

    def build_backend(self, model: str) -> RemoteBackend:
        """Return the backend of one model."""
        return RemoteBackend(self, model)

    def submit(self, model: str, request: InferenceRequest) -> None:
        """Send a request for the model of this key to the ready worker with the smallest load; fail the request if no
        worker is ready.
        """
        ready_workers = [worker for worker in self._workers if worker.is_ready]
        if not ready_workers:
            request.fail(unavailable("loading"))
            return
        worker, request_number = min(ready_workers, key=lambda candidate: candidate.load), next(self._request_numbers)
        worker.submit(request_number, model, request)
        request.add_done_callback(partial(self._cancel_if_pending, worker, request_number))

    def close(self) -> None:
        """End all workers."""
        with self._close_lock:
            if not self.stop_event.is_set():
                self.stop_event.set()
                self._cancellations.put(None)
                for worker in self._workers:
                    threading.Thread(target=worker.send_shutdown, name="heedful end", daemon=True).start()
                deadline = time.monotonic() + _CLOSE_SECONDS
                for worker in self._workers:
                    worker.close(deadline)

    def _cancel_if_pending(self, worker: WorkerProcess, request_number: int) -> None:
        """Queue the cancellation of a request that its worker has not answered."""
        if worker.is_pending(request_number):
            self._cancellations.put((worker, request_number))

    def _send_cancellations(self) -> None:
        """Send cancellations of requests to their workers until the pool is closed; runs in a thread, since the threads
        that notice a cancellation must not block.
        """
        while (cancellation := self._cancellations.get()) is not None:
            worker, request_number = cancellation
            worker.cancel(request_number)


@final
class RemoteBackend:
    """Backend of one model whose computations run in worker processes.

    Args:
        pool: worker processes.
        model: key of the model there.
    """

    def __init__(self, pool: WorkerPool, model: str) -> None:
        self._pool = pool
        self._model = model

    def build_executor(self, deadline: RequestDeadline) -> SchedulerClient:
        """Return an executor for one thread, whose calls wait until the deadline at most."""
        return SchedulerClient(partial(self._pool.submit, self._model), deadline, sends_calls=True)

    @property
    def is_ready(self) -> bool:
        """Whether any worker accepts requests."""
        return self._pool.is_ready

    def close(self) -> None:
        """End the worker processes, which all models share."""
        self._pool.close()


@final
class WorkerProcess:
    """One worker process of a pool; a thread reads its messages and restarts it after it has ended.

    Args:
        pool: to which it belongs.
        worker_number: from 1.

    Attributes:
        is_ready: whether it accepts requests.
        load: number of examples that it still has to answer.
    """

    def __init__(self, pool: WorkerPool, worker_number: int) -> None:
        self.is_ready = False
        self.load = 0
        self._pool = pool
        self._worker_number = worker_number
        self._requests: dict[int, InferenceRequest] = {}
        self._lock, self._send_lock = threading.Lock(), threading.Lock()
        self._settings: ServerSettings | None = None
        self._connection: Connection | None = None
        self._process: Any = None
        self._exit_reason = ""
        self._num_starts = 0
        self._started = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._supervise, name=f"heedful process {worker_number}", daemon=True)

    def describe_state(self) -> WorkerState:
        """Return its state, for people and metrics."""
        restarts = max(0, self._num_starts - 1)
        return WorkerState(self._worker_number, self.is_ready, self.load, restarts, self._exit_reason)

    def start(self, settings: ServerSettings) -> None:
        """Start the process with these settings; `wait_started` waits for its models."""
        self._settings = settings
        self._thread.start()

    def wait_started(self) -> None:
        """Wait until the models are loaded, and raise the error if that fails."""
        self._started.wait()
        if self._error is not None:
            raise self._error

    def submit(self, request_number: int, model: str, request: InferenceRequest) -> None:
        """Send a request for the model of this key to the process, under a number; fail the request if the process has
        ended.
        """
        job, deadline, shared_objects = request.job, request.deadline, self._pool.shared_objects
        answer_batch, examples = shared_objects.dumps(job.answer_batch), shared_objects.dumps(job.examples)
        with_partials = job.on_tokens is not None
        remaining_fields = (
            job.sizes,
            job.batch_tokens,
            job.max_rows,
            with_partials,
            deadline.seconds,
            deadline.expires_at,
            None if request.trace is None else request.trace.span.to_fields(),
        )
        with self._lock:
            self._requests[request_number] = request
            self.load += len(job.examples)
        if not self._send(RunJobMessage(request_number, model, answer_batch, examples, *remaining_fields)):
            self._fail_request(request_number)

    def cancel(self, request_number: int) -> None:
        """Tell the process that a request was cancelled, unless it is answered."""
        if self.is_pending(request_number):
            self._send(CancelMessage(request_number))

    def is_pending(self, request_number: int) -> bool:
        """Return whether the process has not answered a request yet."""
        with self._lock:
            return request_number in self._requests

    def send_shutdown(self) -> None:
        """Ask the process to end. This may block for ever if the process is stopped and its pipe is full."""
        if self._process is not None:
            self._send(ShutdownMessage())

    def close(self, deadline: float) -> None:
        """Wait until the process has ended, and kill it after the deadline (on the `time.monotonic` clock); that ends a
        stopped process too.
        """
        if self._process is not None:
            self._process.join(max(0.0, deadline - time.monotonic()))
            self._process.kill()
            self._process.join(_CLOSE_SECONDS)

    def _send(self, message: ParentMessage) -> bool:
        """Send a message, and return whether that succeeded."""
        content = self._pool.shared_objects.dumps(message)
        with self._send_lock:
            try:
                assert self._connection is not None, "a ready process has a connection"
                self._connection.send_bytes(content)
            except OSError:
                return False
        return True

    def _supervise(self) -> None:
        """Start the process, and restart it after a growing delay whenever it ends."""
        _block_signals()
        seconds = _MIN_RESTART_SECONDS
        while not self._pool.stop_event.is_set():
            has_answered = self._run_process()
            if self._error is not None or self._pool.stop_event.is_set():
                return
            seconds = _MIN_RESTART_SECONDS if has_answered else min(2 * seconds, _MAX_RESTART_SECONDS)
            log_event(
                f"process {self._worker_number}: ended ({self._exit_reason}); it starts again in {seconds:g} seconds"
            )
            self._pool.stop_event.wait(seconds)

    def _run_process(self) -> bool:
        """Start the process and handle its messages until it ends; return whether it has answered anything."""
        context = multiprocessing.get_context("spawn")
        self._connection, worker_connection = context.Pipe()
        process = context.Process(target=run_worker, args=(worker_connection, self._settings), daemon=True)
        has_answered = False
        self._num_starts += 1
        try:
            process.start()
            self._process = process
            worker_connection.close()
            while True:
                for message in self._pool.shared_objects.loads(self._connection.recv_bytes()):
                    self._handle_message(message)
                    has_answered |= isinstance(message, AnswersMessage)
        except (EOFError, OSError) as error:
            self.is_ready = False
            self._exit_reason = _describe_exit(process) or f"it could not start: {error}"
        if not self._started.is_set():
            self._error = self._error or RunError(
                f"process {self._worker_number}: ended while it loaded models ({self._exit_reason})"
            )
            self._started.set()
        with self._lock:
            pending = [*self._requests]
        for request_number in pending:
            self._fail_request(request_number)
        return has_answered

    def _handle_message(self, message: WorkerMessage) -> None:
        """Handle a message of the process: that it is ready or could not load, counts for the metrics, or the answers,
        partial outputs or error of a request.
        """
        match message:
            case ReadyMessage():
                self.is_ready = True
                self._started.set()
            case LoadErrorMessage(error=error):
                self._error = None if self._started.is_set() else error
            case CountsMessage():
                self._update_metrics(message)
            case PartialMessage(request_number=request_number, index=index, ids=ids):
                with self._lock:
                    request = self._requests.get(request_number)
                if request is not None:
                    request.report_partial(index, ids)
            case AnswersMessage(request_number=request_number, answers=answers):
                if (waiting_request := self._pop_request(request_number)) is not None:
                    self._set_answers(waiting_request, answers)
            case ErrorMessage(request_number=request_number, error=error):
                if (waiting_request := self._pop_request(request_number)) is not None:
                    waiting_request.fail(error)

    def _set_answers(self, request: InferenceRequest, content: bytes) -> None:
        """Unpickle `content`, the answers to a request, and store them in the request; fail the request if that is
        impossible.
        """
        try:
            answers = self._pool.shared_objects.loads(content)
        except Exception as error:  # the caller gets the error, and others continue
            request.fail(error)
            return
        for index, answer in enumerate(answers):
            request.set_answer(index, answer)

    def _pop_request(self, request_number: int) -> InferenceRequest | None:
        """Remove and return a pending request, or None if it is not pending."""
        with self._lock:
            request = self._requests.pop(request_number, None)
            if request is not None:
                self.load -= len(request.job.examples)
        return request

    def _fail_request(self, request_number: int) -> None:
        """Fail a pending request because the process has ended."""
        if (request := self._pop_request(request_number)) is not None:
            request.fail(
                WorkerDied(f"process {self._worker_number} ended while it computed this ({self._exit_reason})")
            )

    def _update_metrics(self, counts: CountsMessage) -> None:
        """Add the counts in a message of the process to the metrics."""
        for model, num_texts in counts.batches:
            self._pool.metrics.record_batch(model, num_texts)
        for model, num_tokens in counts.token_counts:
            self._pool.metrics.count_tokens(model, num_tokens)


def worker_settings(registry: ModelRegistry, num_workers: int) -> ServerSettings:
    """Return the settings with which each of the workers loads the models of a registry: the engines that were chosen
    here instead of `auto`, and a share of the threads unless their number is set.
    """
    settings = registry.settings
    models = {
        name: model_settings.model_copy(update={"engine": detect_engine(_find_modules(registry, name))})
        for name, model_settings in settings.models.items()
    }
    threads = settings.threads or max(1, (torch.get_num_threads() - 1) // num_workers)  # HTTP has a core of its own
    return settings.model_copy(update={"models": models, "threads": threads})


def _find_modules(registry: ModelRegistry, name: str) -> list[nn.Module]:
    """Return the PyTorch modules of the model of this name in a registry, or of all tasks of a model with several."""
    predictors = {
        key: model.predictor for key, model in registry.models.items() if key == name or key.startswith(f"{name}/")
    }
    return [
        shared_object
        for shared_object in SharedObjects(predictors).iter_objects()
        if isinstance(shared_object, nn.Module)
    ]


def _describe_exit(process: Any) -> str:
    """Describe how a process ended, by its signal or exit code; empty if it never started."""
    if process.pid is None:
        return ""
    process.join(_CLOSE_SECONDS)
    code = process.exitcode
    if code is None:
        return "it no longer responds"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _block_signals() -> None:
    """Block `IGNORED_SIGNALS` in this thread, so that a process started from it inherits the block and survives until
    it ignores them.
    """
    if hasattr(signal, "pthread_sigmask"):
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # which would unblock them again when it starts
        signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)
