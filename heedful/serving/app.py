"""What stands before every route: who may ask, how much, and what every answer says to browsers and to the log."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final
from urllib.parse import quote

from starlette.convertors import Convertor
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path

from heedful.serving.auth import KEY_NAME_FIELD, read_key
from heedful.serving.body_budget import BodyBudget
from heedful.serving.cors import OriginPolicy
from heedful.serving.http_errors import (
    HTTPError,
    bad_request,
    internal_error,
    keyless_upload_too_large,
    payload_too_large,
    unavailable,
)
from heedful.serving.registry import ModelRegistry
from heedful.serving.request_log import RequestLog, log_failure, log_request, use_request_log
from heedful.serving.routes import REQUEST_ID_FIELD, Route, choose_request_id, error_response
from heedful.serving.trusted_proxies import TrustedProxies

_MAX_LENGTH_DIGITS: Final = 18
"""Of a length that is read; nothing that is taken has a longer one."""
_MAX_LOGGED_PATH: Final = 200
"""Characters of a path that are told."""
_KNOWN_METHODS: Final = ("GET", "HEAD", "POST", "OPTIONS")
_CONTENT_POLICY: Final = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_SECURITY_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)


@final
@dataclass(frozen=True)
class PathRoutes:
    """What may be asked at a path: the routes by their methods, and how the parts of the path are read."""

    routes: Mapping[str, Route]
    pattern: re.Pattern[str]
    convertors: Mapping[str, Convertor[Any]]

    @classmethod
    def from_path(cls, path: str, routes: Mapping[str, Route]) -> PathRoutes:
        """At a path whose parts have their names in braces."""
        pattern, _, convertors = compile_path(path)
        return cls(routes, pattern, convertors)

    def get_route(self, method: str) -> Route | None:
        """That of a method; HEAD is GET without what it gives."""
        return self.routes.get("GET" if method == "HEAD" else method)

    def parse_parameters(self, path: str) -> dict[str, Any]:
        """Those that have names; none of a path that is not here."""
        match = self.pattern.match(path)
        return (
            {name: self.convertors[name].convert(value) for name, value in match.groupdict().items()} if match else {}
        )

    @property
    def allowed_methods(self) -> str:
        """As HTTP lists them."""
        return ", ".join(sorted({*self.routes, *(["HEAD"] if "GET" in self.routes else [])}))

    @property
    def first_route(self) -> Route:
        """Whose words are spoken here."""
        return next(iter(self.routes.values()))


@final
class ServerApp:
    """An application: routes, and what stands before all of them; before it `leads` to any, every request is told to
    come again.

    Whoever has no key gets nowhere but to routes that are free, whatever the path: it is not asked whether a path is
    guarded, but whether it is free.
    """

    def __init__(self, registry: ModelRegistry) -> None:
        self._registry = registry
        self._origins = OriginPolicy(registry.settings)
        self._proxies = TrustedProxies(registry.settings.access)
        self._paths: list[PathRoutes] = []
        self._body_budget = BodyBudget(registry.settings.limits.bodies)

    def set_routes(self, routes: Sequence[Route]) -> None:
        """From now on requests get to these routes."""
        routes_by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            routes_by_path.setdefault(route.path, {})[route.method] = route
        self._paths = [PathRoutes.from_path(path, methods) for path, methods in routes_by_path.items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI; of its protocols HTTP alone is spoken."""
        assert scope["type"] == "http", scope["type"]
        headers, path_routes = Headers(scope=scope), self._find_path(scope["path"], scope["method"])
        scope[REQUEST_ID_FIELD] = choose_request_id(
            headers.get("x-request-id", "")
        )  # `protocol`, too, tells it from there
        scope = self._proxies.apply_headers(scope, headers)
        request_log = RequestLog(scope[REQUEST_ID_FIELD], scope["method"], quote(scope["path"])[:_MAX_LOGGED_PATH])

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                request_log.status = message["status"]
                headers_so_far = list(message.get("headers", ()))
                message = {
                    **message,
                    "headers": [*headers_so_far, *self._response_headers(request_log, headers, dict(headers_so_far))],
                }
            await send(message)

        body = self._body_budget.start_body()
        bounded_receive = partial(body.receive, receive)
        with use_request_log(request_log):
            try:
                await self._handle_request(
                    scope,
                    bounded_receive,
                    send_with_headers,
                    headers=headers,
                    path_routes=path_routes,
                    request_log=request_log,
                )
            finally:
                body.release()
                self._record_request(scope, path_routes, request_log)

    async def _handle_request(
        self,
        scope: Any,
        receive: Any,
        send: Any,
        *,
        headers: Headers,
        path_routes: PathRoutes | None,
        request_log: RequestLog,
    ) -> None:
        def build_error_response(error: HTTPError) -> Response:
            return error_response(error) if path_routes is None else path_routes.first_route.build_error_response(error)

        try:
            route = None if path_routes is None else path_routes.get_route(scope["method"])
            key = read_key(headers, scope["query_string"])
            key_in_body = (
                key is None and self._registry.authenticator.requires_key and route is not None and route.key_in_body
            )
            max_bytes, excess = self._body_limit(route, headers, key_in_body=key_in_body)
            limited_receive = _limit_body(receive, max_bytes, excess)
            response = self._check_access(scope, headers, route, key=key, key_in_body=key_in_body)
            if response is None:
                response = await self._dispatch(scope, limited_receive, send, path_routes=path_routes, route=route)
            await response(scope, limited_receive, send)
        except HTTPError as refusal:
            if request_log.status is not None:
                raise  # which cuts an answer that has begun
            await build_error_response(refusal)(scope, receive, send)
        except asyncio.CancelledError:
            if request_log.status is None:  # no time is left for an answer
                await build_error_response(unavailable("ending"))(scope, receive, send)
            raise
        except Exception:
            log_failure(request_log.id)
            if request_log.status is not None:
                raise
            await build_error_response(internal_error(request_log.id))(scope, receive, send)

    def _check_access(
        self, scope: Any, headers: Headers, route: Route | None, *, key: str | None, key_in_body: bool
    ) -> Response | None:
        """What is said to a request that asks for no more than whether it may ask; `HTTPError` where it may not.

        Args:
            scope: of ASGI.
            headers: of the request.
            route: that it asks for.
            key: that it has in its headers or its query.
            key_in_body: it may have one in what it sends, which `Route` reads.
        """
        self._origins.require_host(scope, headers)
        if self._registry.state != "ready":
            raise unavailable(self._registry.state)
        cors_headers = self._origins.build_preflight(scope, headers)
        if cors_headers is not None:
            return Response(status_code=204, headers=cors_headers)
        self._origins.require_origin(scope, headers)
        if not key_in_body and (route is None or not route.public):
            self._registry.authenticator.authenticate(scope, key)
        return None

    async def _dispatch(
        self, scope: Any, receive: Any, send: Any, *, path_routes: PathRoutes | None, route: Route | None
    ) -> Response:
        """To a request that came in."""
        if path_routes is None:
            return JSONResponse({"error": "there is nothing at this path; GET /spec lists what may be asked"}, 404)
        if route is None:
            message = f"{scope['method']}: not for this path; GET /spec lists what may be asked"
            return JSONResponse({"error": message}, 405, headers={"Allow": path_routes.allowed_methods})
        scope["path_params"] = path_routes.parse_parameters(scope["path"])
        return await route.respond(self._registry, Request(scope, receive, send))

    def _body_limit(self, route: Route | None, headers: Headers, *, key_in_body: bool) -> tuple[int, HTTPError]:
        """Bytes that a request may have, and what is said of more; raised where it says itself that it has more.

        Until a key is found in what is sent, that may not have the size of a file.
        """
        limits = self._registry.settings.limits
        accepts_files = route is not None and route.accepts_files and limits.file > limits.body
        max_bytes = min(limits.file if accepts_files and not key_in_body else limits.body, limits.bodies)
        error = keyless_upload_too_large(max_bytes) if accepts_files and key_in_body else payload_too_large(max_bytes)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) <= _MAX_LENGTH_DIGITS):
            raise bad_request("Content-Length: is no number of bytes")
        if int(length) > max_bytes:
            raise error
        return max_bytes, error

    def _find_path(self, path: str, method: str) -> PathRoutes | None:
        """The first that answers the method, or the first."""
        matches = [path_routes for path_routes in self._paths if path_routes.pattern.match(path)]
        return next(
            (path_routes for path_routes in matches if path_routes.get_route(method)), matches[0] if matches else None
        )

    def _response_headers(
        self, request_log: RequestLog, headers: Headers, present_headers: Mapping[bytes, bytes]
    ) -> Iterator[tuple[bytes, bytes]]:
        added = [("X-Request-Id", request_log.id), *_SECURITY_HEADERS, *self._origins.cors_headers(headers)]
        if b"content-security-policy" not in present_headers:
            added.append(("Content-Security-Policy", _CONTENT_POLICY))
        if self._registry.state == "ending":
            added.append(("Connection", "close"))
        yield from ((name.lower().encode(), value.encode("latin-1")) for name, value in added)

    def _record_request(self, scope: Any, path_routes: PathRoutes | None, request_log: RequestLog) -> None:
        request_log.key = scope.get(KEY_NAME_FIELD)
        route = "other" if path_routes is None else path_routes.first_route.path
        method = request_log.method if request_log.method in _KNOWN_METHODS else "other"
        self._registry.metrics.count_request(
            route, method=method, status=request_log.status or 499, seconds=request_log.elapsed_seconds
        )
        log_request(request_log)


def _limit_body(receive: Callable[[], Any], max_bytes: int, error: HTTPError) -> Callable[[], Any]:
    """The parts of a request as they come, as long as they are not too many."""
    num_bytes = 0

    async def receive_limited() -> Any:
        nonlocal num_bytes
        message = await receive()
        num_bytes += len(message.get("body", b""))
        if num_bytes > max_bytes:
            raise error
        return message

    return receive_limited
