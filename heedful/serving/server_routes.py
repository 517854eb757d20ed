"""Routes about the server itself: its metrics, the web page, and the description of all routes in
OpenAPI 3.1.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from importlib import resources
from itertools import groupby
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.responses import Response

from heedful.serving.app import collect_routes
from heedful.serving.http_errors import HTTPError, not_found
from heedful.serving.metrics import MEDIA_TYPE as METRICS_TYPE
from heedful.serving.registry import ModelRegistry
from heedful.serving.routes import DEADLINE_HEADER, RequestContext, Route, declare_route
from heedful.serving.sse import MEDIA_TYPE
from heedful.version import __version__

_MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_VIEWER_FILES: Final = ("style.css", "dom.js", "colour.js")
"""Files of the inspection viewer that the page uses too."""

_CONTENT_POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; media-src data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy of the page: as for every answer, but the user's own pictures, sounds and clips may be
shown."""


def _has_page(registry: ModelRegistry) -> bool:
    return registry.settings.page


@declare_route("/metrics", "numbers for Prometheus", method="GET", media_type=METRICS_TYPE)
async def answer_metrics(context: RequestContext) -> Response:
    """Return all metrics in the Prometheus text format."""
    return Response(context.registry.metrics.render_text(), media_type=METRICS_TYPE)


@declare_route("/", "the page", method="GET", public=True, group="page", media_type="text/html", is_served=_has_page)
async def _answer_index(context: RequestContext) -> Response:
    response = _build_file_response(context, "index.html")
    response.headers["Content-Security-Policy"] = _CONTENT_POLICY
    return response


@declare_route(
    "/page/{name}",
    "a file of the page",
    method="GET",
    public=True,
    group="page",
    media_type="text/plain",
    is_served=_has_page,
)
async def _answer_file(context: RequestContext) -> Response:
    return _build_file_response(context, context.request.path_params["name"])


def _build_file_response(context: RequestContext, name: str) -> Response:
    """Build the response with the file of this name, or a 304 response if the client of the request has it already;
    raise an `HTTPError` if the page has no such file.
    """
    if name not in load_page_files():
        raise not_found("the page has no such file")
    content = load_page_files()[name]
    headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "Cache-Control": "no-cache"}
    if context.request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers=headers)


@cache
def load_page_files() -> Mapping[str, bytes]:
    """Return the content of all files of the page by name."""
    page_folder = resources.files("heedful.serving") / "page"
    viewer_folder = resources.files("heedful.inspection") / "viewer"
    page_files = [file for file in page_folder.iterdir() if file.name.rpartition(".")[2] in _MEDIA_TYPES]
    return {file.name: file.read_bytes() for file in (*page_files, *(viewer_folder / name for name in _VIEWER_FILES))}


JsonSchema = dict[str, Any]

STATUS_DESCRIPTIONS: Final[Mapping[int, str]] = {
    400: "the request is not valid; the message says how to correct it",
    401: "the API key is missing or unknown",
    403: "web pages of this origin may not send requests to the server",
    404: "the requested model, page or file does not exist",
    408: "the request did not arrive in time",
    413: "the request is too large",
    414: "the URL is too long",
    421: "the Host header names another server",
    429: "too many requests; Retry-After gives the seconds to wait",
    431: "the headers are too many or too long",
    500: "the server failed; its log has the details under the request id",
    503: "the server is starting, stopping or overloaded; Retry-After gives the seconds to wait",
    504: "no answer within the given time",
}
"""Error statuses and their meanings."""
_EARLY_STATUSES: Final = frozenset({408, 414, 431})
"""Statuses of requests that are refused before their route is known; their errors have one format for all routes."""
_DOCS_FILES: Final = {"docs.css": "text/css", "icon.svg": "image/svg+xml"}
_CONVERTER_PATTERN: Final = re.compile(r":\w+}")
"""Type of a path parameter in Starlette's syntax, which OpenAPI does not use."""
_SCHEMA_MODE: Final[JsonSchemaMode] = "validation"
_DEADLINE_PARAMETER: Final[JsonSchema] = {
    "name": DEADLINE_HEADER,
    "in": "header",
    "required": False,
    "description": "maximum seconds to wait; the work stops then",
    "schema": {"type": "number", "exclusiveMinimum": 0},
}
_INTRODUCTION: Final = (
    'The requests that this server answers. The same for programs: <a href="/spec">OpenAPI 3.1</a>. '
    "Requests are JSON; errors are JSON too, and say how to correct the request."
)


