"""Clients: their addresses behind proxies, limits on their requests and connections, and the hosts and origins that
they may name.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

from starlette.datastructures import Headers

from heedful.serving.http_errors import bad_request, host_not_served, origin_forbidden
from heedful.serving.settings import AccessSettings, ServerSettings

_MAX_HOPS: Final = 20
"""Maximum number of addresses of a proxy chain that are read, the nearest ones."""
_MAX_CACHED_ADDRESSES: Final = 1_024
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


@lru_cache(_MAX_CACHED_ADDRESSES)
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


@lru_cache(_MAX_CACHED_ADDRESSES)
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


_HOST_PATTERN: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_WILDCARD: Final = "*"
_MAX_CACHED_HOSTS: Final = 64
"""Names of hosts of which it is remembered how they are written."""
_SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
_HEADER_NAMES_PATTERN: Final = re.compile(r"[A-Za-z0-9, -]{0,1000}")
_EXPOSED_HEADERS: Final = "X-Request-Id, Retry-After"
_MAX_AGE: Final = "600"
"""Seconds for which a browser need not ask again whether it may ask."""


@final
class OriginPolicy:
    """Host names of the server, and the web origins that may send it requests.

    A page of any site can let a host name of its own resolve to this server's address (DNS rebinding), so that
    a browser takes the answers for the site's own. It cannot change the `Host` header that the browser sends,
    so that header is checked.

    Args:
        settings: with the address, host names and origins.
    """

    def __init__(self, settings: ServerSettings) -> None:
        access = settings.access
        configured = [_normalize_host(host) for host in access.hosts]
        machine = socket.gethostname().lower()
        self._hosts = {*_LOOPBACK_NAMES, _normalize_host(settings.host), *(configured or (machine, f"{machine}.local"))}
        self._configured_hosts = set(configured)
        self._origins = {origin.rstrip("/").lower() for origin in access.origins}

    def require_host(self, scope: Any, headers: Headers) -> None:
        """Raise an `HTTPError` unless the `Host` header of a request names this server, by one of its host names or by
        the address in the ASGI scope at which the request arrived.
        """
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not _HOST_PATTERN.fullmatch(hosts[0]):
            raise bad_request("Host: the request must have this header, which names the server")
        name = _normalize_host(hosts[0])
        server_address = _normalize_host(scope["server"][0]) if scope.get("server") else None
        if name not in self._hosts and name != server_address and _WILDCARD not in self._configured_hosts:
            raise host_not_served(hosts[0])

    def require_origin(self, scope: Any, headers: Headers) -> None:
        """Raise an `HTTPError` if a web page of an origin that is not allowed sends a request that may change
        something, which is any but GET, HEAD and OPTIONS.
        """
        origin = headers.get("origin")
        if origin is not None and scope["method"] not in _SAFE_METHODS and not self._is_allowed(origin, headers):
            raise origin_forbidden(origin)

    def build_preflight(self, scope: Any, headers: Headers) -> dict[str, str] | None:
        """Return the headers that answer a CORS preflight request, given its ASGI scope and headers; None for every
        other request.

        Raises:
            HTTPError: the origin may not send requests.
        """
        origin, method = headers.get("origin"), headers.get("access-control-request-method")
        if scope["method"] != "OPTIONS" or origin is None or method is None:
            return None
        if not self._is_allowed(origin, headers):
            raise origin_forbidden(origin)
        requested_headers = headers.get("access-control-request-headers", "")
        return {
            "Access-Control-Allow-Methods": "GET, HEAD, POST",
            "Access-Control-Allow-Headers": requested_headers
            if _HEADER_NAMES_PATTERN.fullmatch(requested_headers)
            else "",
            "Access-Control-Max-Age": _MAX_AGE,
        }

    def cors_headers(self, headers: Headers) -> Iterator[tuple[str, str]]:
        """Yield the CORS headers of an answer, which say which origin may read it, given the headers of the request."""
        if not self._origins:
            return
        if _WILDCARD in self._origins:
            yield "Access-Control-Allow-Origin", _WILDCARD
        else:
            yield "Vary", "Origin"
            origin = headers.get("origin", "")
            if origin.lower() in self._origins:
                yield "Access-Control-Allow-Origin", origin
        yield "Access-Control-Expose-Headers", _EXPOSED_HEADERS

    def _is_allowed(self, origin: str, headers: Headers) -> bool:
        """Return whether pages of an origin may send a request with these headers: the origin is configured, or its
        host is configured or is the one in the `Host` header.
        """
        if _WILDCARD in self._origins or origin.lower() in self._origins:
            return True
        address = origin.partition("://")[2].lower()
        return address == headers["host"].lower() or (
            bool(address) and _normalize_host(address) in self._configured_hosts
        )


@lru_cache(_MAX_CACHED_HOSTS)
def _normalize_host(host: str) -> str:
    """Return a host name in lower case without its port, or an IP address in its shortest form."""
    match = _HOST_PATTERN.fullmatch(host)
    name = (match[1] if match else host).strip("[]").lower().removesuffix(".")
    return str(parse_address(name) or name)
