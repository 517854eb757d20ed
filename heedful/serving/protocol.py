"""HTTP as uvicorn speaks it, within limits: what a connection may send before it is answered, and how slowly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, NoReturn, final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from heedful.serving.crowds import Crowds
from heedful.serving.logs import Visit, tell
from heedful.serving.parting import Parting
from heedful.serving.refusal import overladen
from heedful.serving.routes import ID, new_id, request_id
from heedful.serving.settings import Limits

LINE: Final = 65_536
"""Bytes of the address of a request, where some clients put a text."""
_PIPELINED: Final = 16
"""Requests that a connection may send before the first of them is answered."""
_OFFERS: Final = (b"connection", b"upgrade", b"http2-settings")
_VERSIONS: Final = ("1.0", "1.1")
"""Of HTTP; the parser also knows 0.9, which has no headers, and 2.0, whose requests look otherwise."""
_LATER: Final = (429, 503)
"""What is refused now and may be asked again."""
_COLON: Final = len(b": \r\n")


class _Excess(Exception):  # noqa: N818 - the parser is stopped by it, and nobody else sees it
    """A request goes beyond a limit."""


@final
class Bounded(HttpToolsProtocol):
    """One connection.

    It extends what it cannot hold: uvicorn makes one such object for each connection, which is the parser's listener.
    Whatever a client sends, and however slowly, it holds no more than a few hundred kilobytes and a place among the
    connections, and that for as long as the limits say.

    Args:
        given: see uvicorn.
        limits: of what is taken.
        crowds: of all connections.
        turned: told the status where a connection is turned away before there is a request.
        named: see uvicorn.
    """

    def __init__(
        self, *given: Any, limits: Limits, crowds: Crowds, turned: Callable[[int], None], **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self._limits = limits
        self._crowds = crowds
        self._turned = turned
        self._arriving: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._refusal = (400, "this is no HTTP request")
        self._headers = 0
        self._silent = 0

    @property
    def is_busy(self) -> bool:
        """Whether a request arrives or is answered."""
        return self._arriving is not None or self._is_answering

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """There may be too many."""
        parting = Parting(transport, self.loop, awaits=lambda: self._arriving is not None)
        super().connection_made(parting)
        limits, own = self._limits, self._crowds.enter(self._address)
        if len(self.connections) > 2 * limits.connections or own > 2 * limits.connections_per_address:
            parting.abort()
        elif own > limits.connections_per_address:
            self._begin_arriving()
            self._refuse(429, "too many connections come from this address; close some, or use them again")
        elif len(self.connections) > limits.connections:
            self._begin_arriving()
            self._refuse(503, "the server has too many connections; ask again in a few seconds")
        else:
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._crowds.leave(self._address)
        self._unset_keepalive_if_required()
        self._cease_arriving()
        self.resume_writing()
        self.transport.lost()  # type: ignore[attr-defined]  # of `Parting`
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """More of a request, which has begun by that."""
        if self.transport.is_closing():
            return
        self._begin_arriving()
        self._silent += len(data)
        self._unset_keepalive_if_required()
        self._feed(data)
        if self._silent > self._limits.header_bytes + LINE:  # in headers, trailers or between requests
            self._refuse(431, self._too_large)

    def on_message_begin(self) -> None:
        """A request."""
        super().on_message_begin()
        self._begin_arriving()
        self._headers = 0

    def on_url(self, url: bytes) -> None:
        """A part of its address."""
        super().on_url(url)
        if len(self.url) > LINE:
            self._exceed(414, f"the address of the request has more than {LINE:,} bytes; send the text in its body")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one of those behind a body."""
        super().on_header(name, value)
        self._headers += len(name) + len(value) + _COLON
        if len(self.headers) > self._limits.headers or self._headers > self._limits.header_bytes:
            self._exceed(431, self._too_large)

    def on_headers_complete(self) -> None:
        """All of them: the request is answered from now on."""
        if self.parser.should_upgrade():
            return
        if self.parser.get_http_version() not in _VERSIONS:
            self._exceed(400, "the request is not of HTTP/1.0 or HTTP/1.1; its first line must end with one of these")
        super().on_headers_complete()
        self._silent = 0
        if len(self.pipeline) > _PIPELINED:
            self._exceed(400, f"more than {_PIPELINED} requests wait for an answer on this connection")

    def on_body(self, body: bytes) -> None:
        """A part of what is sent."""
        super().on_body(body)
        self._silent = 0

    def on_message_complete(self) -> None:
        """The request is there."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._silent = 0
        self._cease_arriving()

    def pause_writing(self) -> None:
        """The client does not take what is sent: it has some time to."""
        super().pause_writing()
        if self._taking is None:
            self._taking = self.loop.call_later(self._limits.idle, self.transport.abort)

    def resume_writing(self) -> None:
        """It does."""
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def shutdown(self) -> None:
        """The server ends, when nothing happens any more or there is no time left for it."""
        self.transport.close()

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _id(self) -> str:
        """By which the log knows the request that is refused: the id that it has, as far as its headers have come."""
        if self._is_answering:
            return str(self.cycle.scope.get(ID) or new_id())
        given = (value.decode("latin-1") for name, value in self.headers or () if name == b"x-request-id")
        return request_id(next(given, ""))

    @property
    def _too_large(self) -> str:
        return overladen(self._limits).message

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline(data[offer.args[0] :])
        except httptools.HttpParserError:  # or a limit
            self._refuse(*self._refusal)

    def _decline(self, rest: bytes) -> None:
        """Reads a request anew that offers to go on in another protocol, as Java's clients do, without that offer.

        The parser takes what follows the headers for that protocol, and it is the body of the request.

        Args:
            rest: what followed, as far as it is there.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(*self._refusal)
            return
        kept = [header for header in self.headers if header[0] not in _OFFERS]
        if any(b"close" in value.lower() for name, value in self.headers if name == b"connection"):
            kept.append((b"connection", b"close"))
        lines = [b"%b %b HTTP/1.1" % (method, self.url), *(b"%b: %b" % header for header in kept)]
        self.parser = httptools.HttpRequestParser(self)
        self._feed(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def _await_request(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self._limits.idle, self.timeout_keep_alive_handler)

    def _begin_arriving(self) -> None:
        if self._arriving is None:
            self._arriving = self.loop.call_later(self._limits.arrival, self._late)

    def _cease_arriving(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _late(self) -> None:
        """A request is not there in time, unless it is we who have not read on, or have yet to answer one before it."""
        if self.pipeline or self.flow.read_paused or (self._is_answering and not self.cycle.more_body):
            self._arriving = None
            self._begin_arriving()
        elif self.cycle is not None and self.cycle.response_complete and self.cycle.more_body:
            self.transport.close()  # it was answered before all of it was there
        else:
            self._refuse(408, f"the request did not arrive within {self._limits.arrival:g} seconds; send it faster")

    def _exceed(self, status: int, message: str) -> NoReturn:
        """Stops the parser, which then has a response sent."""
        self._refusal = status, message
        raise _Excess

    def _refuse(self, status: int, message: str) -> None:
        """Answers without asking anybody, and ends; where another answer has begun there is no place for words."""
        if self.transport.is_closing():
            return
        if self._is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.pipeline or (self._is_answering and self.cycle.response_started):
            self.transport.abort()
            return
        number = self._id
        if not self._is_answering:
            self._turned(status)
            tell(Visit(number, "-", "-", status))
        body = json.dumps({"error": message}).encode()
        lines = [
            *(b"%b: %b" % header for header in self.server_state.default_headers),
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"x-content-type-options: nosniff",
            b"x-request-id: %b" % number.encode(),
            *([b"retry-after: 5"] if status in _LATER else []),
            b"connection: close",
        ]
        self.transport.write(STATUS_LINE[status] + b"\r\n".join(lines) + b"\r\n\r\n" + body)
        self.transport.close()
