"""All that may be asked, described in OpenAPI 3.1 for programs and on a page for people; made of the routes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.responses import Response

from heedful.serving.app import routes_of
from heedful.serving.house import House
from heedful.serving.openapi_page import docs_html
from heedful.serving.own.events import MEDIA
from heedful.serving.refusal import Refusal, missing
from heedful.serving.routes import DEADLINE, Asked, Route
from heedful.version import __version__

Schema = dict[str, Any]

ERRORS: Final[Mapping[int, str]] = {
    400: "the request cannot be answered as it is; the message says what would",
    401: "a key is needed",
    403: "the key is not known",
    404: "a model, a page or a file that is asked for is not here",
    413: "the request is too large",
    429: "too many requests; Retry-After says when to ask again",
    500: "the server failed; its log tells more, by the number of the request",
    503: "the server is loading or ending; Retry-After says when to ask again",
    504: "no answer within the time that was given",
}
"""Statuses other than 200, and what they mean."""
_KEYED: Final = frozenset({401, 403})
_FILES: Final = {"docs.css": "text/css", "icon.svg": "image/svg+xml"}
_CONVERTER: Final = re.compile(r":\w+}")
"""What Starlette wants to know of a part of a path."""
_MODE: Final[JsonSchemaMode] = "validation"
_DEADLINE: Final[Schema] = {
    "name": DEADLINE,
    "in": "header",
    "required": False,
    "description": "seconds that you are ready to wait; work ends then",
    "schema": {"type": "number", "exclusiveMinimum": 0},
}


def routes(house: House) -> Iterator[Route]:
    """The description and its page, which everybody may read."""

    @cache
    def spec() -> Schema:
        return specification(routes_of(house), keyed=house.settings.access.keys is not None)

    async def answer(_asked: Asked) -> Mapping[str, Any]:
        return spec()

    async def page(_asked: Asked) -> Response:
        return Response(docs_html(spec()), media_type="text/html")

    async def file(asked: Asked) -> Response:
        name = asked.request.path_params["name"]
        if name not in _FILES:
            raise missing("the page has no such file")
        return Response((resources.files("heedful.serving") / "page" / name).read_bytes(), media_type=_FILES[name])

    for path, told, about, media in (
        ("/spec", answer, "this description, in OpenAPI 3.1", "application/json"),
        ("/docs", page, "this description, as a page", "text/html"),
        ("/docs/{name}", file, "what that page is made of", "text/plain"),
    ):
        yield Route(path=path, method="GET", answer=told, about=about, free=True, group="about", media=media)


def specification(routes: Sequence[Route], *, keyed: bool) -> Schema:
    """The description of routes; `keyed` where those that are not free need a key."""
    models = [model for route in routes for model in (route.takes, route.gives) if model is not None]
    inputs = [(model, _MODE) for model in dict.fromkeys(models)]
    names, definitions = models_json_schema(inputs, ref_template="#/components/schemas/{model}")
    paths: dict[str, Schema] = {}
    for route in routes:
        path = _CONVERTER.sub("}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, names, keyed=keyed)
    schemes = {"key": {"type": "http", "scheme": "bearer", "description": "a key of this server"}} if keyed else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "heedful", "version": __version__, "description": "Attention models behind HTTP."},
        "paths": paths,
        "components": {"schemas": definitions.get("$defs", {}), "securitySchemes": schemes},
    }


def _operation(route: Route, names: Mapping[Any, Schema], *, keyed: bool) -> Schema:
    """One thing that may be asked."""
    needs_key = keyed and not route.free
    errors = {status: text for status, text in ERRORS.items() if needs_key or status not in _KEYED}
    found: Schema = {
        "operationId": "_".join(re.findall(r"\w+", f"{route.method.lower()} {route.path}")),
        "summary": route.about,
        "tags": [route.group],
        "parameters": [*map(_part, re.findall(r"{(\w+)", route.path)), _DEADLINE],
        "responses": {"200": _answered(route, names), **{str(each): _refused(route, each) for each in errors}},
    }
    if needs_key:
        found["security"] = [{"key": []}]
    if route.takes is not None:
        found["requestBody"] = _body(route, names)
    return found


def _part(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _body(route: Route, names: Mapping[Any, Schema]) -> Schema:
    described: Schema = {"schema": names[route.takes, _MODE]}
    if route.examples:
        described["examples"] = {str(number): {"value": dict(each)} for number, each in enumerate(route.examples, 1)}
    content = {"application/json": described}
    if route.files:
        content["multipart/form-data"] = {"schema": names[route.takes, _MODE]}
    return {"required": True, "content": content}


def _answered(route: Route, names: Mapping[Any, Schema]) -> Schema:
    if route.gives is None:
        schema: Schema = {} if route.media == "application/json" else {"type": "string"}
    else:
        schema = names[route.gives, _MODE]
        schema = {"type": "array", "items": schema} if route.many else schema
    content: Schema = {route.media: {"schema": schema}}
    if route.takes is not None and _streams(route.takes):
        described = "with `stream`: events `growing` with what there is so far, and last `record` or `error`"
        content[MEDIA] = {"schema": {"type": "string", "description": described}}
    content |= {media: {"schema": {"type": "string", "description": when}} for media, when in route.also}
    return {"description": "the answer", "content": content}


def _streams(takes: type[BaseModel]) -> bool:
    """Whether an answer may be a stream; a message may have the word only to refuse it."""
    stream = takes.model_fields.get("stream")
    return stream is not None and bool in (stream.annotation, *get_args(stream.annotation))


def _refused(route: Route, status: int) -> Schema:
    shown = route.dialect(Refusal(status, "what is wrong"))
    found: Schema = {"description": ERRORS[status], "content": {"application/json": {"schema": _like(shown)}}}
    if status in (429, 503):
        found["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
    return found


def _like(example: Any) -> Schema:
    """What is like an example: objects with the same keys, texts and numbers for texts and numbers."""
    match example:
        case Mapping():
            properties = {name: _like(each) for name, each in example.items()}
            return {"type": "object", "properties": properties, "required": [*properties]}
        case str():
            return {"type": "string"}
        case int():
            return {"type": "integer"}
    return {}
