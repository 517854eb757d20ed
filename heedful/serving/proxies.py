"""Who asks where proxies stand between, which say for whom; of anybody else that is not believed."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

from starlette.datastructures import Headers

from heedful.serving.settings import Access

_HOPS: Final = 20
"""Of a chain of proxies, the nearest that are looked at."""
_SEEN: Final = 1_024
"""Addresses that are not read anew."""
_SCHEMES: Final = ("http", "https")

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@final
class Proxies:
    """Those that are believed.

    Each proxy of a chain adds the address that it was asked from. Whoever asks may have sent some himself, so they are
    read from the nearest on, as far as it is a proxy of ours that says so.

    Args:
        access: with their addresses and networks.
    """

    def __init__(self, access: Access) -> None:
        self._networks = [ipaddress.ip_network(each) for each in access.proxies]

    def __contains__(self, address: object) -> bool:
        found = _parsed(address) if isinstance(address, str) else None
        return found is not None and any(found in network for network in self._networks)

    def seen(self, scope: Any, headers: Headers) -> Any:
        """A request of ASGI as a proxy was asked, if it comes from one."""
        nearest = (scope.get("client") or ("",))[0]
        if nearest not in self:
            return scope
        address, passed = self._client(nearest, _listed(headers, "x-forwarded-for")[-_HOPS:])
        scheme = _beside(_listed(headers, "x-forwarded-proto"), passed)
        told = {"scheme": scheme} if scheme in _SCHEMES else {}
        return {**scope, "client": (address, 0), **told}

    def _client(self, nearest: str, chain: Sequence[str]) -> tuple[str, int]:
        """The first address from the right that is no proxy of ours, and how many of ours stand behind it."""
        address, passed = nearest, 0
        for hop in reversed(chain):
            found = _parsed(_bare(hop))
            if found is None:  # who said so is the last that is known
                break
            address = str(found)
            if address not in self:
                break
            passed += 1
        return address, passed


def _listed(headers: Headers, name: str) -> list[str]:
    """What proxies have added one behind the other."""
    return [each.strip() for value in headers.getlist(name) for each in value.split(",") if each.strip()]


def _beside(schemes: Sequence[str], passed: int) -> str | None:
    """What the same proxy said of how it was asked that told the client's address; some keep what another said."""
    return schemes[max(0, len(schemes) - 1 - passed)].lower() if schemes else None


def _bare(hop: str) -> str:
    """An address without a port, which some add."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


@lru_cache(_SEEN)
def _parsed(address: str) -> _Address | None:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
