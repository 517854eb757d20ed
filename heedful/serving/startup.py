"""Start and end of a server outside its event loop: a thread loads the models, and the worker threads are closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, final

from heedful.serving.app import ServerApp
from heedful.serving.asgi import mount_routes
from heedful.serving.capacity import count_cores, require_capacity
from heedful.serving.load_models import load_into
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.settings import ServerSettings

_DEFAULT_PROCESSES: Final = 2
"""Default number of worker processes on a CPU."""
_CLOSE_SECONDS: Final = 5.0
"""Seconds that threads have to end when no answer is awaited; worker processes are killed before."""


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
        from heedful.serving.warmup import warm_up_models  # which reads torch

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
    """Return how many worker processes compute: the number in the settings, or two on a CPU with several cores."""
    if settings.processes is not None:
        return settings.processes
    from heedful.runs.device import find_device  # which reads torch

    return _DEFAULT_PROCESSES if count_cores() > 1 and find_device(settings.device).type == "cpu" else 0


def close_models(registry: ModelRegistry) -> bool:
    """Close all models, and return whether their threads have ended in time.

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
    """Describe a served model in one line: its name, type and languages."""
    languages = " to ".join(language for language in model.language_pair if language is not None)
    return f"{name}: {type(model.predictor).__name__}" + (f", {languages}" if languages else "")
