"""Clients: their addresses behind proxies, and limits on their requests and connections."""

from __future__ import annotations

import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from heedful.serving.settings import AccessSettings, ServerSettings

if TYPE_CHECKING:
    from starlette.datastructures import Headers

_MAX_HOPS: Final = 20
"""Maximum number of addresses of a proxy chain that are read, the nearest ones."""
_CACHE_SIZE: Final = 1_024
"""Number of parsed addresses that are cached."""
_SCHEMES: Final = ("http", "https")

_IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_MAX_CLIENTS: Final = 10_000
"""Maximum number of clients that are tracked; the one with the oldest request is forgotten first."""
_SECONDS_PER_MINUTE: Final = 60.0


@final
class TrustedProxies:
    """Addresses of proxies whose forwarding headers are trusted.

    Each proxy of a chain appends the address from which it was called. A client may have sent false addresses
    itself, so the chain is read from the nearest proxy on, as long as the proxies are trusted.

    Args:
        access: settings with the addresses and networks of the proxies.
    """

    def __init__(self, access: AccessSettings) -> None:
        self._networks = [ipaddress.ip_network(network) for network in access.proxies]

    def __contains__(self, address: object) -> bool:
        parsed = parse_address(address) if isinstance(address, str) else None
        return parsed is not None and any(parsed in network for network in self._networks)

    def apply_headers(self, scope: Any, headers: Headers) -> Any:
        """Return an ASGI scope with the client's address and scheme from the forwarding headers if the request comes
        from a trusted proxy, else the unchanged scope.
        """
        nearest = (scope.get("client") or ("",))[0]
        if nearest not in self:
            return scope
        address, num_passed = self._find_client(nearest, _split_header(headers, "x-forwarded-for")[-_MAX_HOPS:])
        scheme = _select_scheme(_split_header(headers, "x-forwarded-proto"), num_passed)
        scheme_field = {"scheme": scheme} if scheme in _SCHEMES else {}
        return {**scope, "client": (address, 0), **scheme_field}

    def _find_client(self, nearest: str, chain: Sequence[str]) -> tuple[str, int]:
        """Return the client's address, and how many trusted proxies follow it in the chain (`X-Forwarded-For`). The
        client is the first untrusted address from the right, or the last known one; `nearest` is the proxy that called
        this server.
        """
        address, num_passed = nearest, 0
        for hop in reversed(chain):
            parsed = parse_address(_strip_port(hop))
            if parsed is None:  # the hop that reported it is the last known address
                break
            address = str(parsed)
            if address not in self:
                break
            num_passed += 1
        return address, num_passed


def _split_header(headers: Headers, name: str) -> list[str]:
    return [item.strip() for value in headers.getlist(name) for item in value.split(",") if item.strip()]


def _select_scheme(schemes: Sequence[str], num_passed: int) -> str | None:
    """Return the scheme that the outermost trusted proxy reported; some proxies keep the values of earlier ones."""
    return schemes[max(0, len(schemes) - 1 - num_passed)].lower() if schemes else None


def _strip_port(hop: str) -> str:
    """Return an address without its port, which some proxies append."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


@lru_cache(_CACHE_SIZE)
def parse_address(address: str) -> _IPAddress | None:
    """Parse an IP address, or return None; IPv4-mapped IPv6 becomes IPv4."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    ipv4_address = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return ipv4_address or parsed


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
    parsed = parse_address(address)
    if parsed is None:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


@final
class ConnectionCounter:
    """Counts open connections by client network; those of proxies serve many clients and are not counted.

    Args:
        settings: with the addresses of proxies.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._proxies = TrustedProxies(settings.access)
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._counts)

    def add_connection(self, address: str) -> int:
        """Count a new connection from an address, and return how many the network of the address has now; those of
        proxies are not counted and give 0.
        """
        if address in self._proxies:
            return 0
        client = client_network(address)
        self._counts[client] += 1
        return self._counts[client]

    def remove_connection(self, address: str) -> None:
        """Stop counting a connection from this address, because it has closed."""
        if address in self._proxies:
            return
        client = client_network(address)
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]
