"""A line for each request, and what must not stand there."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from blocking_server import BlockingServer, run_blocking_server
from pydantic import BaseModel

from heedful.serving.auth import format_key_line
from heedful.serving.request_log import SERVER_LOGGER, log_failure, use_server_logging
from heedful.serving.settings import ServerSettings

SECRET = "what nobody may read"
Told = Callable[[], list[str]]


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., object]:
    """A server whose log is written as settings say, and a function that gives its lines so far."""

    @contextmanager
    def run(**settings: object) -> Iterator[tuple[BlockingServer, Told]]:
        with run_blocking_server(monkeypatch, **settings) as held, use_server_logging(held.registry.settings):
            held.predictor.go.set()
            capfd.readouterr()
            yield held, partial(_lines, held, capfd)

    return run


def _lines(held: BlockingServer, capfd: pytest.CaptureFixture[str]) -> list[str]:
    held.live.ask("/health")  # an answer is sent before its line is written, and both before the next is
    SERVER_LOGGER.handlers[-1].queue.join()  # until all is written
    return [line for line in capfd.readouterr().err.splitlines() if "/health" not in line]


def test_a_line_for_each_request(logged: Callable[..., object]) -> None:
    with logged(log="text") as (held, told):
        identity = held.live.ask(f"/held?q={SECRET.replace(' ', '+')}", {"text": SECRET}).headers["x-request-id"]
        held.live.ask("/nowhere/%0a%1b[31m" + "a" * 500)
        first, second = told()
    assert re.fullmatch(
        rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z {identity} POST /held 200 [\d.]+ ms model=held", first
    )
    assert re.search(r" GET /nowhere/%0A%1B%5B31ma+ 404 [\d.]+ ms$", second)
    assert len(second) < 320


def test_lines_as_json(logged: Callable[..., object], tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text(format_key_line("laptop", "k"))
    with logged(log="json", access={"keys": path}) as (held, told):
        held.live.ask("/held", {"text": SECRET}, headers={"X-Api-Key": "k", "X-Request-Id": "mine"})
        held.live.ask("/held", {"text": SECRET})
        first, second = map(json.loads, told())
    assert first.pop("time").endswith("Z")
    assert first.pop("ms") >= 0
    assert first == {
        **{"level": "info", "id": "mine", "method": "POST", "path": "/held", "status": 200},
        **{"model": "held", "key": "laptop"},
    }
    assert (second["status"], "key" in second) == (401, False)


def test_none_where_none_are_wanted(logged: Callable[..., object]) -> None:
    with logged(log="none") as (held, told):
        held.live.ask("/held", {"text": "a"})
        assert told() == []
        held.predictor.fails = ValueError("a mistake")
        held.live.ask("/held", {"text": "a"})
        assert "ValueError: a mistake" in told(), "failures are told in any case"


@pytest.mark.parametrize("log", ["text", "json"])
def test_tracebacks_are_found_by_the_id_of_the_answer(logged: Callable[..., object], log: str) -> None:
    with logged(log=log) as (held, told):
        held.predictor.fails = ValueError(f"cannot do {SECRET!r}, nor {SECRET}")
        answer = held.live.ask("/held", {"text": SECRET})
        lines = told()
    message = answer.json["error"]["message"]
    assert "Traceback" not in message
    assert "blocking_server.py" not in message
    found = [line for line in lines if answer.headers["x-request-id"] in line and "failed" in line]
    assert len(found) == 1
    assert "ValueError: cannot do '…', nor …" in "\n".join(lines)
    assert SECRET not in "\n".join(lines)
    if log == "json":
        assert "Traceback" in json.loads(found[0])["trace"]


def test_texts_where_they_are_wanted_but_never_keys(logged: Callable[..., object]) -> None:
    with logged(log="text", log_texts=True) as (held, told):
        held.live.ask("/held", {"text": SECRET})
        held.live.ask("/held", {"text": "a" * 10_000})
        held.predictor.fails = ValueError(SECRET)
        held.live.ask("/held", {"text": SECRET})
        lines = told()
    assert lines[0].endswith(f' asked={{"text": "{SECRET}"}}')
    assert len(lines[1]) < 2_200
    assert f"ValueError: {SECRET}" in lines


def test_keys_in_messages_are_no_texts() -> None:
    from heedful.serving.request_log import RequestLog

    class Asked(BaseModel):
        q: str
        api_key: str

    visit = RequestLog("1", "POST", "/translate", message=Asked(q="a", api_key="a secret"))
    assert visit.to_json(include_texts=True)["asked"] == '{"q": "a"}'
    assert "asked" not in visit.to_json(include_texts=False)


def test_a_failure_outside_of_a_request(capfd: pytest.CaptureFixture[str]) -> None:
    with use_server_logging(ServerSettings()):
        try:
            raise ValueError("a mistake")
        except ValueError:
            log_failure("7")
    assert "request 7 failed" in capfd.readouterr().err


def test_the_log_is_as_before_when_a_server_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, SERVER_LOGGER.name)
    before = SERVER_LOGGER.level, SERVER_LOGGER.propagate, list(SERVER_LOGGER.handlers)
    with use_server_logging(ServerSettings()):
        assert SERVER_LOGGER.isEnabledFor(logging.INFO)
    assert (SERVER_LOGGER.level, SERVER_LOGGER.propagate, SERVER_LOGGER.handlers) == before


def test_what_the_event_loop_says_is_in_the_log_too(capfd: pytest.CaptureFixture[str]) -> None:
    loop = logging.getLogger("asyncio")
    before = loop.propagate
    with use_server_logging(ServerSettings(log="json")):
        loop.error("a task was lost")
        SERVER_LOGGER.handlers[-1].queue.join()  # until all is written
    line = json.loads(capfd.readouterr().err)
    assert (line["level"], line["message"]) == ("error", "a task was lost")
    assert not loop.handlers and loop.propagate == before
