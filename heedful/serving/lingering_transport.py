"""A transport that closes connections so that the last answer arrives, within a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, final

LINGER_SECONDS: Final = 2.0
"""Seconds that a closing connection has for its last answer to be read."""
_FLUSH_BYTES: Final = 65_536
"""Buffered bytes from which on data is sent without waiting for more."""


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
        except OSError:  # the other side has gone already
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
        """Send the buffered data."""
        pending, self._buffer, self._buffer_size = self._buffer, [], 0
        if pending and not self.is_closing():
            self._transport.write(b"".join(pending))
