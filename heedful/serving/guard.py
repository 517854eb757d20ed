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

from heedful.serving.bodies import BodyBudget
from heedful.serving.door import KEY, key_of
from heedful.serving.house import House
from heedful.serving.logs import Visit, tell, tell_failure, visiting
from heedful.serving.origins import Origins
from heedful.serving.proxies import Proxies
from heedful.serving.refusal import Refusal, closed, failed, large, unopened, wrong
from heedful.serving.routes import ID, Route, refused, request_id

_DIGITS: Final = 18
"""Of a length that is read; nothing that is taken has a longer one."""
_LONGEST: Final = 200
"""Characters of a path that are told."""
_METHODS: Final = ("GET", "HEAD", "POST", "OPTIONS")
_POLICY: Final = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_SAID: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)


@final
@dataclass(frozen=True)
class Place:
    """What may be asked at a path: the routes by their methods, and how the parts of the path are read."""

    routes: Mapping[str, Route]
    pattern: re.Pattern[str]
    convertors: Mapping[str, Convertor[Any]]

    @classmethod
    def of(cls, path: str, routes: Mapping[str, Route]) -> Place:
        """At a path whose parts have their names in braces."""
        pattern, _, convertors = compile_path(path)
        return cls(routes, pattern, convertors)

    def route(self, method: str) -> Route | None:
        """That of a method; HEAD is GET without what it gives."""
        return self.routes.get("GET" if method == "HEAD" else method)

    def parts(self, path: str) -> dict[str, Any]:
        """Those that have names; none of a path that is not here."""
        found = self.pattern.match(path)
        return {name: self.convertors[name].convert(part) for name, part in found.groupdict().items()} if found else {}

    @property
    def methods(self) -> str:
        """As HTTP lists them."""
        return ", ".join(sorted({*self.routes, *(["HEAD"] if "GET" in self.routes else [])}))

    @property
    def any(self) -> Route:
        """Whose words are spoken here."""
        return next(iter(self.routes.values()))


