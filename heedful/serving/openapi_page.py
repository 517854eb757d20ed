"""Render an OpenAPI description as one HTML page that needs no script and no network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from typing import Any, Final

_INTRODUCTION: Final = (
    'The requests that this server answers. The same for programs: <a href="/spec">OpenAPI 3.1</a>. '
    "Requests are JSON; errors are JSON too, and say how to correct the request."
)


def render_docs_page(specification: Mapping[str, Any]) -> str:
    """Render the page of an OpenAPI description."""
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
    """Render one operation as an expandable section."""
    key = ' <span class="key">needs a key</span>' if operation.get("security") else ""
    head = f'<code><b class="method">{method}</b> {escape(path)}</code> <span class="about">'
    head += f"{escape(operation['summary'])}{key}</span>"
    body = "".join(_render_operation_body(specification, method, path, operation))
    return f"<details><summary>{head}</summary>{body}</details>"


def _render_operation_body(
    specification: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the HTML of an operation's request, answers and errors."""
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
    """Render an example request."""
    request_json = json.dumps(value, ensure_ascii=False)
    return f"<pre><code>{escape(f'{method} {path}')}\n{escape(request_json)}</code></pre>"


def _render_fields(specification: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Render the fields of an object and of the objects in a list, or a description of any other value."""
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
    """Return the schema to which a `$ref` points, or the schema itself."""
    if "$ref" in schema:
        target: Mapping[str, Any] = specification["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return target
    return schema


def _format_type(specification: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
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
