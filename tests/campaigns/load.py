"""A server with rude clients beside good ones, whose answers must be right."""

from __future__ import annotations

import http.client
import random
import shutil
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from campaigns.framework import Campaign, Failure, Figures
from campaigns.server_process import QUESTIONS, Question, ServerProcess, ask, ask_once, is_same, run_server_process

GOOD, RUDE = 6, 4
"""Numbers of clients."""
_BUSY = (429, 503, 504)
_MOST_GROWTH = 64 * 2**20
"""Bytes by which the memory of the server may grow after its first requests."""
_BODY = b'{"texts": ["1 2 3"], "model": "translate"}'


class LoadCampaign(Campaign):
    """Sends requests from several threads, most of them good, some as no client should."""

    name = "load"
    summary = "requests to a server whose other clients are slow, leave early, or send garbage and huge headers"

    def attempt_all(self, figures: Figures) -> None:
        """Ask until the time is over."""
        shutil.rmtree(self.work, ignore_errors=True)
        with run_server_process(self.work) as server:
            expected = [ask_once(server, question) for question in QUESTIONS]
            for question, (status, answer) in zip(QUESTIONS, expected, strict=True):
                assert status == 200, f"{question}: {answer}"
            clients = ClientGroup(server, [answer for _, answer in expected], seed=figures.seed)
            clients.start()
            try:
                self._watch(server, clients, figures)
            finally:
                clients.stop()
            self._count(clients, figures)
            if figures.outcomes["answered"] <= figures.outcomes["told to wait"]:
                figures.fail(Failure("good clients", f"few answers: {dict(figures.outcomes)}", f"seed {figures.seed}"))
            status, _ = ask_once(server, QUESTIONS[0])
            if status != 200:
                figures.fail(Failure("afterwards", f"status {status}", f"seed {figures.seed}"))

    def _watch(self, server: ServerProcess, clients: ClientGroup, figures: Figures) -> None:
        before = None
        while not self.is_over(figures):
            time.sleep(0.5)
            if before is None and clients.counts["answered"] > 100:
                before = server.memory
            self._count(clients, figures)
        before, after = before or server.memory, server.memory
        figures.measures["bytes of the server before"] = before
        figures.measures["bytes of the server after"] = after
        if after - before > _MOST_GROWTH:
            figures.fail(Failure("memory of the server", f"from {before:,} to {after:,} bytes", f"seed {figures.seed}"))

    def _count(self, clients: ClientGroup, figures: Figures) -> None:
        figures.outcomes = Counter(clients.counts)
        figures.cases = Counter(clients.cases)
        figures.attempts = sum(clients.counts.values())
        while clients.failures:
            figures.fail(clients.failures.pop())


