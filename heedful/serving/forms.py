"""Parse multipart/form-data requests with files."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import Message
from typing import Final

from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from heedful.serving.http_errors import bad_request

MULTIPART_TYPE: Final = "multipart/form-data"
_ENCODINGS: Final = frozenset(("utf-8", "ascii"))
"""Accepted encodings of names and texts; some other codecs of Python take quadratic time or fail."""
_MAX_NAME_BYTES: Final = 255
"""Maximum bytes of a file name, as in file systems."""


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
    """Raise an `HTTPError` if the name of an uploaded file is too long."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > _MAX_NAME_BYTES:
        raise bad_request(
            f"{field}: the name of the file has {size:,} bytes; give it {_MAX_NAME_BYTES} at most", param=field
        )
