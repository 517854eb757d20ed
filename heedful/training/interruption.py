"""Handle SIGINT and SIGTERM as a request to finish the update, save and stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopSignal:
    """The signal that was received; 0 while there was none."""

    def __init__(self) -> None:
        self.signal = 0

    def handle_signal(self, number: int, _frame: FrameType | None) -> None:
        """Record the first signal; a second SIGINT raises KeyboardInterrupt."""
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def catch_stop_signals() -> Iterator[StopSignal]:
    """Catch SIGINT and SIGTERM inside the block; outside the main thread nothing is caught."""
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
