"""Work that asks nobody is stopped where it is, once, and nothing after it."""

from __future__ import annotations

import threading
import time

import pytest

from heedful.serving.interruption import interruptible
from heedful.serving.refusal import Refusal
from heedful.serving.term import Gone, Term


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
    with pytest.raises(Refusal) as late:
        interruptible(Term.of(0.05), endless)
    assert late.value.status == 504


def test_a_client_that_leaves_stops_it() -> None:
    term, begun = Term.of(60), threading.Event()

    def leave() -> None:
        begun.wait(20)
        term.leave()

    threading.Thread(target=leave, daemon=True).start()
    with pytest.raises(Gone):
        interruptible(term, endless, begun)


def test_what_ends_in_time_is_answered_and_nothing_is_interrupted_later() -> None:
    term = Term.of(0.1)
    assert interruptible(term, lambda number: number + 1, 2) == 3
    until = time.monotonic() + 0.3
    while time.monotonic() < until:  # past its end, nothing is raised here
        sum(range(100))
    term.leave()
    with pytest.raises(ZeroDivisionError):
        interruptible(Term.of(60), lambda: 1 / 0)


def test_many_that_end_at_their_deadline_end_in_one_way_or_the_other() -> None:
    """Wherever the interrupt comes, it is a refusal or too late, and never stays in the thread."""

    def work(seconds: float) -> str:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
        return "done"

    for _ in range(60):
        try:
            assert interruptible(Term.of(0.002), work, 0.002) == "done"
        except Refusal as late:
            assert late.status == 504
