"""A time limit for every test, whatever it hangs in.

pytest-timeout fails a test that has reached its limit (`timeout` in pyproject.toml, `pytest.mark.timeout` on a test),
and the run goes on with the next one. That needs Python code that still runs in the main thread. Two more stages stand
behind it, for a test that does not react:

- `PROCESSES` seconds after the limit all processes that descend from this one are killed, and waiting for them ends.
- `GRACE` seconds after the limit the stacks of all threads are written and this process ends, whoever holds the
  interpreter's lock. pytest-xdist then reports that its worker crashed in this test, and goes on with another worker.

The same end waits for a process that has run all its tests and does not exit.
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
    """Keep standard error as it is before tests are captured."""
    config.stash[_STDERR] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Limit the end of this process, too: what tests left running may keep the interpreter from ending."""
    faulthandler.dump_traceback_later(GRACE, file=config.stash[_STDERR], exit=True)


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Give slow tests their longer limit."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Start the two stages behind the limit of a test."""
    _start(item, settings.timeout)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """Stop them."""
    _stop(item)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Start them again for the teardown of a test that failed, which pytest-timeout does not limit."""
    if isinstance(node, pytest.Item) and not node.config.getoption("usepdb"):
        _start(node, GRACE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Stop them whatever happened in a test."""
    try:
        return (yield)
    finally:
        _stop(item)


def pytest_enter_pdb(config: pytest.Config) -> None:
    """Stop the last of them for who debugs."""
    faulthandler.cancel_dump_traceback_later()


def _start(item: pytest.Item, seconds: float) -> None:
    _stop(item)
    ending = threading.Timer(seconds + PROCESSES, _kill_descendants)
    ending.daemon = True
    ending.start()
    item.stash[_ENDING] = ending
    faulthandler.dump_traceback_later(seconds + GRACE, file=item.config.stash[_STDERR], exit=True)


def _stop(item: pytest.Item) -> None:
    faulthandler.cancel_dump_traceback_later()
    if (ending := item.stash.get(_ENDING, None)) is not None:
        ending.cancel()


def _kill_descendants() -> None:
    for number in list(_descendants(os.getpid())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _descendants(number: int) -> Iterator[int]:
    """The processes that a process started, and those that these started, where the system lists them in /proc."""
    for listed in Path(f"/proc/{number}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, listed.read_text().split()):
                yield from _descendants(child)
                yield child