class ClientGroup:
    """Threads of good and rude clients.

    Args:
        server: the server.
        expected: answers to `QUESTIONS`.
        seed: seed of what the clients do.
    """

    def __init__(self, server: ServerProcess, expected: list[Any], *, seed: int) -> None:
        self.server = server
        self.expected = expected
        self.counts, self.cases = Counter[str](), Counter[str]()
        self.failures: list[Failure] = []
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        names = [*(("good", n) for n in range(GOOD)), *(("rude", n) for n in range(RUDE))]
        self._threads = [
            threading.Thread(
                target=self._ask_questions if kind == "good" else self._be_rude,
                args=(random.Random(f"load {seed} {kind} {n}"),),
                daemon=True,
            )
            for kind, n in names
        ]

    def start(self) -> None:
        """Start the clients."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the clients."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(90)

    def _count(self, case: str, outcome: str) -> None:
        with self._lock:
            self.cases[case] += 1
            self.counts[outcome] += 1

    def _ask_questions(self, draw: random.Random) -> None:
        connection = self.server.connect()
        while not self._stopped.is_set():
            number = draw.randrange(len(QUESTIONS))
            question = QUESTIONS[number]
            try:
                status, answer = ask(connection, question)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._count(question.path, "lost")
                self.failures.append(Failure(f"good request to {question.path}", repr(error)))
                connection.close()
                connection = self.server.connect()
                continue
            self._judge(question, status, answer, self.expected[number])
            if draw.random() < 0.02:
                connection.close()
        connection.close()

    def _judge(self, question: Question, status: int, answer: Any, expected: Any) -> None:
        if status in _BUSY:
            self._count(question.path, "told to wait")
        elif status == 200 and is_same(answer, expected):
            self._count(question.path, "answered")
        else:
            self._count(question.path, "wrong")
            self.failures.append(Failure(f"{question}", f"status {status}, {answer} instead of {expected}"))

    def _be_rude(self, draw: random.Random) -> None:
        while not self._stopped.is_set():
            rude = draw.choice(RUDENESSES)
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as connection:
                rude(connection, draw)
            self._count(rude.__name__, "rude")


def _format_head(length: int, *further: bytes) -> bytes:
    lines = [b"POST /v1/heedful/translate HTTP/1.1", b"Host: localhost", b"Content-Type: application/json"]
    return b"\r\n".join([*lines, f"Content-Length: {length}".encode(), *further]) + b"\r\n\r\n"


def leave_at_once(connection: socket.socket, draw: random.Random) -> None:
    """Send nothing, or a part of the headers."""
    connection.sendall(_format_head(5)[: draw.randrange(60)])


def send_half_a_body(connection: socket.socket, draw: random.Random) -> None:
    """Promise a body and send half of it."""
    connection.sendall(_format_head(len(_BODY)) + _BODY[: draw.randrange(len(_BODY))])
    time.sleep(draw.choice((0, 0, 0.3)))


def leave_before_the_answer(connection: socket.socket, draw: random.Random) -> None:
    """Send a request and reset the connection."""
    connection.sendall(_format_head(len(_BODY)) + _BODY)
    time.sleep(draw.uniform(0, 0.02))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def send_garbage(connection: socket.socket, draw: random.Random) -> None:
    """Send random bytes."""
    connection.sendall(draw.randbytes(draw.choice((1, 100, 5000))))
    connection.recv(1000)


def send_huge_headers(connection: socket.socket, draw: random.Random) -> None:
    """Send very long or very many headers."""
    if draw.random() < 0.5:
        connection.sendall(_format_head(2, b"X-A: " + b"a" * 200_000) + b"{}")
    else:
        connection.sendall(_format_head(2, *(f"X-{n}: {n}".encode() for n in range(5000))) + b"{}")
    connection.recv(1000)


def send_slowly(connection: socket.socket, draw: random.Random) -> None:
    """Send a byte at a time."""
    for byte in (_format_head(len(_BODY)) + _BODY)[: draw.randrange(20, 100)]:
        connection.sendall(bytes([byte]))
        time.sleep(0.01)


def lie_about_lengths(connection: socket.socket, draw: random.Random) -> None:
    """Give a wrong or impossible length, two of them, or broken chunks."""
    heads = (
        _format_head(10**18),
        _format_head(-1),
        _format_head(3, b"Content-Length: 4"),
        _format_head(3, b"Transfer-Encoding: chunked"),
        b"POST /translate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        b"POST /translate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}",
    )
    connection.sendall(draw.choice(heads) + b"abc")
    connection.recv(1000)


def send_many_at_once(connection: socket.socket, draw: random.Random) -> None:
    """Send several requests without waiting, and read few of the answers."""
    connection.sendall((_format_head(len(_BODY)) + _BODY) * draw.choice((2, 5, 30)))
    connection.recv(draw.choice((1, 100, 10_000)))


def send_invalid_json(connection: socket.socket, draw: random.Random) -> None:
    """Send a body that is no valid message."""
    body = draw.choice((b"[" * 5000, b'{"texts": ' + b"9" * 10_000 + b"}", b"\xff" * 100, b'{"texts": []}', b""))
    connection.sendall(_format_head(len(body)) + body)
    connection.recv(1000)


RUDENESSES: tuple[Callable[[socket.socket, random.Random], None], ...] = (
    leave_at_once,
    send_half_a_body,
    leave_before_the_answer,
    send_garbage,
    send_huge_headers,
    send_slowly,
    lie_about_lengths,
    send_many_at_once,
    send_invalid_json,
)