@declare_route("/spec", "this description, in OpenAPI 3.1", method="GET", public=True, group="about")
async def _answer_spec(context: RequestContext) -> Mapping[str, Any]:
    return context.registry.get_shared(build_specification)


@declare_route("/docs", "this description, as a page", method="GET", public=True, group="about", media_type="text/html")
async def _answer_docs_page(context: RequestContext) -> Response:
    return Response(render_docs_page(context.registry.get_shared(build_specification)), media_type="text/html")


@declare_route("/docs/{name}", "a file of that page", method="GET", public=True, group="about", media_type="text/plain")
async def _answer_docs_file(context: RequestContext) -> Response:
    """Return the response with the page's file of the requested name; raise a 404 error if there is none."""
    name = context.request.path_params["name"]
    if name not in _DOCS_FILES:
        raise not_found("the page has no such file")
    return Response((resources.files("heedful.serving") / "page" / name).read_bytes(), media_type=_DOCS_FILES[name])


def build_specification(registry: ModelRegistry) -> JsonSchema:
    """Build the OpenAPI description of the routes of a registry."""
    routes, requires_key = collect_routes(registry), registry.settings.access.keys is not None
    models = [model for route in routes for model in (route.request_type, route.response_type) if model is not None]
    inputs = [(model, _SCHEMA_MODE) for model in dict.fromkeys(models)]
    names, definitions = models_json_schema(inputs, ref_template="#/components/schemas/{model}")
    paths: dict[str, JsonSchema] = {}
    for route in routes:
        path = _CONVERTER_PATTERN.sub("}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _describe_operation(route, names, registry)
    schemes = (
        {"key": {"type": "http", "scheme": "bearer", "description": "a key of this server"}} if requires_key else {}
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "heedful", "version": __version__, "description": "Attention models over HTTP."},
        "paths": paths,
        "components": {"schemas": definitions.get("$defs", {}), "securitySchemes": schemes},
    }


def _describe_operation(route: Route, names: Mapping[Any, JsonSchema], registry: ModelRegistry) -> JsonSchema:
    """Return the OpenAPI operation of a route: its parameters, request, response and errors. `names` are the schemas of
    the messages by (type, mode).
    """
    needs_key = registry.settings.access.keys is not None and not route.public
    operation: JsonSchema = {
        "operationId": "_".join(re.findall(r"\w+", f"{route.method.lower()} {route.path}")),
        "summary": route.summary,
        "tags": [route.group],
        "parameters": [*map(_describe_parameter, re.findall(r"{(\w+)", route.path)), _DEADLINE_PARAMETER],
        "responses": {
            "200": _describe_response(route, names),
            **_describe_errors(route, needs_key=needs_key),
        },
    }
    if needs_key:
        operation["security"] = [{"key": []}]
    if route.request_type is not None:
        operation["requestBody"] = _describe_body(route, names, registry)
    return operation


def _describe_parameter(name: str) -> JsonSchema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _describe_body(route: Route, names: Mapping[Any, JsonSchema], registry: ModelRegistry) -> JsonSchema:
    """Return the OpenAPI request body of a route, with its schema from `names` (by type and mode) and its examples; as
    JSON and, if the route accepts files, as a form too.
    """
    media_schema: JsonSchema = {"schema": names[route.request_type, _SCHEMA_MODE]}
    examples = route.examples(registry) if callable(route.examples) else route.examples
    if examples:
        media_schema["examples"] = {str(number): {"value": dict(example)} for number, example in enumerate(examples, 1)}
    content = {"application/json": media_schema}
    if route.accepts_files:
        content["multipart/form-data"] = {"schema": names[route.request_type, _SCHEMA_MODE]}
    return {"required": True, "content": content}


