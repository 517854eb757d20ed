"""Who asks where proxies stand between, which say for whom; of anybody else that is not believed."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

from starlette.datastructures import Headers

from heedful.serving.settings import AccessSettings

_MAX_HOPS: Final = 20
"""Of a chain of proxies, the nearest that are looked at."""
_CACHE_SIZE: Final = 1_024
"""Addresses that are not read anew."""
_SCHEMES: Final = ("http", "https")

_IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@final
class TrustedProxies:
    """Those that are believed.

    Each proxy of a chain adds the address that it was asked from. Whoever asks may have sent some himself, so they are
    read from the nearest on, as far as it is a proxy of ours that says so.

    Args:
        access: with their addresses and networks.
    """

    def __init__(self, access: AccessSettings) -> None:
        self._networks = [ipaddress.ip_network(network) for network in access.proxies]

    def __contains__(self, address: object) -> bool:
        parsed = _parse_address(address) if isinstance(address, str) else None
        return parsed is not None and any(parsed in network for network in self._networks)

    def apply_headers(self, scope: Any, headers: Headers) -> Any:
        """A request of ASGI as a proxy was asked, if it comes from one."""
        nearest = (scope.get("client") or ("",))[0]
        if nearest not in self:
            return scope
        address, num_passed = self._find_client(nearest, _split_header(headers, "x-forwarded-for")[-_MAX_HOPS:])
        scheme = _select_scheme(_split_header(headers, "x-forwarded-proto"), num_passed)
        scheme_field = {"scheme": scheme} if scheme in _SCHEMES else {}
        return {**scope, "client": (address, 0), **scheme_field}

    def _find_client(self, nearest: str, chain: Sequence[str]) -> tuple[str, int]:
        """The first address from the right that is no proxy of ours, and how many of ours stand behind it."""
        address, num_passed = nearest, 0
        for hop in reversed(chain):
            parsed = _parse_address(_strip_port(hop))
            if parsed is None:  # who said so is the last that is known
                break
            address = str(parsed)
            if address not in self:
                break
            num_passed += 1
        return address, num_passed


def _split_header(headers: Headers, name: str) -> list[str]:
    """What proxies have added one behind the other."""
    return [item.strip() for value in headers.getlist(name) for item in value.split(",") if item.strip()]


def _select_scheme(schemes: Sequence[str], num_passed: int) -> str | None:
    """What the same proxy said of how it was asked that told the client's address; some keep what another said."""
    return schemes[max(0, len(schemes) - 1 - num_passed)].lower() if schemes else None


def _strip_port(hop: str) -> str:
    """An address without a port, which some add."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


@lru_cache(_CACHE_SIZE)
def _parse_address(address: str) -> _IPAddress | None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    ipv4_address = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return ipv4_address or parsed
