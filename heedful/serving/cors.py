"""Checks of the `Host` and `Origin` headers, and CORS headers for browsers."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, final

from starlette.datastructures import Headers

from heedful.serving.clients import parse_address
from heedful.serving.http_errors import bad_request, host_not_served, origin_forbidden
from heedful.serving.settings import ServerSettings

_HOST_PATTERN: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_WILDCARD: Final = "*"
_CACHE_SIZE: Final = 64
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


@lru_cache(_CACHE_SIZE)
def _normalize_host(host: str) -> str:
    """Return a host name in lower case without its port, or an IP address in its shortest form."""
    match = _HOST_PATTERN.fullmatch(host)
    name = (match[1] if match else host).strip("[]").lower().removesuffix(".")
    return str(parse_address(name) or name)
