"""SIGINT and SIGTERM as a polite request: finish this update, save, leave."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopSignal:
    """Which signal asked to stop; 0 while none has."""

    def __init__(self) -> None:
        self.signal = 0

    def handle_signal(self, number: int, _frame: FrameType | None) -> None:
        """Notes the first signal; a second SIGINT stops at once."""
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def catch_stop_signals() -> Iterator[StopSignal]:
    """Listens for SIGINT and SIGTERM inside the block; outside the main thread nothing can be listened to."""
    stop_signal = StopSignal()
    if threading.current_thread() is not threading.main_thread():
        yield stop_signal
        return
    old_handlers = {
        number: signal.signal(number, stop_signal.handle_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop_signal
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
