"""`heedful serve` in a process of its own; its model is loaded, and answers, when a line on standard input says so.

It tells its port, and when the model is asked, on standard output. What reads torch is left out, since it takes longer
than all else, and the model has no use for it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any


def _instead(module: str, **names: Any) -> None:
    found = ModuleType(module)
    vars(found).update(names)
    sys.modules[module] = found


_instead(
    "heedful.serving.scheduler",
    Scheduler=lambda **_: SimpleNamespace(build_executor=lambda _: None, close=lambda: None, is_ready=True),
)
_instead("heedful.tasks.batch_executor", use_executor=nullcontext)

import held  # noqa: E402 - finds these
from held import WAIT, Face, routes  # noqa: E402

from heedful.__main__ import main  # noqa: E402
from heedful.errors import RunError  # noqa: E402
from heedful.serving import app, server, startup  # noqa: E402
from heedful.serving.registry import LoadedModel, ModelRegistry  # noqa: E402


def serve(words: list[str]) -> int:
    held.WAIT = 600.0  # longer than who waits for the end of this process
    face, loaded, damaged = Face(), threading.Event(), threading.Event()
    listen = server.open_socket

    def told(settings: server.ServerSettings) -> object:
        listening = listen(settings)
        print(listening.getsockname()[1], flush=True)
        return listening

    def furnish(house: ModelRegistry, say: Callable[[str], None]) -> None:
        assert loaded.wait(WAIT)
        if damaged.is_set():
            raise RunError("held: is damaged")
        house.models["held"] = LoadedModel("held", face, house.settings)

    def listening() -> None:
        acts = {b"load": loaded.set, b"damage": damaged.set, b"go": face.go.set}
        while lines := os.read(0, 1_000):
            for line in lines.split():
                acts[line]()

    def asked() -> None:
        while face.begun.acquire():
            print("begun", flush=True)

    server.open_socket = told  # type: ignore[assignment]
    startup.load_into, startup.warm_up_models = furnish, lambda *_: None
    app.collect_routes = lambda house: tuple(routes(house))
    for work in (listening, asked):
        threading.Thread(target=work, daemon=True).start()
    return main(["serve", "held=.", "--port", "0", "--processes", "0", *words])


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
