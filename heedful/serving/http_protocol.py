"""HTTP/1.1 connections of uvicorn, with limits on the size, number and arrival time of requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, NoReturn, final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from heedful.serving.clients import ConnectionCounter
from heedful.serving.http_errors import headers_too_large
from heedful.serving.request_log import RequestLog, log_request
from heedful.serving.routes import REQUEST_ID_FIELD, choose_request_id, new_request_id
from heedful.serving.settings import ServerLimits

LINGER_SECONDS: Final = 2.0
"""Seconds that a closing connection has for its last answer to be read."""
_FLUSH_BYTES: Final = 65_536
"""Buffered bytes from which on data is sent without waiting for more."""
MAX_URL_BYTES: Final = 65_536
"""Maximum bytes of a URL; some clients put a text there."""
_MAX_PIPELINED: Final = 16
"""Requests that a connection may send before the first of them is answered."""
_UPGRADE_HEADERS: Final = (b"connection", b"upgrade", b"http2-settings")
_HTTP_VERSIONS: Final = ("1.0", "1.1")
"""Accepted versions of HTTP; the parser also accepts 0.9, which has no headers, and 2.0, whose requests look
different."""
_RETRY_STATUSES: Final = (429, 503)
"""Statuses after which a client may send the same request again later."""
_HEADER_OVERHEAD: Final = len(b": \r\n")


@final
class LingeringTransport(asyncio.Transport):
    """Transport whose `close` delivers pending answers and takes a limited time.

    Closing a socket that has unread input resets it, which may destroy an answer on its way, such as the one to
    a request that is too large. So if more of a request is expected, only this side is closed, and input is
    discarded for a while until the other side closes too.

    The head and the body of an answer are written separately but sent together, in one system call and one
    packet.

    Args:
        transport: that sends.
        loop: event loop.
        expects_input: returns whether more of a request is expected.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, expects_input: Callable[[], bool]
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._expects_input = expects_input
        self._abort_timer: asyncio.TimerHandle | None = None
        self._buffer: list[bytes] = []
        self._buffer_size = 0

    def close(self) -> None:
        """Close when pending data is sent, or abort after `LINGER_SECONDS`."""
        if self.is_closing():
            return
        self._flush()
        self._abort_timer = self._loop.call_later(LINGER_SECONDS, self._transport.abort)
        if not (self._expects_input() and self._transport.can_write_eof()):
            self._transport.close()
            return
        self._transport.resume_reading()
        try:
            self._transport.write_eof()
        except OSError:  # the client has already disconnected
            self._transport.abort()

    def cancel_abort_timer(self) -> None:
        """Stop the timer that would abort the connection, because it has ended."""
        if self._abort_timer is not None:
            self._abort_timer.cancel()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or about to close."""
        return self._abort_timer is not None or self._transport.is_closing()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send data together with what is written in the same turn of the event loop; ignore it if the connection
        is closing.
        """
        if self.is_closing():
            return
        if not self._buffer:
            self._loop.call_soon(self._flush)
        self._buffer.append(bytes(data))
        self._buffer_size += len(data)
        if self._buffer_size >= _FLUSH_BYTES:
            self._flush()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        if not self.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        if not self.is_closing():
            self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information about the socket."""
        return self._transport.get_extra_info(name, default)

    def _flush(self) -> None:
        pending, self._buffer, self._buffer_size = self._buffer, [], 0
        if pending and not self.is_closing():
            self._transport.write(b"".join(pending))


class _LimitExceeded(Exception):  # noqa: N818 - it stops the parser and is not raised elsewhere
    """Raised in a parser callback to stop the parser because a request exceeds a limit."""


@final
class LimitedHttpProtocol(HttpToolsProtocol):
    """One HTTP connection with limits on what the client may send, and how slowly.

    It is a subclass because uvicorn creates one such object for each connection, and the parser calls its
    methods. Whatever a client sends, and however slowly, it uses at most a few hundred kilobytes and one
    connection, for the time that the limits allow.

    Args:
        args: see uvicorn.
        limits: of requests and connections.
        connection_counter: counts the connections of each address.
        on_reject: called with the status if a connection is rejected before it has sent a request.
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
        self._parse_error = (400, "this is not an HTTP request")
        self._header_bytes = 0
        self._bytes_without_body = 0

    @property
    def is_busy(self) -> bool:
        """Whether a request is arriving or being answered."""
        return self._arrival_timer is not None or self._is_answering

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start a connection over this transport, or reject it if there are too many in total or from its address."""
        lingering = LingeringTransport(transport, self.loop, expects_input=lambda: self._arrival_timer is not None)
        super().connection_made(lingering)
        limits, num_from_address = self._limits, self._connection_counter.add_connection(self._client_address)
        if len(self.connections) > 2 * limits.connections or num_from_address > 2 * limits.connections_per_address:
            lingering.abort()
        elif num_from_address > limits.connections_per_address:
            self._start_arrival_timer()
            self._send_error(429, "too many connections come from this address; close some, or reuse them")
        elif len(self.connections) > limits.connections:
            self._start_arrival_timer()
            self._send_error(503, "the server has too many connections; ask again in a few seconds")
        else:
            self._start_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers and count the connection as closed; `exc` is the error that closed it, or None."""
        self._connection_counter.remove_connection(self._client_address)
        self._unset_keepalive_if_required()
        self._stop_arrival_timer()
        self.resume_writing()
        self.transport.cancel_abort_timer()  # type: ignore[attr-defined]  # of `LingeringTransport`
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed data to the parser and start the arrival timer; reject too much data outside of bodies."""
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
        """Start the arrival timer of a new request."""
        super().on_message_begin()
        self._start_arrival_timer()
        self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Add a part of the URL; stop the parser if the URL exceeds `MAX_URL_BYTES`."""
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            self._stop_parser(
                414, f"the address of the request has more than {MAX_URL_BYTES:,} bytes; send the text in its body"
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add the name and value of a header or trailer; stop the parser if there are too many or too long ones."""
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + _HEADER_OVERHEAD
        if len(self.headers) > self._limits.headers or self._header_bytes > self._limits.header_bytes:
            self._stop_parser(431, self._headers_message)

    def on_headers_complete(self) -> None:
        """Check the HTTP version and the number of pipelined requests, and start to answer."""
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
        """Add a part of the body."""
        super().on_body(body)
        self._bytes_without_body = 0

    def on_message_complete(self) -> None:
        """Stop the arrival timer, because the request has arrived completely."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._bytes_without_body = 0
        self._stop_arrival_timer()

    def pause_writing(self) -> None:
        """Start a timer that aborts the connection if the client does not read its answer."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._limits.idle, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer of `pause_writing`, because the client reads again."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def shutdown(self) -> None:
        """Close the connection at the end of the server."""
        self.transport.close()

    @property
    def _client_address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def _is_answering(self) -> bool:
        """Whether a response has not been completed yet."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _request_id(self) -> str:
        """Id of the current request for the log: its own, or that in its `X-Request-Id` header if this has arrived,
        else a new one.
        """
        if self._is_answering:
            return str(self.cycle.scope.get(REQUEST_ID_FIELD) or new_request_id())
        header_values = (value.decode("latin-1") for name, value in self.headers or () if name == b"x-request-id")
        return choose_request_id(next(header_values, ""))

    @property
    def _headers_message(self) -> str:
        return headers_too_large(self._limits).message

    def _feed_parser(self, data: bytes) -> None:
        """Feed data to the parser; send an error response if it fails."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:  # or a limit
            self._send_error(*self._parse_error)

    def _decline_upgrade(self, rest: bytes) -> None:
        """Parse a request again without its offer to upgrade to another protocol, as Java's clients make it.

        The parser takes the data behind the headers for the other protocol, but it is the body of the request.

        Args:
            rest: data behind the headers that has arrived so far.
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
        """Start the timer for a request to arrive, unless it runs."""
        if self._arrival_timer is None:
            self._arrival_timer = self.loop.call_later(self._limits.arrival, self._handle_late_request)

    def _stop_arrival_timer(self) -> None:
        """Stop the timer for a request to arrive."""
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None

    def _handle_late_request(self) -> None:
        """Handle a request that has not arrived in time: wait on if the delay is the server's, close the connection if
        the request is answered already, else send a 408 error.
        """
        if self.pipeline or self.flow.read_paused or (self._is_answering and not self.cycle.more_body):
            self._arrival_timer = None
            self._start_arrival_timer()
        elif self.cycle is not None and self.cycle.response_complete and self.cycle.more_body:
            self.transport.close()  # it was answered before all of it was there
        else:
            self._send_error(408, f"the request did not arrive within {self._limits.arrival:g} seconds; send it faster")

    def _stop_parser(self, status: int, message: str) -> NoReturn:
        """Stop the parser and remember the error response to send."""
        self._parse_error = status, message
        raise _LimitExceeded

    def _send_error(self, status: int, message: str) -> None:
        """Send an error response with this status and message without the application, and close; only close if another
        response has started.
        """
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