@final
class Guard:
    """An application: routes, and what stands before all of them; before it `leads` to any, every request is told to
    come again.

    Whoever has no key gets nowhere but to routes that are free, whatever the path: it is not asked whether a path is
    guarded, but whether it is free.
    """

    def __init__(self, house: House) -> None:
        self._house = house
        self._origins = Origins(house.settings)
        self._proxies = Proxies(house.settings.access)
        self._places: list[Place] = []
        self._bodies = BodyBudget(house.settings.limits.bodies)

    def lead(self, routes: Sequence[Route]) -> None:
        """From now on requests get to these routes."""
        places: dict[str, dict[str, Route]] = {}
        for route in routes:
            places.setdefault(route.path, {})[route.method] = route
        self._places = [Place.of(path, methods) for path, methods in places.items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI; of its protocols HTTP alone is spoken."""
        assert scope["type"] == "http", scope["type"]
        headers, place = Headers(scope=scope), self._place(scope["path"], scope["method"])
        scope[ID] = request_id(headers.get("x-request-id", ""))  # `protocol`, too, tells it from there
        scope = self._proxies.seen(scope, headers)
        visit = Visit(scope[ID], scope["method"], quote(scope["path"])[:_LONGEST])

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                given = list(message.get("headers", ()))
                message = {**message, "headers": [*given, *self._said(visit, headers, dict(given))]}
            await send(message)

        body = self._bodies.body()
        receiving = partial(body.receive, receive)
        with visiting(visit):
            try:
                await self._answered(scope, receiving, sending, headers=headers, place=place, visit=visit)
            finally:
                body.release()
                self._done(scope, place, visit)

    async def _answered(
        self, scope: Any, receive: Any, send: Any, *, headers: Headers, place: Place | None, visit: Visit
    ) -> None:
        def refuse(refusal: Refusal) -> Response:
            return refused(refusal) if place is None else place.any.refused(refusal)

        try:
            route = None if place is None else place.route(scope["method"])
            key = key_of(headers, scope["query_string"])
            held = key is None and self._house.door.locked and route is not None and route.holds_key
            most, excess = self._most(route, headers, held=held)
            counted = _counted(receive, most, excess)
            response = self._entered(scope, headers, route, key=key, held=held)
            if response is None:
                response = await self._response(scope, counted, send, place=place, route=route)
            await response(scope, counted, send)
        except Refusal as refusal:
            if visit.status is not None:
                raise  # which cuts an answer that has begun
            await refuse(refusal)(scope, receive, send)
        except asyncio.CancelledError:
            if visit.status is None:  # no time is left for an answer
                await refuse(closed("ending"))(scope, receive, send)
            raise
        except Exception:
            tell_failure(visit.id)
            if visit.status is not None:
                raise
            await refuse(failed(visit.id))(scope, receive, send)

    def _entered(
        self, scope: Any, headers: Headers, route: Route | None, *, key: str | None, held: bool
    ) -> Response | None:
        """What is said to a request that asks for no more than whether it may ask; `Refusal` where it may not.

        Args:
            scope: of ASGI.
            headers: of the request.
            route: that it asks for.
            key: that it has in its headers or its query.
            held: it may have one in what it sends, which `Route` reads.
        """
        self._origins.require_host(scope, headers)
        if self._house.state != "ready":
            raise closed(self._house.state)
        permitted = self._origins.preflight(scope, headers)
        if permitted is not None:
            return Response(status_code=204, headers=permitted)
        self._origins.require_page(scope, headers)
        if not held and (route is None or not route.free):
            self._house.door.admit(scope, key)
        return None

    async def _response(
        self, scope: Any, receive: Any, send: Any, *, place: Place | None, route: Route | None
    ) -> Response:
        """To a request that came in."""
        if place is None:
            return JSONResponse({"error": "there is nothing at this path; GET /spec lists what may be asked"}, 404)
        if route is None:
            message = f"{scope['method']}: not for this path; GET /spec lists what may be asked"
            return JSONResponse({"error": message}, 405, headers={"Allow": place.methods})
        scope["path_params"] = place.parts(scope["path"])
        return await route.respond(self._house, Request(scope, receive, send))

    def _most(self, route: Route | None, headers: Headers, *, held: bool) -> tuple[int, Refusal]:
        """Bytes that a request may have, and what is said of more; raised where it says itself that it has more.

        Until a key is found in what is sent, that may not have the size of a file.
        """
        limits = self._house.settings.limits
        files = route is not None and route.files and limits.file > limits.body
        most = min(limits.file if files and not held else limits.body, limits.bodies)
        excess = unopened(most) if files and held else large(most)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) <= _DIGITS):
            raise wrong("Content-Length: is no number of bytes")
        if int(length) > most:
            raise excess
        return most, excess

    def _place(self, path: str, method: str) -> Place | None:
        """The first that answers the method, or the first."""
        found = [place for place in self._places if place.pattern.match(path)]
        return next((place for place in found if place.route(method)), found[0] if found else None)

    def _said(self, visit: Visit, headers: Headers, given: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
        said = [("X-Request-Id", visit.id), *_SAID, *self._origins.shared(headers)]
        if b"content-security-policy" not in given:
            said.append(("Content-Security-Policy", _POLICY))
        if self._house.state == "ending":
            said.append(("Connection", "close"))
        yield from ((name.lower().encode(), value.encode("latin-1")) for name, value in said)

    def _done(self, scope: Any, place: Place | None, visit: Visit) -> None:
        visit.key = scope.get(KEY)
        route = "other" if place is None else place.any.path
        method = visit.method if visit.method in _METHODS else "other"
        self._house.meters.answered(route, method=method, status=visit.status or 499, seconds=visit.seconds)
        tell(visit)


def _counted(receive: Callable[[], Any], most: int, excess: Refusal) -> Callable[[], Any]:
    """The parts of a request as they come, as long as they are not too many."""
    seen = 0

    async def counted() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise excess
        return message

    return counted
