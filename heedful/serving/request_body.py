"""Read the bodies of requests, as JSON or multipart/form-data, within limits."""

from __future__ import annotations

import codecs
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.message import Message
from typing import Any, Final

from python_multipart.exceptions import FormParserError
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from heedful.serving.http_errors import HTTPError, bad_request

_MAX_DEPTH: Final = 32
"""Maximum nesting of lists and objects; no message of the server needs more than five."""
_MAX_VALUES: Final = 1_000_000
"""Maximum number of commas and opening brackets; each value takes about 64 bytes of memory, and two exist in a
request."""
_MAX_DIGITS: Final = 1_000
"""Maximum digits of a number, since parsing one takes quadratic time."""
_ENCODINGS: Final = frozenset(("utf-8", "ascii"))
"""Accepted encodings of names and texts; some other codecs of Python take quadratic time or fail."""
_MAX_NAME_BYTES: Final = 255
"""Maximum bytes of a file name, as in file systems."""


async def read_json(request: Request) -> Mapping[str, Any]:
    """Return the JSON object in the body of a request, or raise an `HTTPError`."""
    return parse_json_object(await read_body(request))


def parse_json_object(body: bytes) -> Mapping[str, Any]:
    """Parse a body as a JSON object, or raise an `HTTPError`."""
    parsed = parse_json(body, name="the body of the request")
    if not isinstance(parsed, dict):
        raise bad_request("the body of the request is not a JSON object; send one")
    return parsed


async def read_body(request: Request) -> bytes:
    """Read the whole body once, without Starlette's cached copy."""
    return b"".join([chunk async for chunk in request.stream()])


def parse_json(content: bytes | str, *, name: str) -> Any:
    """Parse JSON, and check its depth, its number of values and its texts.

    Texts contain no lone surrogates. The range of a number is checked by the field that receives it, so that
    pydantic's message names the field.

    Args:
        content: text, or bytes in UTF-8 (RFC 8259, section 8.1).
        name: of the JSON, for messages.

    Raises:
        HTTPError: it is not JSON, or exceeds a limit.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise bad_request(f"{name} is not UTF-8; encode it as UTF-8") from None
    if text.count(",") + text.count("[") + text.count("{") > _MAX_VALUES:
        raise bad_request(f"{name} has more than {_MAX_VALUES:,} values; send fewer at a time")

    def parse_integer(digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise bad_request(f"{name} has a number of {len(digits):,} digits; send {_MAX_DIGITS:,} at most")
        return int(digits)

    try:
        value = json.loads(text, parse_int=parse_integer)
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError:
        raise bad_request(f"{name} is not JSON; send an object") from None
    _require_max_depth(value, name)
    if "\\u" in text:
        _require_encodable(value, name)
    return value


def _require_max_depth(value: Any, name: str) -> None:
    """Raise an `HTTPError` if lists and objects of a parsed JSON value are nested too deeply; the error calls the JSON
    by `name`.
    """
    level, depth = [value], 0
    while level:
        depth += 1
        children = (
            child.values() if isinstance(child, dict) else child for child in level if isinstance(child, dict | list)
        )
        level = [child for group in children for child in group if isinstance(child, dict | list)]
        if depth > _MAX_DEPTH:
            raise _too_deep(name)


def _require_encodable(value: Any, name: str) -> None:
    """Raise an `HTTPError` if a text in a parsed JSON value contains a lone surrogate, which JSON escapes can write but
    UTF-8 cannot; the error calls the JSON by `name`.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise bad_request(f"{name} holds half a character, as \\ud800 is; send whole ones") from None


def _too_deep(name: str) -> HTTPError:
    return bad_request(f"{name} has more than {_MAX_DEPTH} levels of lists and objects; send fewer levels")


@asynccontextmanager
async def open_form(request: Request, *, max_files: int, max_fields: int) -> AsyncIterator[FormData]:
    """Parse the multipart form of a request, for use while the block runs.

    Args:
        request: with the form.
        max_files: files that it may have.
        max_fields: other fields that it may have.

    Raises:
        HTTPError: the form is damaged, has too many parts, or is not encoded in UTF-8.
    """
    _require_utf8(request.headers.get("content-type", ""))
    try:
        async with request.form(max_files=max_files, max_fields=max_fields) as form:
            for name, value in form.multi_items():
                if not isinstance(value, str):
                    _require_short_name(name, value.filename or "")
            yield form
    except MultiPartException as error:
        raise bad_request(f"the form: {error.message}") from None
    except FormParserError:  # not every version of starlette turns it into the other error
        raise bad_request("the form: Invalid multipart data.") from None


def _require_utf8(content_type: str) -> None:
    """Raise an `HTTPError` if the content type names an encoding other than UTF-8 or ASCII."""
    header = Message()
    header["content-type"] = content_type
    charset = header.get_param("charset", "utf-8")
    encoding = charset if isinstance(charset, str) else "of several parts"
    try:
        codec_name = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        codec_name = ""
    if codec_name not in _ENCODINGS:
        raise bad_request(f"Content-Type: charset {encoding[:40]!r} is not read here; send the form in UTF-8")


def _require_short_name(field: str, name: str) -> None:
    """Raise an `HTTPError`, which names the form field, if the name of its uploaded file is too long."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > _MAX_NAME_BYTES:
        raise bad_request(
            f"{field}: the name of the file has {size:,} bytes; give it {_MAX_NAME_BYTES} at most", param=field
        )
