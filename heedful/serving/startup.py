"""Start and end of a server outside its event loop: a thread loads the models, and the worker threads are closed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from heedful.errors import RecipeError
from heedful.memory_limits import get_memory_limit
from heedful.serving.app import ServerApp, mount_routes
from heedful.serving.load_models import load_into, warm_up_models
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.settings import ServerSettings

_PROCESS_BYTES: Final = 200 << 20
"""Bytes of memory that a process needs besides its models."""
_MAX_PROCESSES_PER_CORE: Final = 4
"""Maximum number of processes for each core; more would only wait for each other."""
_ADVICE: Final = "take fewer, or leave --processes out"
_DEFAULT_PROCESSES: Final = 2
"""Default number of worker processes on a CPU."""
_CLOSE_SECONDS: Final = 5.0
"""Seconds that threads have to end when no answer is awaited; worker processes are killed before."""


def count_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def require_capacity(settings: ServerSettings, num_processes: int) -> None:
    """Raise a `RecipeError` if this machine has not enough cores or memory for this number of processes.

    Args:
        settings: with the models that each process loads.
        num_processes: number of processes.

    Raises:
        RecipeError: there are too many.
    """
    max_processes = _MAX_PROCESSES_PER_CORE * count_cores()
    if num_processes > max_processes:
        raise RecipeError(
            f"processes: {num_processes:,} are too many; this machine has {count_cores():,} cores, which allow at most "
            f"{max_processes:,}: {_ADVICE}"
        )
    total_memory = get_memory_limit()
    needed = num_processes * (_PROCESS_BYTES + sum(_weights_size(model.run) for model in settings.models.values()))
    if total_memory is not None and needed > total_memory:
        raise RecipeError(
            f"processes: {num_processes:,} need about {needed >> 20:,} MiB, each with all models, and this machine has "
            f"{total_memory >> 20:,} MiB: {_ADVICE}"
        )


def _weights_size(run: Path) -> int:
    """Return the bytes of the largest weights file in a run folder, since a process loads one checkpoint; 0 if there is
    none.
    """
    try:
        return max((file.stat().st_size for file in run.rglob("*.safetensors")), default=0)
    except OSError:
        return 0


@final
class ModelLoader:
    """Loads and warms up the models in a thread, while the server already answers 503.

    Args:
        registry: that receives the models.
        app: that gets their routes afterwards.
        address: of the server, for the log.
        log: called with what is served.
        on_failure: called if loading fails.

    Attributes:
        error: why loading failed, or None.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        app: ServerApp,
        *,
        address: str,
        log: Callable[[str], None],
        on_failure: Callable[[], None],
    ) -> None:
        self.error: Exception | None = None
        self._registry = registry
        self._app = app
        self._address = address
        self._log = log
        self._on_failure = on_failure
        self._thread = threading.Thread(target=self.run, name="heedful loading", daemon=True)

    def start(self) -> None:
        """Start the loading thread."""
        self._thread.start()

    def run(self) -> None:
        """Load, warm up and mount the models, then set the server ready; keep the error if that fails."""
        try:
            self._load_models()
            warm_up_models(self._registry, self._log)
            mount_routes(self._app, self._registry)
        except Exception as error:
            self.error = error
            self._on_failure()
            return
        if self._registry.state == "loading":
            for name, model in self._registry.models.items():
                self._log(_describe_model(name, model))
            for name in self._registry.indices:
                self._log(f"{name}: index")
            self._log(self._address)
            self._registry.state = "ready"
            self._log("ready")

    def _load_models(self) -> None:
        """Load the models in this process or in worker processes, as the settings say."""
        settings = self._registry.settings
        num_processes = choose_num_processes(settings)
        if settings.processes is not None:
            require_capacity(settings, num_processes)
        if not num_processes:
            load_into(self._registry, self._log)
            return
        from heedful.serving.workers.worker_pool import load_into_workers  # which reads torch

        load_into_workers(self._registry, self._log, num_processes)


def choose_num_processes(settings: ServerSettings) -> int:
    """Return how many worker processes compute: as the settings say, or two on a CPU with several cores, else 0."""
    if settings.processes is not None:
        return settings.processes
    from heedful.runs.device import find_device  # which reads torch

    return _DEFAULT_PROCESSES if count_cores() > 1 and find_device(settings.device).type == "cpu" else 0


def close_models(registry: ModelRegistry) -> bool:
    """Close all models and indices of a registry, and return whether their threads have ended in time.

    Python would otherwise wait at exit for threads whose work is not wanted any more.
    """
    registry.file_queue.close()
    for model in (*registry.models.values(), *registry.indices.values()):
        threading.Thread(target=model.close, daemon=True).start()
    deadline = time.monotonic() + _CLOSE_SECONDS
    while _has_live_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not _has_live_threads()


def _has_live_threads() -> bool:
    """Return whether threads of this package are still running."""
    return any(thread.name.startswith("heedful ") for thread in threading.enumerate())


def _describe_model(name: str, model: LoadedModel[object]) -> str:
    languages = " to ".join(language for language in model.language_pair if language is not None)
    return f"{name}: {type(model.predictor).__name__}" + (f", {languages}" if languages else "")
