"""`heedful serve` in a separate process; lines on standard input load its model and release its answers.

It prints its port, and a line for each call of the model. Modules that import torch are replaced, because importing
torch takes longer than everything else and the model does not need it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any


def _replace_module(module: str, **names: Any) -> None:
    found = ModuleType(module)
    vars(found).update(names)
    sys.modules[module] = found


_replace_module(
    "heedful.serving.scheduler",
    Scheduler=lambda **_: SimpleNamespace(build_executor=lambda _: None, close=lambda: None, is_ready=True),
)
_replace_module("heedful.tasks.batch_executor", use_executor=nullcontext)

import blocking_server  # noqa: E402 - needs the replaced modules
from blocking_server import WAIT, BlockingPredictor, build_routes  # noqa: E402

from heedful.__main__ import main  # noqa: E402
from heedful.errors import RunError  # noqa: E402
from heedful.serving import app, server  # noqa: E402
from heedful.serving.registry import LoadedModel, ModelRegistry  # noqa: E402


def run_server(words: list[str]) -> int:
    blocking_server.WAIT = 600.0  # longer than the tests wait for the end of this process
    predictor, loaded, damaged = BlockingPredictor(), threading.Event(), threading.Event()
    listen = server.open_socket

    def open_and_print_port(settings: server.ServerSettings) -> object:
        listening = listen(settings)
        print(listening.getsockname()[1], flush=True)
        return listening

    def load_model(registry: ModelRegistry, say: Callable[[str], None]) -> None:
        assert loaded.wait(WAIT)
        if damaged.is_set():
            raise RunError("held: is damaged")
        registry.models["held"] = LoadedModel("held", predictor, registry.settings)

    def read_commands() -> None:
        acts = {b"load": loaded.set, b"damage": damaged.set, b"go": predictor.go.set}
        while lines := os.read(0, 1_000):
            for line in lines.split():
                acts[line]()

    def print_requests() -> None:
        while predictor.begun.acquire():
            print("begun", flush=True)

    server.open_socket = open_and_print_port  # type: ignore[assignment]
    server.load_into, server.warm_up_models = load_model, lambda *_: None
    app.collect_routes = lambda registry: tuple(build_routes(registry))
    for work in (read_commands, print_requests):
        threading.Thread(target=work, daemon=True).start()
    return main(["serve", "held=.", "--port", "0", "--processes", "0", *words])


if __name__ == "__main__":
    sys.exit(run_server(sys.argv[1:]))
