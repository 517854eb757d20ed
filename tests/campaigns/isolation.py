"""Functions that run in a process of their own, with small limits."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEMORY = 2**30
"""Maximal number of bytes that the process may allocate after it was forked."""
SECONDS = 8


@dataclass(frozen=True)
class ForkedResult:
    """How a function ended in its process.

    Attributes:
        outcome: `ok`, `refused` (an error of heedful), `error` (another), or `killed by SIGNAL`.
        message: the error, with its traceback unless it is one of heedful.
        value: what the function returned, if it can be JSON.
    """

    outcome: str
    message: str = ""
    value: Any = None


def run_isolated(attempt: Callable[[], object], *, seconds: int = SECONDS, memory: int = MEMORY) -> str:
    """Run a function in a separate process; return `ok`, `refused`, or a description of the failure."""
    found = run_forked(attempt, seconds=seconds, memory=memory)
    return found.message[-1500:] if found.outcome == "error" else found.outcome


def run_forked(
    attempt: Callable[[], object],
    *,
    seconds: int = SECONDS,
    memory: int = MEMORY,
    stderr: Path | None = None,
    kill_after: float | None = None,
) -> ForkedResult:
    """Run a function in a separate process.

    Args:
        attempt: the function.
        seconds: maximal processor time.
        memory: maximal number of bytes that it may allocate.
        stderr: file for standard error; nowhere if not given.
        kill_after: seconds after which the process is killed, by a signal that nothing handles.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads, which the child does not need
        child = os.fork()
    if not child:
        os.close(read)
        _run_and_exit(attempt, write, seconds=seconds, memory=memory, stderr=stderr, kill_after=kill_after)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return ForkedResult(f"killed by {signal.Signals(os.WTERMSIG(status)).name}")
    return ForkedResult(**json.loads(told)) if told else ForkedResult("error", "ended without an outcome")


def _run_and_exit(
    attempt: Callable[[], object],
    write: int,
    *,
    seconds: int,
    memory: int,
    stderr: Path | None,
    kill_after: float | None,
) -> None:
    result = ForkedResult("error", "ended without an outcome")
    try:
        faulthandler.disable()
        gc.freeze()
        limit_process(seconds=seconds, memory=memory)
        if kill_after is not None:
            signal.setitimer(signal.ITIMER_REAL, max(kill_after, 1e-4))  # no handler: it ends native code as well
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing if stderr is None else os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        # pytest puts streams of its own in the place of these
        sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "w", 1, "utf-8", "backslashreplace") for number in (1, 2))
        value = attempt()
        result = ForkedResult("ok", value=value if isinstance(value, str | int | float | list | dict) else None)
    except BaseException as error:
        from heedful.errors import HeedfulError

        result = (
            ForkedResult("refused", str(error))
            if isinstance(error, HeedfulError)
            else ForkedResult("error", "".join(traceback.format_exception(error))[-3000:])
        )
    finally:
        content = json.dumps(vars(result)).encode(errors="replace")
        while content:
            content = content[os.write(write, content) :]
        os._exit(0)


def limit_process(*, seconds: int, memory: int) -> None:
    """Limit the processor time and the further memory of this process."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + memory, now + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # not the handler that limits tests
    signal.alarm(10 * seconds)  # of a clock that other processes share
