"""Work that asks nobody is stopped where it is, once, and nothing after it."""

from __future__ import annotations

import threading
import time

import pytest

from heedful.serving.deadline import ClientDisconnected, RequestDeadline, run_interruptible
from heedful.serving.http_errors import HTTPError


def endless(begun: threading.Event | None = None) -> None:
    """Catches every exception that a handler should."""
    while True:
        try:
            if begun is not None:
                begun.set()
            sum(range(100))
        except Exception:
            continue


def test_a_deadline_stops_it() -> None:
    with pytest.raises(HTTPError) as late:
        run_interruptible(RequestDeadline.from_seconds(0.05), endless)
    assert late.value.status == 504


def test_a_client_that_leaves_stops_it() -> None:
    term, begun = RequestDeadline.from_seconds(60), threading.Event()

    def leave() -> None:
        begun.wait(20)
        term.cancel()

    threading.Thread(target=leave, daemon=True).start()
    with pytest.raises(ClientDisconnected):
        run_interruptible(term, endless, begun)


def test_what_ends_in_time_is_answered_and_nothing_is_interrupted_later() -> None:
    term = RequestDeadline.from_seconds(0.1)
    assert run_interruptible(term, lambda number: number + 1, 2) == 3
    until = time.monotonic() + 0.3
    while time.monotonic() < until:  # past its end, nothing is raised here
        sum(range(100))
    term.cancel()
    with pytest.raises(ZeroDivisionError):
        run_interruptible(RequestDeadline.from_seconds(60), lambda: 1 / 0)


def test_many_that_end_at_their_deadline_end_in_one_way_or_the_other() -> None:
    """Wherever the interrupt comes, it is a refusal or too late, and never stays in the thread."""

    def work(seconds: float) -> str:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
        return "done"

    for _ in range(60):
        try:
            assert run_interruptible(RequestDeadline.from_seconds(0.002), work, 0.002) == "done"
        except HTTPError as late:
            assert late.status == 504