def _describe_response(route: Route, names: Mapping[Any, JsonSchema]) -> JsonSchema:
    """Return the OpenAPI description of a route's answer, with a schema for each of its media types; those of messages
    come from `names` (by type and mode).
    """
    if route.response_type is None:
        schema: JsonSchema = {} if route.media_type == "application/json" else {"type": "string"}
    else:
        schema = names[route.response_type, _SCHEMA_MODE]
        schema = {"type": "array", "items": schema} if route.is_list else schema
    content: JsonSchema = {route.media_type: {"schema": schema}}
    if route.request_type is not None and _can_stream(route.request_type):
        event_description = "with `stream`: events `growing` with the result so far, and finally `record` or `error`"
        content[MEDIA_TYPE] = {"schema": {"type": "string", "description": event_description}}
    content |= {
        media: {"schema": {"type": "string", "description": condition}} for media, condition in route.other_media_types
    }
    return {"description": "the answer", "content": content}


def _can_stream(request_type: type[BaseModel]) -> bool:
    """Return whether requests of this type have a boolean `stream` field; some have one only to reject it."""
    stream = request_type.model_fields.get("stream")
    return stream is not None and bool in (stream.annotation, *get_args(stream.annotation))


def _describe_errors(route: Route, *, needs_key: bool) -> dict[str, JsonSchema]:
    """Return the OpenAPI descriptions of a route's error answers by status; `needs_key` says whether the route needs an
    API key.
    """
    conditions = {status: [text] for status, text in STATUS_DESCRIPTIONS.items() if status not in (401, 403)}
    if needs_key:
        conditions.setdefault(route.unauthorized_status, []).append(STATUS_DESCRIPTIONS[401])
    if route.method != "GET":  # web pages of any origin may send GET requests
        conditions.setdefault(403, []).append(STATUS_DESCRIPTIONS[403])
    return {
        str(status): _describe_error(route, status, "; or ".join(texts)) for status, texts in sorted(conditions.items())
    }


def _describe_error(route: Route, status: int, description: str) -> JsonSchema:
    """Return the OpenAPI description of a route's answer with this error status; its schema is that of an example
    error.
    """
    example = {"error": "text"} if status in _EARLY_STATUSES else route.format_error(HTTPError(status, "what is wrong"))
    response: JsonSchema = {
        "description": description,
        "content": {"application/json": {"schema": _infer_schema(example)}},
    }
    if status in (429, 503):
        response["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
    return response


def _infer_schema(example: Any) -> JsonSchema:
    """Infer a schema from an example: objects with the same keys, strings and integers; others get an empty schema."""
    match example:
        case Mapping():
            properties = {name: _infer_schema(value) for name, value in example.items()}
            return {"type": "object", "properties": properties, "required": [*properties]}
        case str():
            return {"type": "string"}
        case int():
            return {"type": "integer"}
    return {}


def render_docs_page(specification: Mapping[str, Any]) -> str:
    """Render an OpenAPI description as a page in HTML, with a section for each group of operations."""
    operations = [
        (operation["tags"][0], method.upper(), path, operation)
        for path, methods in specification["paths"].items()
        for method, operation in methods.items()
    ]
    order = list(dict.fromkeys(group for group, *_ in operations))
    operations.sort(key=lambda entry: order.index(entry[0]))
    sections = [
        f'<section aria-label="{escape(group)}"><h2>{escape(group)}</h2>'
        + "".join(_render_operation(specification, *entry) for _, *entry in group_operations)
        + "</section>"
        for group, group_operations in groupby(operations, key=lambda entry: entry[0])
    ]
    return "".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<title>heedful: API</title><link rel="stylesheet" href="/docs/docs.css">',
            '<link rel="icon" href="/docs/icon.svg" type="image/svg+xml">',
            "</head><body><main>",
            f"<h1>heedful {escape(specification['info']['version'])}</h1><p>{_INTRODUCTION}</p>",
            *sections,
            "</main></body></html>\n",
        ]
    )


