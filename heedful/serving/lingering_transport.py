"""How a connection ends: what was answered still arrives, and nobody waits for who does not take it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, final

LINGER_SECONDS: Final = 2.0
"""Seconds that a connection which is to end has to take what was answered."""
_FLUSH_BYTES: Final = 65_536
"""Bytes from which on what is written does not wait for more."""


@final
class LingeringTransport(asyncio.Transport):
    """A transport whose end is bounded.

    A socket that is closed while something waits to be read is reset, and then an answer may be lost on its way, as
    that to a request which is too large. So where more of a request is to come only our side ends, and what comes is
    left aside until the other side ends too, for a while.

    The head of an answer and its body are written one behind the other, and sent together: that is one call of the
    system, and one packet, instead of two.

    Args:
        transport: that writes.
        loop: of events.
        expects_input: whether more of a request is to come.
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
        """Ends when what was written is taken, or when that takes too long."""
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
        """The other side has ended, or all is over."""
        if self._abort_timer is not None:
            self._abort_timer.cancel()

    def is_closing(self) -> bool:
        """Whether nothing more is read or written."""
        return self._abort_timer is not None or self._transport.is_closing()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Sends, unless this ends, what is written in one turn of the loop at once."""
        if self.is_closing():
            return
        if not self._buffer:
            self._loop.call_soon(self._flush)
        self._buffer.append(bytes(data))
        self._buffer_size += len(data)
        if self._buffer_size >= _FLUSH_BYTES:
            self._flush()

    def abort(self) -> None:
        """Ends at once."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """Leaves what comes where it is."""
        if not self.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Takes what comes."""
        if not self.is_closing():
            self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known of the socket."""
        return self._transport.get_extra_info(name, default)

    def _flush(self) -> None:
        pending, self._buffer, self._buffer_size = self._buffer, [], 0
        if pending and not self.is_closing():
            self._transport.write(b"".join(pending))
