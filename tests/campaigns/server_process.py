"""A server in a process of its own, with small models of all tasks, and questions whose answers are known."""

from __future__ import annotations

import gc
import http.client
import json
import os
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaigns.http_targets import create_runs
from live_server import open_registry, run_server

_STARTING_SECONDS = 120
_LIMITS = {"connections_per_address": 400, "arrival": 2.0, "idle": 20.0}


@dataclass(frozen=True)
class Question:
    """A request whose answer is the same each time."""

    path: str
    body: dict[str, Any]


QUESTIONS = (
    *(Question("/v1/heedful/translate", {"texts": [f"{n} {n + 1} 3"], "model": "translate"}) for n in range(3)),
    Question("/v1/heedful/translate", {"texts": ["1 2", "3", "4 5 1 2"], "model": "translate", "beam": 3}),
    Question("/v1/heedful/classify", {"texts": ["eins zwei", "drei"]}),
    Question("/v1/heedful/tag", {"texts": ["eins zwei eins"]}),
    Question("/v1/heedful/fill", {"texts": ["eins [MASK] drei"], "model": "fill"}),
    Question("/v1/heedful/embed", {"texts": ["eins zwei"], "model": "fill"}),
    Question("/v1/heedful/answer", {"question": "eins", "context": "eins zwei drei"}),
    Question("/v1/heedful/generate", {"prompts": ["once upon"], "search": "greedy", "tokens": 8}),
    Question("/v1/heedful/chat", {"turns": ["hello"], "search": "greedy"}),
    Question("/v1/heedful/ask", {"story": "Mary went to the garden.", "question": "Where is Mary?"}),
    Question("/translate", {"q": "1 2 3", "source": "en", "target": "de"}),
    Question("/v1/completions", {"prompt": "once", "max_tokens": 6, "temperature": 0, "model": "generate"}),
)


class ServerProcess:
    """A running server and its clients' view of it."""

    def __init__(self, process: int, port: int) -> None:
        self.process = process
        self.port = port

    @property
    def memory(self) -> int:
        """Bytes of memory that the process uses."""
        return read_memory(self.process)

    def connect(self) -> http.client.HTTPConnection:
        """Open a connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)


def read_memory(process: int) -> int:
    """Return the bytes of memory that a process uses."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ask(connection: http.client.HTTPConnection, question: Question) -> tuple[int, Any]:
    """Ask a question; return the status and what must be the same each time in the answer."""
    connection.request("POST", question.path, json.dumps(question.body).encode(), {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = json.loads(response.read())
    return response.status, reduce_answer(content)


def ask_once(server: ServerProcess, question: Question) -> tuple[int, Any]:
    """Ask a question on a connection of its own."""
    with closing(server.connect()) as connection:
        return ask(connection, question)


def reduce_answer(value: Any) -> Any:
    """Return an answer without what may differ: names of requests, times, and the last digits of numbers."""
    if isinstance(value, dict):
        return {key: reduce_answer(each) for key, each in value.items() if key not in ("id", "created")}
    if isinstance(value, list):
        return [reduce_answer(each) for each in value]
    return round(value, 3) + 0.0 if isinstance(value, float) else value


def is_same(first: Any, second: Any) -> bool:
    """Return whether two answers are the same, but for rounding."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(is_same(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(is_same, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) < 2e-3 * max(1, abs(first))
    return bool(first == second)


@contextmanager
def run_server_process(folder: Path) -> Iterator[ServerProcess]:
    """Run a server during the block; the folder must be new."""
    folder.mkdir(parents=True)
    runs = create_runs(folder)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if not process:
        gc.freeze()
        with run_server(open_registry(runs, limits=_LIMITS)) as live:
            os.write(write, str(live.port).encode())
            while os.getppid() != 1:
                time.sleep(0.5)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        port = pipe.read(5)
    try:
        yield ServerProcess(process, int(port))
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
