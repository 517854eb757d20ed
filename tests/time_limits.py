"""Time limits of tests, also for tests that hang in native code or wait for a process.

pytest-timeout fails a test that reaches its limit (`timeout` in pyproject.toml, `pytest.mark.timeout` on a test), and
the next test runs. This works only if the main thread runs Python code. Two more stages end a test that does not react:

- `PROCESSES` seconds after the limit, all descendants of this process are killed, so a test stops waiting for them.
- `GRACE` seconds after the limit, the stacks of all threads are written and this process ends, also if a thread holds
  the interpreter's lock. pytest-xdist then reports that its worker crashed in this test, and starts another worker.

A process that has run all its tests and does not exit is ended in the same way.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

SLOW: Final = 1800.0
"""Seconds for a test that is marked `slow`, unless it is marked `timeout` too."""
PROCESSES: Final = 10.0
GRACE: Final = 30.0

_ENDING = pytest.StashKey[threading.Timer]()
_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep standard error before pytest captures it."""
    config.stash[_STDERR] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Limit the time until this process exits, because threads of tests may prevent the exit."""
    faulthandler.dump_traceback_later(GRACE, file=config.stash[_STDERR], exit=True)


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Give slow tests their longer limit."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Start the two stages after the limit of a test."""
    _start_timers(item, settings.timeout)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """Stop the two stages."""
    _stop_timers(item)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Start them again for the teardown of a failed test, which pytest-timeout does not limit."""
    if isinstance(node, pytest.Item) and not node.config.getoption("usepdb"):
        _start_timers(node, GRACE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Stop the two stages after each test."""
    try:
        return (yield)
    finally:
        _stop_timers(item)


def pytest_enter_pdb(config: pytest.Config) -> None:
    """Stop the second stage in the debugger."""
    faulthandler.cancel_dump_traceback_later()


def _start_timers(item: pytest.Item, seconds: float) -> None:
    _stop_timers(item)
    ending = threading.Timer(seconds + PROCESSES, _kill_descendants)
    ending.daemon = True
    ending.start()
    item.stash[_ENDING] = ending
    faulthandler.dump_traceback_later(seconds + GRACE, file=item.config.stash[_STDERR], exit=True)


def _stop_timers(item: pytest.Item) -> None:
    faulthandler.cancel_dump_traceback_later()
    if (ending := item.stash.get(_ENDING, None)) is not None:
        ending.cancel()


def _kill_descendants() -> None:
    for number in list(_iter_descendants(os.getpid())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _iter_descendants(number: int) -> Iterator[int]:
    """Yield the ids of the descendants of a process, if the system lists them in /proc."""
    for listed in Path(f"/proc/{number}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, listed.read_text().split()):
                yield from _iter_descendants(child)
                yield child
