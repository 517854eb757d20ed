"""What JSON may hold that somebody sends, and forms."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request

from heedful.serving.http_errors import HTTPError
from heedful.serving.request_body import open_form, parse_json


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (nested(33).encode(), "levels of lists and objects"),
        (nested(100_000).encode(), "levels of lists and objects"),
        (("[" * 100_000).encode(), "levels of lists and objects"),
        (('{"a":' * 40 + "1" + "}" * 40).encode(), "levels of lists and objects"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "number of 5,000 digits"),
        (b'{"a": -' + b"9" * 1_000 + b"}", "number of 1,001 digits"),
        (b'{"a": "\\ud800"}', "half a character"),
        (b'{"\\udfff": 1}', "half a character"),
        ('{"a": "\\ud800"}'.encode("utf-16"), "not UTF-8"),
        ('{"a": 1}'.encode("utf-32-le"), "is not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"[" + b"{}," * 600_000 + b"{}]", "1,000,000 values"),
    ],
    ids=range(14),
)
def test_what_is_refused(content: bytes, word: str) -> None:
    with pytest.raises(HTTPError, match=word) as refused:
        parse_json(content, name="the body")
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "value", [[], {}, None, 10**999, -1, 1.5e300, "\U0001f600", "a" * 10, json.loads(nested(32)), ["\\ud800"]]
)
def test_what_is_read(value: Any) -> None:
    assert parse_json(json.dumps(value), name="it") == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode("utf-8-sig"), name="it") == value


async def _parsed(charset: str, name: str = "a.txt") -> list[tuple[str, Any]]:
    content = f'--x\r\nContent-Disposition: form-data; name="q"; filename="{name}"\r\n\r\nä\r\n--x--\r\n'.encode()
    headers = [(b"content-type", f"multipart/form-data; boundary=x{charset}".encode())]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    scope = {"type": "http", "method": "POST", "headers": headers, "path": "/", "query_string": b""}
    async with open_form(Request(scope, receive), max_files=1, max_fields=1) as form:
        return [(key, value.filename) for key, value in form.multi_items()]  # type: ignore[union-attr]


@pytest.mark.parametrize("charset", ["punycode", "idna", "undefined", "utf-16", "unicode_escape", "no-such", "\0"])
def test_forms_are_utf_8(charset: str) -> None:
    with pytest.raises(HTTPError, match=r"charset .* is not read here; send the form in UTF-8"):
        asyncio.run(_parsed(f'; charset="{charset}"'))
    assert asyncio.run(_parsed("; charset=UTF-8")) == asyncio.run(_parsed("")) == [("q", "a.txt")]


def test_names_of_files_are_as_long_as_file_systems_have_them() -> None:
    assert asyncio.run(_parsed("", "ä" * 127)) == [("q", "ä" * 127)]
    with pytest.raises(HTTPError, match="q: the name of the file has 256 bytes"):
        asyncio.run(_parsed("", "ä" * 128))
