"""How often somebody may ask."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Final, final

_MAX_CLIENTS: Final = 10_000
"""Of whom it is known how often they asked; who asked longest ago is forgotten first."""
_SECONDS_PER_MINUTE: Final = 60.0
_CACHE_SIZE: Final = 1_024
"""Addresses of which it is remembered what they stand for."""


@final
class RateLimiter:
    """So many requests a minute for each who asks: a bucket of tokens, which is full at first and fills again.

    Args:
        per_minute: requests; 0 is any number.
        clock: tells seconds.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take_token(self, client: str) -> float:
        """Seconds until somebody may ask again; 0 where that is now, and then it counts."""
        if not self._per_minute:
            return 0.0
        now = self._clock()
        tokens, updated_at = self._buckets.pop(client, (float(self._per_minute), now))
        tokens = min(tokens + (now - updated_at) * self._per_minute / _SECONDS_PER_MINUTE, float(self._per_minute))
        allowed = tokens >= 1
        self._buckets[client] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) * _SECONDS_PER_MINUTE / self._per_minute


@lru_cache(_CACHE_SIZE)
def client_network(address: str) -> str:
    """Whom an address stands for: itself, or the 64 bits of version 6 that are one household's."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
