"""A page that lists all that may be asked, made of its description; it needs no script and no network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from typing import Any, Final

_LEDE: Final = (
    'What this server answers. The same for programs: <a href="/spec">OpenAPI 3.1</a>. '
    "Requests are JSON; errors are JSON too, and say what would be answered."
)


def docs_html(spec: Mapping[str, Any]) -> str:
    """The page of a description."""
    operations = [
        (operation["tags"][0], method.upper(), path, operation)
        for path, methods in spec["paths"].items()
        for method, operation in methods.items()
    ]
    order = list(dict.fromkeys(group for group, *_ in operations))
    operations.sort(key=lambda each: order.index(each[0]))
    parts = [
        f'<section aria-label="{escape(group)}"><h2>{escape(group)}</h2>'
        + "".join(_operation(spec, *each) for _, *each in members)
        + "</section>"
        for group, members in groupby(operations, key=lambda each: each[0])
    ]
    return "".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<title>heedful: what may be asked</title><link rel="stylesheet" href="/docs/docs.css">',
            '<link rel="icon" href="/docs/icon.svg" type="image/svg+xml">',
            "</head><body><main>",
            f"<h1>heedful {escape(spec['info']['version'])}</h1><p>{_LEDE}</p>",
            *parts,
            "</main></body></html>\n",
        ]
    )


def _operation(spec: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> str:
    key = ' <span class="key">needs a key</span>' if operation.get("security") else ""
    head = f'<code><b class="method">{method}</b> {escape(path)}</code> <span class="about">'
    head += f"{escape(operation['summary'])}{key}</span>"
    body = "".join(_body(spec, method, path, operation))
    return f"<details><summary>{head}</summary>{body}</details>"


def _body(spec: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    if "requestBody" in operation:
        described = operation["requestBody"]["content"]["application/json"]
        yield "<h3>Request</h3>" + _fields(spec, described["schema"])
        for each in described.get("examples", {}).values():
            yield _example(method, path, each["value"])
    for media, content in operation["responses"]["200"]["content"].items():
        yield f"<h3>Answer <code>{escape(media)}</code></h3>"
        if media == "application/json" or "description" in content["schema"]:
            yield _fields(spec, content["schema"])
    statuses = "".join(
        f"<dt>{status}</dt><dd>{escape(told['description'])}</dd>"
        for status, told in operation["responses"].items()
        if status != "200"
    )
    yield f"<h3>Errors</h3><dl>{statuses}</dl>"


def _example(method: str, path: str, value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return f"<pre><code>{escape(f'{method} {path}')}\n{escape(shown)}</code></pre>"


def _fields(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The fields of an object and of the objects in it, or what else there is."""
    found = _resolved(spec, schema)
    if "properties" not in found:
        inner = found.get("items")
        if inner is not None and "properties" in _resolved(spec, inner):
            return "<p>a list of</p>" + _fields(spec, inner)
        return f"<p>{escape(found.get('description') or _type(spec, schema))}</p>"
    needed = found.get("required", [])
    rows = "".join(
        f'<tr><th scope="row"><code>{escape(name)}</code>{" <b>required</b>" if name in needed else ""}</th>'
        f"<td>{escape(_type(spec, each))}</td><td>{escape(each.get('description', ''))}</td></tr>"
        for name, each in found["properties"].items()
    )
    columns = '<tr><th scope="col">field</th><th scope="col">what it is</th><th scope="col">meaning</th></tr>'
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Fields"><table>'
        f"<thead>{columns}</thead><tbody>{rows}</tbody></table></div>"
    )


def _resolved(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in schema:
        found: Mapping[str, Any] = spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def _type(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """What a value is, in words."""
    if "$ref" in schema:
        found = _resolved(spec, schema)
        names = ", ".join(found.get("properties", {}))
        return f"object ({names})" if names else _type(spec, found)
    if "anyOf" in schema:
        kinds = (_type(spec, each) for each in schema["anyOf"] if each.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_type(spec, schema.get('items', {}))}"
    default = schema.get("default")
    kind = str(schema.get("type", "anything"))
    return kind if default in (None, "") else f"{kind}, {json.dumps(default)} unless given"
