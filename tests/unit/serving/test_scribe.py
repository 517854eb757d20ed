"""The log where nobody reads it, or slowly."""

from __future__ import annotations

import io
import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest
from blocking_server import WAIT, run_blocking_server

from heedful.serving import request_log
from heedful.serving.request_log import LogWriter, use_server_logging

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no such pipes")


@contextmanager
def unread() -> Iterator[tuple[io.FileIO, TextIO]]:
    """A pipe that takes nothing any more until somebody reads: its end, and what writes there."""
    ends = os.pipe()
    os.set_blocking(ends[1], False)
    with io.FileIO(ends[0]) as reading, io.TextIOWrapper(io.FileIO(ends[1], "w"), encoding="utf-8") as stream:
        with pytest.raises(BlockingIOError):
            while os.write(ends[1], b"." * 4_096):
                pass
        os.set_blocking(ends[1], True)
        yield reading, stream


def until(enough: Callable[[], bool]) -> None:
    limit = time.monotonic() + WAIT
    while not enough():
        assert time.monotonic() < limit, "it does not happen"
        time.sleep(0.005)


def read(reading: io.FileIO, *, lines: int) -> list[str]:
    """So many lines, as they come."""
    found = b""
    while found.count(b"\n") < lines:
        assert select.select([reading], [], [], WAIT)[0], "no more comes"
        found += reading.read(65_536) or b""
    return found.decode().lstrip(".").splitlines()


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("heedful", logging.INFO, "", 0, text, None, None)


def test_answers_do_not_wait_for_who_reads_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    with unread() as (reading, stream):
        monkeypatch.setattr(sys, "stderr", stream)
        with run_blocking_server(monkeypatch, log="text") as held, use_server_logging(held.registry.settings):
            held.predictor.go.set()
            for _ in range(20):
                assert held.live.ask("/held", {"text": "a"}).json == {"text": "a"}
            assert all(" POST /held 200 " in line for line in read(reading, lines=20))


def test_what_is_left_out_is_counted_where_it_is_missing() -> None:
    with unread() as (reading, stream):
        writing = LogWriter(stream, max_records=3)
        writing.handle(record("0"))
        until(writing.queue.empty)  # the thread has it, and cannot write it
        for number in range(1, 10):
            writing.handle(record(str(number)))
        assert read(reading, lines=4) == ["0", "1", "2", "3"]
        writing.handle(record("10"))
        told, line = read(reading, lines=2)
        assert told.startswith("6 log records are missing here")
        assert line == "10"
        writing.close()


def test_what_is_left_out_at_last_is_told_in_the_end() -> None:
    with unread() as (reading, stream):
        writing = LogWriter(stream, max_records=1)
        writing.handle(record("0"))
        until(writing.queue.empty)
        for number in range(1, 4):
            writing.handle(record(str(number)))
        assert read(reading, lines=2) == ["0", "1"]
        writing.close()
        assert read(reading, lines=1)[0].startswith("2 log records")


def test_nobody_waits_for_long_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_FLUSH_SECONDS", 0.1)
    with unread() as (reading, stream):
        writing = LogWriter(stream, max_records=1)
        for _ in range(3):
            writing.handle(record("a"))
        writing.close()
        reading.close()
        until(lambda: not writing._line_writer._thread.is_alive())


def test_a_file_that_is_gone_harms_nobody() -> None:
    with unread() as (reading, stream):
        writing = LogWriter(stream)
        reading.close()
        writing.handle(record("a"))
        assert writing._line_writer._thread.is_alive()
        writing.close()


def test_a_file_that_does_not_wait_gets_all() -> None:
    with unread() as (reading, stream):
        os.set_blocking(stream.fileno(), False)
        writing = LogWriter(stream)
        writing.handle(record("a" * 100_000))
        writing.handle(record("ä\ud800"))
        assert read(reading, lines=2) == ["a" * 100_000, "ä\\ud800"]
        writing.close()


def test_what_is_no_file_is_written_to() -> None:
    stream = io.StringIO()
    writing = LogWriter(stream)
    writing.handle(record("a"))
    writing.close()
    assert stream.getvalue() == "a\n"


def test_a_process_ends_though_nobody_reads_its_log() -> None:
    code = (
        "from heedful.serving.request_log import SERVER_LOGGER, use_server_logging\n"
        "from heedful.serving.settings import ServerSettings\n"
        "with use_server_logging(ServerSettings()):\n"
        "    for _ in range(3_000): SERVER_LOGGER.info('a' * 100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as process:
        try:
            assert process.wait(3 * WAIT) == 0
        finally:
            process.kill()
