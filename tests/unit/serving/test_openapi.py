"""The description of all that may be asked: it says what the server does, whatever is sent to it."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
from live_server import LiveServer, open_registry, run_server
from task_runs import create_task_runs

from heedful.serving.app import collect_routes
from heedful.serving.auth import add_key
from heedful.serving.server_routes import STATUS_DESCRIPTIONS

EXCLUDED = (
    "positive_data_acceptance",  # models refuse texts that a schema allows: too long for them, of unknown speakers
    "not_a_server_error",  # 504 is right for somebody who waits for a nanosecond; the log tells of others below
)


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    made = create_task_runs(tmp_path_factory.mktemp("described"))
    limits = {"characters": 400, "batch": 4, "tokens": 12, "deadline": 10}
    with run_server(open_registry(made, limits=limits)) as running:
        yield running


def examined(live: LiveServer, folder: Path, *options: str) -> str:
    """What schemathesis says of the live server, by its description; it exits with 0 where nothing is wrong."""
    if find_spec("schemathesis") is None:
        pytest.skip("schemathesis is not installed")
    words = [sys.executable, "-W", "ignore", "-m", "schemathesis.cli", "run", f"{live.url}/spec", "--no-color"]
    words += ["--generation-deterministic", "--warnings", "off", "--exclude-checks", ",".join(EXCLUDED), *options]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def described(live: LiveServer) -> int:
    return sum(len(methods) for methods in live.ask("/spec").json["paths"].values())


def test_everything_that_is_served_is_described(live: LiveServer) -> None:
    spec = live.ask("/spec").json
    assert spec["openapi"].startswith("3.1")
    found = {(method.upper(), path) for path, methods in spec["paths"].items() for method in methods}
    assert found == {(each.method, each.path.replace(":path}", "}")) for each in collect_routes(live.registry)}
    translate = spec["paths"]["/v1/heedful/translate"]["post"]
    assert "text/event-stream" in translate["responses"]["200"]["content"]
    assert {"400", "404", "413", "429", "500", "503", "504"} <= translate["responses"].keys()
    assert "security" not in translate


def test_what_needs_a_key_is_described_so(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    add_key(keys, "me")
    with run_server(open_registry({}, access={"keys": str(keys)})) as live:
        spec = live.ask("/spec").json
    assert spec["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    served = spec["paths"]["/v1/heedful"]["get"]
    assert served["security"] == [{"key": []}]
    assert served["responses"]["401"]["description"] == STATUS_DESCRIPTIONS[401]
    assert "403" not in served["responses"], "only other methods than GET need an allowed origin"
    assert "security" not in spec["paths"]["/health"]["get"]
    assert "401" not in spec["paths"]["/health"]["get"]["responses"]


def test_a_wrong_key_has_the_described_status(tmp_path: Path, interpreting: Mapping[str, Path]) -> None:
    keys = tmp_path / "keys"
    add_key(keys, "me")
    with run_server(open_registry(interpreting, access={"keys": str(keys)})) as live:
        paths = live.ask("/spec").json["paths"]
        for path, status in (("/v1/heedful/translate", 401), ("/translate", 403)):
            assert live.ask(path, {}, headers={"Authorization": "Bearer wrong"}).status == status
            responses = paths[path]["post"]["responses"]
            assert STATUS_DESCRIPTIONS[401] in responses[str(status)]["description"]
            assert ("401" in responses) == (status == 401)


def read_raised_statuses() -> set[int]:
    """Return the literal statuses of all errors that the code of the server builds or sends."""
    import heedful.serving

    folder = Path(heedful.serving.__file__).parent
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    names = {"HTTPError", "_send_error", "_stop_parser"}
    first = [
        call.args[0]
        for call in calls
        if (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")) in names
    ]
    return {node.value for node in first if isinstance(node, ast.Constant) and isinstance(node.value, int)}


def test_every_status_of_an_error_is_described() -> None:
    assert read_raised_statuses() == set(STATUS_DESCRIPTIONS)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/v1/heedful", {"Host": "evil.example"}, 421),
        ("POST", "/v1/heedful/translate", {"Origin": "https://evil.example"}, 403),
        ("GET", "/v1/heedful?q=" + "a" * 70_000, {}, 414),
        ("GET", "/v1/heedful", {"X": "a" * 40_000}, 431),
        ("GET", "/v1/heedful", {"Heedful-Deadline": "no"}, 400),
    ],
    ids=["host", "origin", "url", "headers", "deadline"],
)
def test_errors_have_their_schema(
    live: LiveServer, method: str, path: str, headers: Mapping[str, str], status: int
) -> None:
    operations = live.ask("/spec").json["paths"][path.partition("?")[0]]
    answer = live.ask(path, method=method, headers=headers)
    assert answer.status == status
    response = operations[method.lower()]["responses"][str(status)]
    schema = response["content"]["application/json"]["schema"]["properties"]["error"]
    assert answer.json.keys() == {"error"}
    if schema["type"] == "object":
        assert answer.json["error"].keys() == schema["properties"].keys()
    else:
        assert isinstance(answer.json["error"], str)


def test_the_server_does_what_the_description_says(
    live: LiveServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="heedful.serving"):
        said = examined(live, tmp_path, "--phases", "fuzzing", "--max-examples", "2")
    assert f"Tested: {described(live) - 1}" in said, "but for the description itself"
    assert not caplog.records


@pytest.mark.slow
def test_the_server_does_so_whatever_is_sent(
    live: LiveServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="heedful.serving"):
        examined(live, tmp_path, "--phases", "coverage,fuzzing", "--max-examples", "60")
    assert not caplog.records


class Links(HTMLParser):
    """What a page loads and links to, and the headings and fields that it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not [name for name, _ in attrs if name == "style" or name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_a_page_lists_everything_and_loads_nothing_from_elsewhere(live: LiveServer) -> None:
    page = Links()
    page.feed(live.ask("/docs").body.decode())
    paths = live.ask("/spec").json["paths"]
    assert set(paths) <= set(page.texts)
    assert "hypotheses of each sentence" in page.texts
    assert page.addresses
    for address in page.addresses:
        assert address.startswith("/")
        assert live.ask(address).status == 200, address
    assert live.ask("/docs/page.py").status == 404