def _render_operation(specification: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> str:
    """Render an operation of an OpenAPI description as HTML that can be unfolded: method, path and summary, and inside
    its request, answers and errors.
    """
    key = ' <span class="key">needs a key</span>' if operation.get("security") else ""
    head = f'<code><b class="method">{method}</b> {escape(path)}</code> <span class="about">'
    head += f"{escape(operation['summary'])}{key}</span>"
    body = "".join(_render_operation_body(specification, method, path, operation))
    return f"<details><summary>{head}</summary>{body}</details>"


def _render_operation_body(
    specification: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the HTML of an operation's request, answers and errors. `specification` holds the schemas to which the
    operation refers; method and path are shown above each example.
    """
    if "requestBody" in operation:
        request_media = operation["requestBody"]["content"]["application/json"]
        yield "<h3>Request</h3>" + _render_fields(specification, request_media["schema"])
        for example in request_media.get("examples", {}).values():
            yield _render_example(method, path, example["value"])
    for media_type, content in operation["responses"]["200"]["content"].items():
        yield f"<h3>Answer <code>{escape(media_type)}</code></h3>"
        if media_type == "application/json" or "description" in content["schema"]:
            yield _render_fields(specification, content["schema"])
    statuses = "".join(
        f"<dt>{status}</dt><dd>{escape(response['description'])}</dd>"
        for status, response in operation["responses"].items()
        if status != "200"
    )
    yield f"<h3>Errors</h3><dl>{statuses}</dl>"


def _render_example(method: str, path: str, value: Any) -> str:
    request_json = json.dumps(value, ensure_ascii=False)
    return f"<pre><code>{escape(f'{method} {path}')}\n{escape(request_json)}</code></pre>"


def _render_fields(specification: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Render in HTML the fields of an object schema and of the objects in a list, or a description of any other schema;
    `specification` holds the schemas to which it may refer.
    """
    resolved = _resolve_reference(specification, schema)
    if "properties" not in resolved:
        inner = resolved.get("items")
        if inner is not None and "properties" in _resolve_reference(specification, inner):
            return "<p>a list of</p>" + _render_fields(specification, inner)
        return f"<p>{escape(resolved.get('description') or _format_type(specification, schema))}</p>"
    required = resolved.get("required", [])
    rows = "".join(
        f'<tr><th scope="row"><code>{escape(name)}</code>{" <b>required</b>" if name in required else ""}</th>'
        f"<td>{escape(_format_type(specification, field))}</td><td>{escape(field.get('description', ''))}</td></tr>"
        for name, field in resolved["properties"].items()
    )
    columns = '<tr><th scope="col">field</th><th scope="col">what it is</th><th scope="col">meaning</th></tr>'
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Fields"><table>'
        f"<thead>{columns}</thead><tbody>{rows}</tbody></table></div>"
    )


def _resolve_reference(specification: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a specification to which a schema's `$ref` points, or the schema itself if it has none."""
    if "$ref" in schema:
        target: Mapping[str, Any] = specification["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return target
    return schema


def _format_type(specification: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return in words which type a schema has, as `list of string`, and its default if there is one; `specification`
    holds the schemas to which it may refer.
    """
    if "$ref" in schema:
        resolved = _resolve_reference(specification, schema)
        names = ", ".join(resolved.get("properties", {}))
        return f"object ({names})" if names else _format_type(specification, resolved)
    if "anyOf" in schema:
        alternatives = (
            _format_type(specification, alternative)
            for alternative in schema["anyOf"]
            if alternative.get("type") != "null"
        )
        return " or ".join(dict.fromkeys(alternatives))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_format_type(specification, schema.get('items', {}))}"
    default = schema.get("default")
    type_name = str(schema.get("type", "anything"))
    return type_name if default in (None, "") else f"{type_name}, {json.dumps(default)} unless given"
