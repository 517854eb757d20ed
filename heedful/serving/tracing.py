"""OpenTelemetry traces of requests through the HTTP process and the processes that compute.

A request has these spans:

    POST /translate           from the headers to the end of the answer
      wait for thread         in the queue of the model
      work                    in a thread: reading the texts, computing, writing the answer
        compute               from sending a job to the model to its answers
          run job             in a process that computes, if there are any
            wait for batch    until the first text of the job joins a batch
            run batch         until the last answer

Spans hold names, numbers and ids, but no texts, so errors are named by their classes alone. Without tracing, all
functions here return at once, and opentelemetry is not imported.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, Final, TypeVar, final
from urllib.parse import urlsplit

from heedful.errors import MissingExtraError
from heedful.serving.settings import ServerSettings
from heedful.version import __version__

T = TypeVar("T")

_SERVICE: Final = "heedful"
_TRACES_PATH: Final = "/v1/traces"
"""Path of OTLP over HTTP, if the endpoint has none."""
_ENDPOINT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_WARNING_SECONDS: Final = 60.0
"""Seconds between two warnings about spans that cannot be sent."""
_PARENT_FIELDS: Final = ("traceparent", "tracestate")
"""Message fields with the parent of a span; of a client only the first is read, since the other may hold any text."""


@final
class RequestTracer:
    """Starts spans of requests and jobs.

    Args:
        provider: an OpenTelemetry `TracerProvider`, whose processors export the spans.
    """

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_SERVICE, __version__)

    def start_request(self, method: str, route: str, headers: Mapping[str, str]) -> TracedSpan:
        """Start the span of an HTTP request; the headers may name its parent, in the format of W3C Trace Context."""
        from opentelemetry.trace import SpanKind

        attributes = {"http.request.method": method, "http.route": route}
        span = self._tracer.start_span(
            f"{method} {route}",
            context=_read_parent(headers, fields=("traceparent",)),
            kind=SpanKind.SERVER,
            attributes=attributes,
        )
        return TracedSpan(self._tracer, span)

    def start_job(self, parent: Mapping[str, str], *, model: str, num_examples: int) -> JobTrace:
        """Start the span of a job in the process that computes it; `parent` is what `TracedSpan.to_fields` wrote in
        the process that sent it.
        """
        from opentelemetry.trace import SpanKind

        attributes = {"heedful.model": model, "heedful.examples": num_examples}
        span = self._tracer.start_span(
            "run job", context=_read_parent(parent), kind=SpanKind.CONSUMER, attributes=attributes
        )
        return JobTrace(TracedSpan(self._tracer, span))

    def flush(self, seconds: float) -> None:
        """Export the waiting spans; return after this number of seconds at the latest."""
        thread = threading.Thread(target=self._provider.force_flush, name="exporter of traces", daemon=True)
        thread.start()
        thread.join(seconds)


@final
class TracedSpan:
    """A span that has started; any thread may use it.

    Args:
        tracer: that starts its children.
        span: of OpenTelemetry.
    """

    def __init__(self, tracer: Any, span: Any) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def ids(self) -> Mapping[str, str]:
        """Hexadecimal `trace_id` and `span_id`, as logs name them."""
        context = self._span.get_span_context()
        return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}

    def to_fields(self) -> dict[str, str]:
        """Return the fields from which another process can start children of this span."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        fields: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(fields, self._as_parent())
        return fields

    def start_child(self, name: str, attributes: Mapping[str, Any] | None = None) -> TracedSpan:
        """Start a child of this span."""
        span = self._tracer.start_span(name, context=self._as_parent(), attributes=attributes)
        return TracedSpan(self._tracer, span)

    def record_child(self, name: str, start: int, end: int, attributes: Mapping[str, Any] | None = None) -> None:
        """Record a child that has ended already, from its start and end in nanoseconds since 1970."""
        span = self._tracer.start_span(name, context=self._as_parent(), start_time=start, attributes=attributes)
        span.end(end)

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes, except those that are None."""
        self._span.set_attributes({name: value for name, value in attributes.items() if value is not None})

    def end(self, error: str | None = None) -> None:
        """End the span; `error` is the class or the status of an error, if there was one."""
        if error is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()

    def _as_parent(self) -> Any:
        """Return the context of OpenTelemetry in which this span is the current one."""
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        return set_span_in_context(self._span, Context())


@final
class JobTrace:
    """Spans of a job that a model computes: how long it waits for a batch, and how long the batch runs.

    Args:
        span: of the whole job; it has children only in the process that computes the job.
    """

    def __init__(self, span: TracedSpan) -> None:
        self.span = span
        self._received = time.time_ns()
        self._started: int | None = None
        self._num_steps = 0
        self._max_rows = 0
        self._is_finished = False

    def note_start(self) -> None:
        """Note that an example of the job joins a batch now; only the first one counts."""
        if self._started is None:
            self._started = time.time_ns()

    def note_steps(self, num_steps: int, num_rows: int) -> None:
        """Count steps of the batch, which has this number of texts of all jobs."""
        self._num_steps += num_steps
        self._max_rows = max(self._max_rows, num_rows)

    def finish(self, error: BaseException | None) -> None:
        """End all spans; only the first call counts."""
        if self._is_finished:
            return
        self._is_finished = True
        if self._started is not None:
            self.span.record_child("wait for batch", self._received, self._started)
            attributes = {"heedful.steps": self._num_steps, "heedful.batch.texts": self._max_rows}
            self.span.record_child("run batch", self._started, time.time_ns(), attributes)
        self.span.end(None if error is None else type(error).__name__)


_CURRENT_SPAN: Final[ContextVar[TracedSpan | None]] = ContextVar("heedful span", default=None)


@contextmanager
def use_span(span: TracedSpan | None) -> Iterator[None]:
    """Make a span the parent of what is traced within the block; with None, nothing is traced."""
    token = _CURRENT_SPAN.set(span)
    try:
        yield
    finally:
        _CURRENT_SPAN.reset(token)


def wrap_with_spans(queue: str, work: Callable[[], T]) -> Callable[[], T]:
    """Wrap work that is put into a queue now, so that its waiting and its running become spans; return it unchanged if
    there is no current span.
    """
    parent = _CURRENT_SPAN.get()
    if parent is None:
        return work
    queued_at = time.time_ns()

    def run_traced() -> T:
        parent.record_child("wait for thread", queued_at, time.time_ns(), {"heedful.queue": queue})
        span = parent.start_child("work", {"heedful.queue": queue})
        try:
            with use_span(span):
                result = work()
        except BaseException as error:
            span.end(type(error).__name__)
            raise
        span.end()
        return result

    return run_traced


def start_job_trace(num_examples: int) -> JobTrace | None:
    """Start the span of a job that is sent to a model now; None outside a span."""
    parent = _CURRENT_SPAN.get()
    if parent is None:
        return None
    return JobTrace(parent.start_child("compute", {"heedful.examples": num_examples}))


def _read_parent(values: Mapping[str, str], *, fields: Sequence[str] = _PARENT_FIELDS) -> Any:
    """Return the context of OpenTelemetry with the parent that these headers or message fields name; one without a
    parent if they name none or are not valid.
    """
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {name: value for name in fields if (value := values.get(name)) is not None}
    return TraceContextTextMapPropagator().extract(carrier, Context())


def is_tracing_on(settings: ServerSettings) -> bool:
    """Whether the settings or the standard variables of the environment name an endpoint for traces."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return settings.tracing.endpoint is not None or any(os.environ.get(name) for name in _ENDPOINT_VARIABLES)


