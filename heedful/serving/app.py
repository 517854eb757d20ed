"""The ASGI app: access checks, size limits, security headers and logging around all routes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final, final
from urllib.parse import quote

from starlette.convertors import Convertor
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path

from heedful.serving.auth import KEY_NAME_FIELD, read_key
from heedful.serving.capabilities import CAPABILITY_MODULES
from heedful.serving.clients import OriginPolicy, TrustedProxies
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
from heedful.serving.resource_limits import BodyBudget
from heedful.serving.routes import REQUEST_ID_FIELD, Route, choose_request_id, error_response
from heedful.serving.tracing import TracedSpan, use_span

_MAX_LENGTH_DIGITS: Final = 18
"""Maximum digits of a Content-Length header; no accepted body is that long."""
_MAX_LOGGED_PATH: Final = 200
"""Maximum characters of a path in the log."""
_KNOWN_METHODS: Final = ("GET", "HEAD", "POST", "OPTIONS")
_UNTRACED_PATHS: Final = frozenset({"/health", "/livez", "/readyz", "/metrics"})
"""Paths that monitoring asks all the time."""
_NO_ANSWER_STATUS: Final = 499
"""Status in metrics and traces of requests whose clients left before an answer."""
_CONTENT_POLICY: Final = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_SECURITY_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)
HEALTH_MODULE: Final = "heedful.serving.health"
"""Module whose routes answer before models are loaded."""
ROUTE_MODULES: Final = (
    "heedful.serving.libretranslate.interface",
    "heedful.serving.openai.models",
    "heedful.serving.openai.completion",
    "heedful.serving.openai.chat",
    "heedful.serving.openai.embeddings",
    "heedful.serving.openai.audio",
    "heedful.serving.api.models",
    *CAPABILITY_MODULES,
    HEALTH_MODULE,
    "heedful.serving.server_routes",
)
"""Modules with routes, in the order in which they are described."""


@final
@dataclass(frozen=True)
class PathRoutes:
    """The routes of one path by their methods, and the pattern that parses the path."""

    routes: Mapping[str, Route]
    pattern: re.Pattern[str]
    convertors: Mapping[str, Convertor[Any]]

    @classmethod
    def from_path(cls, path: str, routes: Mapping[str, Route]) -> PathRoutes:
        """Keep the routes of a path by their methods, and compile the path, whose parameters are named in braces."""
        pattern, _, convertors = compile_path(path)
        return cls(routes, pattern, convertors)

    def get_route(self, method: str) -> Route | None:
        """Return the route of a method, or None; HEAD uses the route of GET."""
        return self.routes.get("GET" if method == "HEAD" else method)

    def parse_parameters(self, path: str) -> dict[str, Any]:
        """Return the parameters in a requested path by name, converted to their types; empty if the path does not
        match.
        """
        match = self.pattern.match(path)
        return (
            {name: self.convertors[name].convert(value) for name, value in match.groupdict().items()} if match else {}
        )

    @property
    def allowed_methods(self) -> str:
        """The allowed methods, as the `Allow` header lists them."""
        return ", ".join(sorted({*self.routes, *(["HEAD"] if "GET" in self.routes else [])}))

    @property
    def first_route(self) -> Route:
        """The first route, which decides how errors on this path are formatted."""
        return next(iter(self.routes.values()))


@final
class ServerApp:
    """ASGI app that checks access before routing; answers 503 until routes are set.

    A request without a key reaches public routes only. The check is whether a route is public, not whether a
    path is protected, so an unknown path is protected too.
    """

    def __init__(self, registry: ModelRegistry) -> None:
        self._registry = registry
        self._origins = OriginPolicy(registry.settings)
        self._proxies = TrustedProxies(registry.settings.access)
        self._paths: list[PathRoutes] = []
        self._fixed_paths: Mapping[str, PathRoutes] = {}
        self._body_budget = BodyBudget(registry.settings.limits.bodies)

    def set_routes(self, routes: Sequence[Route]) -> None:
        """Set the routes to which requests are dispatched from now on."""
        routes_by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            routes_by_path.setdefault(route.path, {})[route.method] = route
        self._paths = [PathRoutes.from_path(path, methods) for path, methods in routes_by_path.items()]
        self._fixed_paths = {
            path: path_routes for path, path_routes in zip(routes_by_path, self._paths, strict=True) if "{" not in path
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one ASGI request; only the HTTP protocol is supported."""
        assert scope["type"] == "http", scope["type"]
        headers, path_routes = Headers(scope=scope), self._find_path(scope["path"], scope["method"])
        scope[REQUEST_ID_FIELD] = choose_request_id(
            headers.get("x-request-id", "")
        )  # `http_protocol` reads it from there, too
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
        span = self._start_span(path_routes, request_log, headers)
        with use_request_log(request_log), use_span(span):
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
                if span is not None:
                    _end_span(span, request_log)

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
        """Check, route and answer an ASGI request. An error becomes an error response; it is raised if `request_log`
        shows that the answer has begun. `path_routes` are the routes of the request's path, None for an unknown path.
        """

        def build_error_response(error: HTTPError) -> Response:
            return error_response(error) if path_routes is None else path_routes.first_route.build_error_response(error)

        try:
            route = None if path_routes is None else path_routes.get_route(scope["method"])
            key = read_key(headers, scope["query_string"])
            key_in_body = (
                key is None and self._registry.authenticator.requires_key and route is not None and route.key_in_body
            )
            limited_receive = _limit_body(receive, *self._body_limit(route, headers, key_in_body=key_in_body))
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
        """Raise an `HTTPError` if a request may not enter; return the response to a CORS preflight request, or None for
        any other. The API key `key` is checked unless the route is public or, as `key_in_body` says, the key may still
        come in the body.
        """
        self._origins.require_host(scope, headers)
        if self._registry.state != "ready" and (route is None or not route.answers_always):
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
        """Run the route of an admitted ASGI request. Build a 404 response if `path_routes`, the routes of its path, is
        None, and a 405 response if `route`, the one of its method, is None.
        """
        if path_routes is None:
            return JSONResponse({"error": "there is nothing at this path; GET /spec lists the paths"}, 404)
        if route is None:
            message = f"{scope['method']}: not allowed for this path; GET /spec lists the methods"
            return JSONResponse({"error": message}, 405, headers={"Allow": path_routes.allowed_methods})
        scope["path_params"] = path_routes.parse_parameters(scope["path"])
        return await route.respond(self._registry, Request(scope, receive, send))

    def _body_limit(
        self, route: Route | None, headers: Headers, *, key_in_body: bool
    ) -> tuple[int, Callable[[], HTTPError]]:
        """Return how many bytes the body may have, and a function that makes the error for a larger one; raise it if
        the Content-Length header is larger, and a 400 error if that is not a number. Routes that accept files have a
        higher limit, but not while the key may still be in the body (`key_in_body`).
        """
        limits = self._registry.settings.limits
        accepts_files = route is not None and route.accepts_files and limits.file > limits.body
        max_bytes = min(limits.file if accepts_files and not key_in_body else limits.body, limits.bodies)
        build_error = partial(
            keyless_upload_too_large if accepts_files and key_in_body else payload_too_large, max_bytes
        )
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) <= _MAX_LENGTH_DIGITS):
            raise bad_request("Content-Length: is not a number of bytes")
        if int(length) > max_bytes:
            raise build_error()
        return max_bytes, build_error

    def _find_path(self, path: str, method: str) -> PathRoutes | None:
        """Return the routes of the first path pattern that matches and has the method, else of the first that matches,
        else None.
        """
        fixed_path = self._fixed_paths.get(path)
        if fixed_path is not None and fixed_path.get_route(method):
            return fixed_path
        matches = [path_routes for path_routes in self._paths if path_routes.pattern.match(path)]
        return next(
            (path_routes for path_routes in matches if path_routes.get_route(method)), matches[0] if matches else None
        )

    def _response_headers(
        self, request_log: RequestLog, headers: Headers, present_headers: Mapping[bytes, bytes]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the request id, security and CORS headers that are added to every response. `headers` are those of the
        request; `present_headers` are in the response already, and a content security policy there is kept.
        """
        added = [("X-Request-Id", request_log.id), *_SECURITY_HEADERS, *self._origins.cors_headers(headers)]
        if b"content-security-policy" not in present_headers:
            added.append(("Content-Security-Policy", _CONTENT_POLICY))
        if self._registry.state == "ending":
            added.append(("Connection", "close"))
        yield from ((name.lower().encode(), value.encode("latin-1")) for name, value in added)

    def _start_span(
        self, path_routes: PathRoutes | None, request_log: RequestLog, headers: Headers
    ) -> TracedSpan | None:
        """Start the span of a request and note its ids in the log; return None if it is not traced."""
        tracer = self._registry.tracer
        if tracer is None or (path_routes is not None and path_routes.first_route.path in _UNTRACED_PATHS):
            return None
        span = tracer.start_request(*_describe_request(path_routes, request_log), headers)
        request_log.trace_ids = span.ids
        return span

    def _record_request(self, scope: Any, path_routes: PathRoutes | None, request_log: RequestLog) -> None:
        """Count an answered ASGI request in the metrics, under the path pattern of `path_routes` (None: `other`), and
        write its log line.
        """
        request_log.key = scope.get(KEY_NAME_FIELD)
        method, route = _describe_request(path_routes, request_log)
        self._registry.metrics.count_request(
            route, method=method, status=request_log.status or _NO_ANSWER_STATUS, seconds=request_log.elapsed_seconds
        )
        log_request(request_log)


def _describe_request(path_routes: PathRoutes | None, request_log: RequestLog) -> tuple[str, str]:
    """Return method and path pattern of a request, for metrics and traces: `other` in place of what is unknown, since
    both contain nothing that a client has written.
    """
    method = request_log.method if request_log.method in _KNOWN_METHODS else "other"
    return method, "other" if path_routes is None else path_routes.first_route.path


def _end_span(span: TracedSpan, request_log: RequestLog) -> None:
    """End the span of a request with what its log says."""
    status = request_log.status or _NO_ANSWER_STATUS
    attributes = {
        "http.response.status_code": status,
        "heedful.request_id": request_log.id,
        "heedful.model": request_log.model,
        "heedful.run_id": request_log.run_id,
    }
    span.set_attributes(attributes)
    span.end(str(status) if status >= 500 else None)


def _limit_body(receive: Callable[[], Any], max_bytes: int, build_error: Callable[[], HTTPError]) -> Callable[[], Any]:
    """Wrap an ASGI `receive` so that it raises the error of `build_error` when the body exceeds `max_bytes`."""
    num_bytes = 0

    async def receive_limited() -> Any:
        nonlocal num_bytes
        message = await receive()
        num_bytes += len(message.get("body", b""))
        if num_bytes > max_bytes:
            raise build_error()
        return message

    return receive_limited


def collect_routes(registry: ModelRegistry) -> Sequence[Route]:
    """Return those routes of all `ROUTE_MODULES` that a server with the models of this registry has."""
    return _list_routes(ROUTE_MODULES, registry)


def _list_routes(modules: Sequence[str], registry: ModelRegistry) -> Sequence[Route]:
    """Return those routes of modules that a server with the models of this registry has."""
    routes = (value for name in modules for value in vars(import_module(name)).values() if isinstance(value, Route))
    return tuple(route for route in routes if route.is_served(registry))


def build_app(registry: ModelRegistry) -> ServerApp:
    """Build an ASGI application that serves a registry; the caller loads the models and drains the requests."""
    app = ServerApp(registry)
    mount_routes(app, registry)
    return app


def mount_health_routes(app: ServerApp, registry: ModelRegistry) -> None:
    """Give the application the routes that answer while models are loaded, and no others yet."""
    app.set_routes(_list_routes((HEALTH_MODULE,), registry))


def mount_routes(app: ServerApp, registry: ModelRegistry) -> None:
    """Give the application the routes of a registry whose models are loaded."""
    app.set_routes(collect_routes(registry))
