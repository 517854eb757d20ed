"""Read the client's address and scheme from the headers of trusted proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

from starlette.datastructures import Headers

from heedful.serving.settings import AccessSettings

_MAX_HOPS: Final = 20
"""Maximum number of addresses of a proxy chain that are read, the nearest ones."""
_CACHE_SIZE: Final = 1_024
"""Number of parsed addresses that are cached."""
_SCHEMES: Final = ("http", "https")

_IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


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
        parsed = _parse_address(address) if isinstance(address, str) else None
        return parsed is not None and any(parsed in network for network in self._networks)

    def apply_headers(self, scope: Any, headers: Headers) -> Any:
        """Return an ASGI scope with the client's address and scheme from the forwarding headers, if the request
        comes from a trusted proxy.
        """
        nearest = (scope.get("client") or ("",))[0]
        if nearest not in self:
            return scope
        address, num_passed = self._find_client(nearest, _split_header(headers, "x-forwarded-for")[-_MAX_HOPS:])
        scheme = _select_scheme(_split_header(headers, "x-forwarded-proto"), num_passed)
        scheme_field = {"scheme": scheme} if scheme in _SCHEMES else {}
        return {**scope, "client": (address, 0), **scheme_field}

    def _find_client(self, nearest: str, chain: Sequence[str]) -> tuple[str, int]:
        """Return the first untrusted address from the right of the chain, and how many trusted proxies follow it."""
        address, num_passed = nearest, 0
        for hop in reversed(chain):
            parsed = _parse_address(_strip_port(hop))
            if parsed is None:  # the hop that reported it is the last known address
                break
            address = str(parsed)
            if address not in self:
                break
            num_passed += 1
        return address, num_passed


def _split_header(headers: Headers, name: str) -> list[str]:
    """Return the comma-separated values of a header as one list."""
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
def _parse_address(address: str) -> _IPAddress | None:
    """Parse an IP address, or return None; IPv4-mapped IPv6 becomes IPv4."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    ipv4_address = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return ipv4_address or parsed