def require_tracing_packages(settings: ServerSettings) -> None:
    """Raise `MissingExtraError` if traces are requested and a package for them is not installed."""
    if not is_tracing_on(settings):
        return
    try:
        is_installed = find_spec("opentelemetry.sdk") and find_spec("opentelemetry.exporter.otlp.proto.http")
    except ModuleNotFoundError:
        is_installed = None
    if not is_installed:
        origin = "tracing.endpoint" if settings.tracing.endpoint else "OTEL_EXPORTER_OTLP_ENDPOINT"
        raise MissingExtraError(
            f'{origin}: traces need opentelemetry-sdk and its OTLP exporter: pip install "heedful[tracing]"; or leave '
            "it out"
        )


def build_request_tracer(
    settings: ServerSettings, *, process: str, warn: Callable[[str], None] = lambda _: None
) -> RequestTracer | None:
    """Build the tracer of this process, which sends spans to the endpoint in the settings or in the environment; None
    if there is none. Spans that cannot be sent are dropped.

    Args:
        settings: of the server.
        process: name of this process in its spans, such as `http`.
        warn: called from time to time if spans cannot be sent.

    Raises:
        MissingExtraError: opentelemetry is not installed.
    """
    require_tracing_packages(settings)
    if not is_tracing_on(settings):
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    _redirect_warnings(warn)
    attributes = {"service.version": __version__, "heedful.process": process, "process.pid": os.getpid()}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = _SERVICE
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=_build_traces_url(settings))))
    return RequestTracer(provider)


def _build_traces_url(settings: ServerSettings) -> str | None:
    """Return the endpoint in the settings, with the standard path if it has none; None if the settings name none, so
    that the exporter uses the environment.
    """
    endpoint = settings.tracing.endpoint
    if endpoint is None or urlsplit(endpoint).path not in ("", "/"):
        return endpoint
    return endpoint.rstrip("/") + _TRACES_PATH


def _redirect_warnings(warn: Callable[[str], None]) -> None:
    """Replace OpenTelemetry's log by a short warning, at most once a minute."""
    logger = logging.getLogger("opentelemetry")
    logger.propagate = False
    logger.handlers = [_WarningHandler(warn)]


@final
class _WarningHandler(logging.Handler):
    """Logging handler that calls `warn` with one sentence, at most once a minute."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn
        self._next_time = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Warn that spans are not sent, unless that was done a short time ago."""
        now = time.monotonic()
        if now >= self._next_time:
            self._next_time = now + _WARNING_SECONDS
            self._warn(
                "traces: spans could not be sent to the collector and are dropped; requests are answered as before; "
                "check tracing.endpoint, or OTEL_EXPORTER_OTLP_ENDPOINT"
            )
