"""OpenTelemetry traces: the spans of a request in all processes, and what becomes of requests if nobody takes them."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from blocking_server import BlockingServer, run_blocking_server
from live_server import open_registry, run_server
from pydantic import ValidationError

from heedful.errors import MissingExtraError
from heedful.serving import tracing
from heedful.serving.ray_serve import Replica
from heedful.serving.request_log import SERVER_LOGGER, use_server_logging
from heedful.serving.settings import ServerSettings
from heedful.serving.tracing import RequestTracer, build_request_tracer, is_tracing_on

needs_packages = pytest.mark.skipif(
    find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None,
    reason="opentelemetry-sdk is not installed",
)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
SECRET = "xylophone zugzwang"


class Spans:
    """The spans that were exported, by name."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = RequestTracer(provider)

    def wait_for(self, name: str) -> Mapping[str, Any]:
        """All spans once one of this name has ended."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            found = {span.name: span for span in self.exporter.get_finished_spans()}
            if name in found:
                return found
            time.sleep(0.01)
        pytest.fail(f"there is no span {name}")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingServer]:
    with run_blocking_server(monkeypatch) as found:
        found.predictor.go.set()
        yield found


@pytest.fixture
def spans(held: BlockingServer) -> Spans:
    found = Spans()
    held.registry.tracer = found.tracer
    return found


def assert_child(spans: Mapping[str, Any], child: str, parent: str) -> None:
    assert spans[child].parent.span_id == spans[parent].context.span_id
    assert spans[parent].start_time <= spans[child].start_time <= spans[child].end_time
    assert spans[child].end_time <= spans[parent].end_time


@needs_packages
def test_a_request_is_a_tree_of_spans_below_that_of_its_client(trained: Path, unchecked: None) -> None:
    spans = Spans()
    registry = open_registry({"digits": trained})
    registry.tracer = spans.tracer
    with run_server(registry) as live:
        assert live.ask("/v1/heedful/translate", {"texts": ["1 2", "3"]}, headers=PARENT).status == 200
        found = spans.wait_for("POST /v1/heedful/translate")
    root = found["POST /v1/heedful/translate"]
    assert {f"{span.context.trace_id:032x}" for span in found.values()} == {TRACE}
    assert f"{root.parent.span_id:016x}" == "b7ad6b7169203331"
    assert root.kind.name == "SERVER"
    tree = {"wait for thread": root.name, "work": root.name, "compute": "work"}
    for child, parent in {**tree, "wait for batch": "compute", "run batch": "compute"}.items():
        assert_child(found, child, parent)
    attributes = root.attributes
    assert (attributes["http.route"], attributes["http.response.status_code"]) == ("/v1/heedful/translate", 200)
    assert attributes["heedful.model"] == "digits"
    assert attributes["heedful.run_id"] == registry.models["digits"].run_id
    assert found["compute"].attributes["heedful.examples"] == 2
    assert found["run batch"].attributes["heedful.batch.texts"] == 2
    assert found["run batch"].attributes["heedful.steps"] >= 2
    assert found["wait for batch"].end_time == found["run batch"].start_time
    assert not any(span.attributes.get("error.type") for span in found.values())


@needs_packages
def test_a_request_without_a_parent_begins_a_trace(held: BlockingServer, spans: Spans) -> None:
    for value in (None, "nonsense", f"00-{'0' * 32}-b7ad6b7169203331-01"):
        spans.exporter.clear()
        held.live.ask("/held", {"text": "a"}, headers={} if value is None else {"traceparent": value})
        root = spans.wait_for("POST /held")["POST /held"]
        assert root.parent is None
        assert f"{root.context.trace_id:032x}" not in (TRACE, "0" * 32)


@needs_packages
def test_a_client_can_ask_for_no_trace(held: BlockingServer, spans: Spans) -> None:
    unsampled = {"traceparent": PARENT["traceparent"][:-2] + "00"}
    assert held.live.ask("/held", {"text": "a"}, headers=unsampled).status == 200
    held.live.ask("/size", {"text": "a"})
    assert "POST /held" not in spans.wait_for("POST /size")


@needs_packages
@pytest.mark.parametrize("error", [MemoryError(SECRET), ValueError(SECRET)])
def test_texts_are_in_no_span(held: BlockingServer, spans: Spans, error: Exception) -> None:
    held.predictor.fails = error
    text = SECRET.replace(" ", "+")
    assert held.live.ask(f"/held?q={text}", {"text": SECRET}).status == 500
    held.live.ask(f"/nowhere/{text}", method="PUT")
    held.live.ask("/held", {"text": [SECRET], SECRET: 1})
    found = spans.wait_for("other other")
    assert found["work"].attributes["error.type"] == type(error).__name__
    assert not found["work"].status.is_ok
    for span in spans.exporter.get_finished_spans():
        written = span.to_json().lower()
        assert not [part for part in (*SECRET.split(), SECRET.replace(" ", "")) if part in written]


@needs_packages
def test_errors_are_in_the_span_of_the_request(held: BlockingServer, spans: Spans) -> None:
    held.predictor.fails = MemoryError()
    held.live.ask("/held", {"text": "a"})
    held.live.ask("/size", {"text": 1})
    found = spans.wait_for("POST /size")
    assert (found["POST /held"].attributes["error.type"], found["POST /held"].status.is_ok) == ("500", False)
    assert found["POST /size"].attributes["http.response.status_code"] == 400
    assert "error.type" not in found["POST /size"].attributes, "which is the fault of the client"


@needs_packages
def test_monitoring_is_not_traced(held: BlockingServer, spans: Spans) -> None:
    for path in ("/health", "/livez", "/readyz", "/metrics"):
        assert held.live.ask(path, headers=PARENT).status == 200
    held.live.ask("/held", {"text": "a"})
    assert set(spans.wait_for("POST /held")) == {"POST /held", "work", "wait for thread"}


@needs_packages
def test_streams_are_traced_to_their_end(held: BlockingServer, spans: Spans) -> None:
    held.live.ask("/watched")
    found = spans.wait_for("GET /watched")
    assert_child(found, "work", "GET /watched")


@needs_packages
def test_the_log_names_the_trace(
    held: BlockingServer, spans: Spans, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with use_server_logging(held.registry.settings.model_copy(update={"log": "json"})):
        held.live.ask("/held", {"text": "a"}, headers=PARENT)
        root = spans.wait_for("POST /held")["POST /held"]
        held.registry.tracer = None
        held.live.ask("/held", {"text": "a"}, headers=PARENT)
        held.live.ask("/health")
        SERVER_LOGGER.handlers[-1].queue.join()
    first, second = (json.loads(line) for line in capfd.readouterr().err.splitlines() if "/held" in line)
    assert (first["trace_id"], first["span_id"]) == (TRACE, f"{root.context.span_id:016x}")
    assert "trace_id" not in second


@needs_packages
def test_a_job_ends_once_and_names_its_error() -> None:
    spans = Spans()
    trace = spans.tracer.start_job(PARENT, model="m", num_examples=3)
    trace.note_steps(4, 2)
    trace.note_steps(1, 5)
    trace.finish(ValueError(SECRET))
    trace.finish(None)
    (span,) = spans.exporter.get_finished_spans()  # it never began to run
    assert (span.name, span.attributes["error.type"]) == ("run job", "ValueError")
    assert SECRET not in span.to_json()


def test_work_is_traced_with_the_class_of_its_error() -> None:
    """Without the packages."""
    events: list[tuple[str, object]] = []

    class Noted:
        def start_child(self, name: str, _: object) -> Noted:
            events.append((name, None))
            return self

        def record_child(self, name: str, start: int, end: int, _: object) -> None:
            events.append((name, 0 <= end - start < 10**10))

        def end(self, error: str | None = None) -> None:
            events.append(("end", error))

    parent: Any = Noted()
    with tracing.use_span(parent):
        works = [tracing.wrap_with_spans("q", lambda: 5), tracing.wrap_with_spans("q", lambda: int(SECRET))]
    assert works[0]() == 5
    with pytest.raises(ValueError):
        works[1]()
    begin: list[tuple[str, object]] = [("wait for thread", True), ("work", None)]
    assert events == [*begin, ("end", None), *begin, ("end", "ValueError")]


def test_without_tracing_nothing_is_imported_or_wrapped(held: BlockingServer) -> None:
    work = object()
    assert tracing.wrap_with_spans("q", work) is work  # type: ignore[arg-type, comparison-overlap]
    assert tracing.start_job_trace(1) is None
    code = "import sys, heedful.serving.server, heedful.serving.tracing; sys.exit('opentelemetry' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0


# --- settings ---------------------------------------------------------------------------------------------


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def set_endpoint(endpoint: str) -> ServerSettings:
    return ServerSettings.model_validate({"tracing": {"endpoint": endpoint}})


def test_an_endpoint_in_settings_or_environment_turns_it_on(plain_environment: pytest.MonkeyPatch) -> None:
    with_endpoint = set_endpoint("http://127.0.0.1:4318")
    assert is_tracing_on(with_endpoint)
    assert not is_tracing_on(ServerSettings())
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        with plain_environment.context() as environment:
            environment.setenv(name, "http://127.0.0.1:4318")
            assert is_tracing_on(ServerSettings())
    for name, value in (("OTEL_SDK_DISABLED", "True"), ("OTEL_TRACES_EXPORTER", "none")):
        with plain_environment.context() as environment:
            environment.setenv(name, value)
            assert not is_tracing_on(with_endpoint)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4318", "grpc://x:4317", "http://", "http://a b", "http://a/?x=1"])
def test_a_wrong_endpoint_is_an_error(endpoint: str) -> None:
    with pytest.raises(ValidationError, match=r"is not a web address; write it as http://127\.0\.0\.1:4318"):
        set_endpoint(endpoint)


@pytest.mark.parametrize(
    ("endpoint", "used"),
    [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("https://c/otlp/v1/traces", "https://c/otlp/v1/traces"),
    ],
)
def test_an_endpoint_without_a_path_gets_the_usual_one(endpoint: str, used: str) -> None:
    assert tracing._build_traces_url(set_endpoint(endpoint)) == used


def test_missing_packages_are_an_error_before_the_server_starts(plain_environment: pytest.MonkeyPatch) -> None:
    plain_environment.setattr(tracing, "find_spec", lambda _: None)
    assert build_request_tracer(ServerSettings(), process="http") is None
    with pytest.raises(MissingExtraError, match=r'tracing.endpoint: traces need .* pip install "heedful\[tracing\]"'):
        build_request_tracer(set_endpoint("http://127.0.0.1:4318"), process="http")
    plain_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    with pytest.raises(MissingExtraError, match="OTEL_EXPORTER_OTLP_ENDPOINT: traces need"):
        build_request_tracer(ServerSettings(), process="http")


# --- a collector ------------------------------------------------------------------------------------------


class Collector:
    """A collector of OTLP over HTTP that keeps what it gets."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append(collector.parse(self.path, body, self.headers.get("Content-Encoding")))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def parse(self, path: str, body: bytes, encoding: str | None) -> Any:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        assert path == "/v1/traces"
        return ExportTraceServiceRequest.FromString(gzip.decompress(body) if encoding == "gzip" else body)

    def list_spans(self) -> list[tuple[str, Any]]:
        """Each span with the name of its process."""
        return [
            (attributes["heedful.process"], span)
            for request in self.requests
            for resource in request.resource_spans
            for attributes in [{each.key: each.value.string_value for each in resource.resource.attributes}]
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@contextmanager
def run_collector() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.server.shutdown()
        collector.server.server_close()


@contextmanager
def serve(run: Path, *words: str, **environment: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run `heedful serve` with one process that computes; yield its port."""
    command = [sys.executable, "-m", "heedful", "serve", f"digits={run}", "--port", "0", "--processes", "1", *words]
    with subprocess.Popen(
        [*command, "--device", "cpu", "--log", "json"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            assert process.stderr is not None
            port = 0
            for line in process.stderr:
                port = int(line.rpartition(":")[2]) if line.startswith("http://") else port
                if line.strip() == "ready":
                    break
            yield port, process
        finally:
            process.kill()


def translate(port: int) -> tuple[int, str]:
    body = json.dumps({"texts": ["1 2", "3"]})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/v1/heedful/translate", body, {"Content-Type": "application/json", **PARENT})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@needs_packages
@pytest.mark.slow
@pytest.mark.parametrize("by_environment", [False, True])
def test_a_collector_gets_the_spans_of_both_processes(trained: Path, by_environment: bool) -> None:
    with run_collector() as collector:
        words = () if by_environment else ("--tracing.endpoint", collector.address)
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.address} if by_environment else {}
        with serve(trained, *words, OTEL_SERVICE_NAME="mine", **variables) as (port, process):
            assert translate(port)[0] == 200
            process.terminate()
            assert process.stderr is not None
            (line,) = [json.loads(line) for line in process.stderr.read().splitlines() if "/translate" in line]
            assert process.wait(30) == 0
    spans = [(name, span) for name, span in collector.list_spans() if span.trace_id.hex() == TRACE]
    by_process: dict[str, set[str]] = {}
    for name, span in spans:
        by_process.setdefault(name, set()).add(span.name)
    assert by_process == {
        "http": {"POST /v1/heedful/translate", "wait for thread", "work", "compute"},
        "worker": {"run job", "wait for batch", "run batch"},
    }
    ids = {span.name: span for _, span in spans}
    assert ids["run job"].parent_span_id == ids["compute"].span_id
    assert ids["run batch"].parent_span_id == ids["run job"].span_id
    assert ids["compute"].start_time_unix_nano <= ids["run job"].start_time_unix_nano
    assert (line["trace_id"], line["span_id"]) == (TRACE, ids["POST /v1/heedful/translate"].span_id.hex())
    services = {
        each.value.string_value
        for request in collector.requests
        for resource in request.resource_spans
        for each in resource.resource.attributes
        if each.key == "service.name"
    }
    assert services == {"mine"}


@needs_packages
@pytest.mark.slow
def test_without_a_collector_requests_are_answered_and_a_warning_is_written_once(trained: Path) -> None:
    words = ("--tracing.endpoint", "http://127.0.0.1:9")
    delays = {"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    with serve(trained, *words, **delays) as (port, process):
        start = time.monotonic()
        for _ in range(5):
            assert translate(port)[0] == 200
            time.sleep(0.3)
        assert time.monotonic() - start < 30
        process.terminate()
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
        assert process.wait(30) == 0
    assert [line["status"] for line in lines if "status" in line] == [200] * 5
    (warning,) = [line["message"] for line in lines if line["level"] == "warning"]
    assert warning.startswith("traces: spans could not be sent to the collector")


@needs_packages
def test_a_replica_that_ends_sends_its_spans(plain_environment: pytest.MonkeyPatch) -> None:
    async def live(replica: Replica) -> None:
        events: asyncio.Queue[Any] = asyncio.Queue()
        answers: asyncio.Queue[Any] = asyncio.Queue()
        lifespan = asyncio.create_task(replica({"type": "lifespan"}, events.get, answers.put))
        await events.put({"type": "lifespan.startup"})
        assert await answers.get() == {"type": "lifespan.startup.complete"}
        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": "GET", "path": "/nowhere", "query_string": b"", "headers": headers}
        await replica(scope, asyncio.Event().wait, answers.put)
        assert (await answers.get())["status"] == 404
        await events.put({"type": "lifespan.shutdown"})
        await lifespan

    with run_collector() as collector:
        asyncio.run(live(Replica(set_endpoint(collector.address))))
        assert [(process, span.name) for process, span in collector.list_spans()] == [("replica", "GET other")]


@needs_packages
@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
def test_a_collector_gets_the_spans_of_a_replica_on_ray(trained: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--ray", "--ray.cpus", "0.5", "--port", str(port), "--device", "cpu", "--tracing.endpoint"]
    with run_collector() as collector:
        command = [sys.executable, "-m", "heedful", "serve", f"digits={trained}", *words, collector.address]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                assert any(line.strip() == "ready" for line in process.stderr), "it was never ready"
                assert translate(port)[0] == 200
            finally:
                process.terminate()
            assert process.wait(60) == 0
    spans = [(name, span) for name, span in collector.list_spans() if span.trace_id.hex() == TRACE]
    assert {name for name, _ in spans} == {"replica"}
    request, job = {"POST /v1/heedful/translate", "wait for thread", "work"}, {"compute", "wait for batch", "run batch"}
    assert {span.name for _, span in spans} == request | job
