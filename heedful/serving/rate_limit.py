"""Limit the requests per minute of each client."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Final, final

_MAX_CLIENTS: Final = 10_000
"""Maximum number of clients that are tracked; the one with the oldest request is forgotten first."""
_SECONDS_PER_MINUTE: Final = 60.0
_CACHE_SIZE: Final = 1_024
"""Number of addresses whose networks are cached."""


@final
class RateLimiter:
    """Token buckets that limit each client's requests per minute; a bucket starts full.

    Args:
        per_minute: requests that are allowed; 0 means no limit.
        clock: returns seconds.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take_token(self, client: str) -> float:
        """Count a request of a client, and return the seconds until it is allowed; 0 if it is allowed now."""
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
    """Return the network that an address counts for: itself, or the /64 block of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
