"""HTTP as uvicorn speaks it, within limits: what a connection may send before it is answered, and how slowly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, NoReturn, final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from heedful.serving.connection_limits import ConnectionCounter
from heedful.serving.http_errors import headers_too_large
from heedful.serving.lingering_transport import LingeringTransport
from heedful.serving.request_log import RequestLog, log_request
from heedful.serving.routes import REQUEST_ID_FIELD, choose_request_id, new_request_id
from heedful.serving.settings import ServerLimits

MAX_URL_BYTES: Final = 65_536
"""Bytes of the address of a request, where some clients put a text."""
_MAX_PIPELINED: Final = 16
"""Requests that a connection may send before the first of them is answered."""
_UPGRADE_HEADERS: Final = (b"connection", b"upgrade", b"http2-settings")
_HTTP_VERSIONS: Final = ("1.0", "1.1")
"""Of HTTP; the parser also knows 0.9, which has no headers, and 2.0, whose requests look otherwise."""
_RETRY_STATUSES: Final = (429, 503)
"""What is refused now and may be asked again."""
_HEADER_OVERHEAD: Final = len(b": \r\n")


class _LimitExceeded(Exception):  # noqa: N818 - the parser is stopped by it, and nobody else sees it
    """A request goes beyond a limit."""


@final
class LimitedHttpProtocol(HttpToolsProtocol):
    """One connection.

    It extends what it cannot hold: uvicorn makes one such object for each connection, which is the parser's listener.
    Whatever a client sends, and however slowly, it holds no more than a few hundred kilobytes and a place among the
    connections, and that for as long as the limits say.

    Args:
        args: see uvicorn.
        limits: of what is taken.
        connection_counter: of all connections.
        on_reject: told the status where a connection is turned away before there is a request.
        kwargs: see uvicorn.
    """

    def __init__(
        self,
        *args: Any,
        limits: ServerLimits,
        connection_counter: ConnectionCounter,
        on_reject: Callable[[int], None],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._connection_counter = connection_counter
        self._on_reject = on_reject
        self._arrival_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._parse_error = (400, "this is no HTTP request")
        self._header_bytes = 0
        self._bytes_without_body = 0

    @property
    def is_busy(self) -> bool:
        """Whether a request arrives or is answered."""
        return self._arrival_timer is not None or self._is_answering

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """There may be too many."""
        lingering = LingeringTransport(transport, self.loop, expects_input=lambda: self._arrival_timer is not None)
        super().connection_made(lingering)
        limits, num_from_address = self._limits, self._connection_counter.add_connection(self._client_address)
        if len(self.connections) > 2 * limits.connections or num_from_address > 2 * limits.connections_per_address:
            lingering.abort()
        elif num_from_address > limits.connections_per_address:
            self._start_arrival_timer()
            self._send_error(429, "too many connections come from this address; close some, or use them again")
        elif len(self.connections) > limits.connections:
            self._start_arrival_timer()
            self._send_error(503, "the server has too many connections; ask again in a few seconds")
        else:
            self._start_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._connection_counter.remove_connection(self._client_address)
        self._unset_keepalive_if_required()
        self._stop_arrival_timer()
        self.resume_writing()
        self.transport.cancel_abort_timer()  # type: ignore[attr-defined]  # of `LingeringTransport`
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """More of a request, which has begun by that."""
        if self.transport.is_closing():
            return
        self._start_arrival_timer()
        self._bytes_without_body += len(data)
        self._unset_keepalive_if_required()
        self._feed_parser(data)
        if (
            self._bytes_without_body > self._limits.header_bytes + MAX_URL_BYTES
        ):  # in headers, trailers or between requests
            self._send_error(431, self._headers_message)

    def on_message_begin(self) -> None:
        """A request."""
        super().on_message_begin()
        self._start_arrival_timer()
        self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        """A part of its address."""
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            self._stop_parser(
                414, f"the address of the request has more than {MAX_URL_BYTES:,} bytes; send the text in its body"
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one of those behind a body."""
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + _HEADER_OVERHEAD
        if len(self.headers) > self._limits.headers or self._header_bytes > self._limits.header_bytes:
            self._stop_parser(431, self._headers_message)

    def on_headers_complete(self) -> None:
        """All of them: the request is answered from now on."""
        if self.parser.should_upgrade():
            return
        if self.parser.get_http_version() not in _HTTP_VERSIONS:
            self._stop_parser(
                400, "the request is not of HTTP/1.0 or HTTP/1.1; its first line must end with one of these"
            )
        super().on_headers_complete()
        self._bytes_without_body = 0
        if len(self.pipeline) > _MAX_PIPELINED:
            self._stop_parser(400, f"more than {_MAX_PIPELINED} requests wait for an answer on this connection")

    def on_body(self, body: bytes) -> None:
        """A part of what is sent."""
        super().on_body(body)
        self._bytes_without_body = 0

    def on_message_complete(self) -> None:
        """The request is there."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._bytes_without_body = 0
        self._stop_arrival_timer()

    def pause_writing(self) -> None:
        """The client does not take what is sent: it has some time to."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._limits.idle, self.transport.abort)

    def resume_writing(self) -> None:
        """It does."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def shutdown(self) -> None:
        """The server ends, when nothing happens any more or there is no time left for it."""
        self.transport.close()

    @property
    def _client_address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _request_id(self) -> str:
        """By which the log knows the request that is refused: the id that it has, as far as its headers have come."""
        if self._is_answering:
            return str(self.cycle.scope.get(REQUEST_ID_FIELD) or new_request_id())
        header_values = (value.decode("latin-1") for name, value in self.headers or () if name == b"x-request-id")
        return choose_request_id(next(header_values, ""))

    @property
    def _headers_message(self) -> str:
        return headers_too_large(self._limits).message

    def _feed_parser(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:  # or a limit
            self._send_error(*self._parse_error)

    def _decline_upgrade(self, rest: bytes) -> None:
        """Reads a request anew that offers to go on in another protocol, as Java's clients do, without that offer.

        The parser takes what follows the headers for that protocol, and it is the body of the request.

        Args:
            rest: what followed, as far as it is there.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._send_error(*self._parse_error)
            return
        headers = [header for header in self.headers if header[0] not in _UPGRADE_HEADERS]
        if any(b"close" in value.lower() for name, value in self.headers if name == b"connection"):
            headers.append((b"connection", b"close"))
        lines = [b"%b %b HTTP/1.1" % (method, self.url), *(b"%b: %b" % header for header in headers)]
        self.parser = httptools.HttpRequestParser(self)
        self._feed_parser(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def _start_idle_timer(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self._limits.idle, self.timeout_keep_alive_handler)

    def _start_arrival_timer(self) -> None:
        if self._arrival_timer is None:
            self._arrival_timer = self.loop.call_later(self._limits.arrival, self._handle_late_request)

    def _stop_arrival_timer(self) -> None:
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None

    def _handle_late_request(self) -> None:
        """A request is not there in time, unless it is we who have not read on, or have yet to answer one before it."""
        if self.pipeline or self.flow.read_paused or (self._is_answering and not self.cycle.more_body):
            self._arrival_timer = None
            self._start_arrival_timer()
        elif self.cycle is not None and self.cycle.response_complete and self.cycle.more_body:
            self.transport.close()  # it was answered before all of it was there
        else:
            self._send_error(408, f"the request did not arrive within {self._limits.arrival:g} seconds; send it faster")

    def _stop_parser(self, status: int, message: str) -> NoReturn:
        """Stops the parser, which then has a response sent."""
        self._parse_error = status, message
        raise _LimitExceeded

    def _send_error(self, status: int, message: str) -> None:
        """Answers without asking anybody, and ends; where another answer has begun there is no place for words."""
        if self.transport.is_closing():
            return
        if self._is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.pipeline or (self._is_answering and self.cycle.response_started):
            self.transport.abort()
            return
        request_id = self._request_id
        if not self._is_answering:
            self._on_reject(status)
            log_request(RequestLog(request_id, "-", "-", status))
        body = json.dumps({"error": message}).encode()
        lines = [
            *(b"%b: %b" % header for header in self.server_state.default_headers),
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"x-content-type-options: nosniff",
            b"x-request-id: %b" % request_id.encode(),
            *([b"retry-after: 5"] if status in _RETRY_STATUSES else []),
            b"connection: close",
        ]
        self.transport.write(STATUS_LINE[status] + b"\r\n".join(lines) + b"\r\n\r\n" + body)
        self.transport.close()
