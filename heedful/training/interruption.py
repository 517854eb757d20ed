"""SIGINT and SIGTERM as a polite request: finish this update, save, leave."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Which signal asked to stop; 0 while none has."""

    def __init__(self) -> None:
        self.signal = 0

    def ask(self, number: int, _frame: FrameType | None) -> None:
        """Notes the first signal; a second SIGINT stops at once."""
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def interruption() -> Iterator[Interruption]:
    """Listens for SIGINT and SIGTERM inside the block; outside the main thread nothing can be listened to."""
    noted = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = {number: signal.signal(number, noted.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
