"""Forms with files, as multipart/form-data has them."""

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
"""Encodings of names and texts; some others of Python's take time that grows with the square of a text, or fail."""
_MAX_NAME_BYTES: Final = 255
"""Bytes of the name of a file, as file systems have it."""


@asynccontextmanager
async def open_form(request: Request, *, max_files: int, max_fields: int) -> AsyncIterator[FormData]:
    """The fields and files of a form, while the block runs.

    Args:
        request: that has one.
        max_files: of the form, at most.
        max_fields: likewise.

    Raises:
        Refusal: it is damaged, has more than that, or is in another encoding than UTF-8.
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
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > _MAX_NAME_BYTES:
        raise bad_request(
            f"{field}: the name of the file has {size:,} bytes; give it {_MAX_NAME_BYTES} at most", param=field
        )
