"""How often somebody may ask."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Final, final

_REMEMBERED: Final = 10_000
"""Of whom it is known how often they asked; who asked longest ago is forgotten first."""
_MINUTE: Final = 60.0
_SEEN: Final = 1_024
"""Addresses of which it is remembered what they stand for."""


@final
class Rates:
    """So many requests a minute for each who asks: a bucket of tokens, which is full at first and fills again.

    Args:
        minute: requests; 0 is any number.
        clock: tells seconds.
    """

    def __init__(self, minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._minute = minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, who: str) -> float:
        """Seconds until somebody may ask again; 0 where that is now, and then it counts."""
        if not self._minute:
            return 0.0
        now = self._clock()
        left, at = self._buckets.pop(who, (float(self._minute), now))
        left = min(left + (now - at) * self._minute / _MINUTE, float(self._minute))
        allowed = left >= 1
        self._buckets[who] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) * _MINUTE / self._minute


@lru_cache(_SEEN)
def network(address: str) -> str:
    """Whom an address stands for: itself, or the 64 bits of version 6 that are one household's."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
