"""How long somebody waits for an answer, and whether anybody still does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from heedful.serving.refusal import late


class Gone(Exception):  # noqa: N818 - nothing failed
    """Nobody waits for the answer any more: raised in the thread that works for a request."""


@final
@dataclass(frozen=True)
class Term:
    """How long somebody waits for an answer, and whether still.

    Attributes:
        seconds: that were granted.
        at: when they end, by `time.monotonic`.
    """

    seconds: float
    at: float
    _left: threading.Event = field(default_factory=threading.Event)
    _told: list[Callable[[], None]] = field(default_factory=list)

    @classmethod
    def of(cls, seconds: float) -> Term:
        """So long from now."""
        return cls(seconds, time.monotonic() + seconds)

    def leave(self) -> None:
        """Whoever asked has left."""
        self._left.set()
        for tell in [*self._told]:
            tell()

    def when_left(self, tell: Callable[[], None]) -> None:
        """Has somebody told, in the thread that notices it, and perhaps more than once."""
        self._told.append(tell)
        if self._left.is_set():
            tell()

    @property
    def over(self) -> bool:
        """Whether the work may stop: `Until` of a search."""
        return self._left.is_set() or time.monotonic() >= self.at

    def check(self) -> None:
        """Raises where it is over."""
        if self._left.is_set():
            raise Gone
        if time.monotonic() >= self.at:
            raise late(self.seconds)
