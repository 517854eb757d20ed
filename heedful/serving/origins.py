"""By which names a server may be asked, and from which pages: what browsers must not be led to do."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, final

from starlette.datastructures import Headers

from heedful.serving.refusal import foreign, misdirected, wrong
from heedful.serving.settings import Settings

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_ANY: Final = "*"
_SEEN: Final = 64
"""Names of hosts of which it is remembered how they are written."""
_READING: Final = ("GET", "HEAD", "OPTIONS")
_NAMES: Final = re.compile(r"[A-Za-z0-9, -]{0,1000}")
_EXPOSED: Final = "X-Request-Id, Retry-After"
_REMEMBERED: Final = "600"
"""Seconds for which a browser need not ask again whether it may ask."""


@final
class Origins:
    """The names of a server, and the pages that may ask it.

    A page of any site may have a name of its own stand for our address (DNS rebinding), so that a browser takes what we
    answer for the site's; it cannot change the name that the browser asks for.

    Args:
        settings: with the address, and what its owner adds.
    """

    def __init__(self, settings: Settings) -> None:
        access = settings.access
        given = [_plain(host) for host in access.hosts]
        machine = socket.gethostname().lower()
        self._hosts = {*_LOOPBACK, _plain(settings.host), *(given or (machine, f"{machine}.local"))}
        self._given = set(given)
        self._pages = {page.rstrip("/").lower() for page in access.origins}

    def require_host(self, scope: Any, headers: Headers) -> None:
        """`Refusal` where a request is for another server."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            raise wrong("Host: the request must have one, which says for which server it is")
        name = _plain(hosts[0])
        reached = _plain(scope["server"][0]) if scope.get("server") else None
        if name not in self._hosts and name != reached and _ANY not in self._given:
            raise misdirected(hosts[0])

    def require_page(self, scope: Any, headers: Headers) -> None:
        """`Refusal` where a page of another site would do more than read."""
        origin = headers.get("origin")
        if origin is not None and scope["method"] not in _READING and not self._knows(origin, headers):
            raise foreign(origin)

    def preflight(self, scope: Any, headers: Headers) -> dict[str, str] | None:
        """What a browser is told that asks whether a page may ask; None for every other request.

        Raises:
            Refusal: it may not.
        """
        origin, method = headers.get("origin"), headers.get("access-control-request-method")
        if scope["method"] != "OPTIONS" or origin is None or method is None:
            return None
        if not self._knows(origin, headers):
            raise foreign(origin)
        asked = headers.get("access-control-request-headers", "")
        return {
            "Access-Control-Allow-Methods": "GET, HEAD, POST",
            "Access-Control-Allow-Headers": asked if _NAMES.fullmatch(asked) else "",
            "Access-Control-Max-Age": _REMEMBERED,
        }

    def shared(self, headers: Headers) -> Iterator[tuple[str, str]]:
        """Which page may read an answer."""
        if not self._pages:
            return
        if _ANY in self._pages:
            yield "Access-Control-Allow-Origin", _ANY
        else:
            yield "Vary", "Origin"
            origin = headers.get("origin", "")
            if origin.lower() in self._pages:
                yield "Access-Control-Allow-Origin", origin
        yield "Access-Control-Expose-Headers", _EXPOSED

    def _knows(self, origin: str, headers: Headers) -> bool:
        if _ANY in self._pages or origin.lower() in self._pages:
            return True
        address = origin.partition("://")[2].lower()
        return address == headers["host"].lower() or (bool(address) and _plain(address) in self._given)


@lru_cache(_SEEN)
def _plain(host: str) -> str:
    """A name without its port, or an address as it is written most shortly."""
    match = _HOST.fullmatch(host)
    name = (match[1] if match else host).strip("[]").lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
