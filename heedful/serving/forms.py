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

from heedful.serving.refusal import wrong

KIND: Final = "multipart/form-data"
_ENCODINGS: Final = frozenset(("utf-8", "ascii"))
"""Encodings of names and texts; some others of Python's take time that grows with the square of a text, or fail."""
_LONGEST: Final = 255
"""Bytes of the name of a file, as file systems have it."""


@asynccontextmanager
async def multipart(request: Request, *, files: int, fields: int) -> AsyncIterator[FormData]:
    """The fields and files of a form, while the block runs.

    Args:
        request: that has one.
        files: of the form, at most.
        fields: likewise.

    Raises:
        Refusal: it is damaged, has more than that, or is in another encoding than UTF-8.
    """
    _require_encoding(request.headers.get("content-type", ""))
    try:
        async with request.form(max_files=files, max_fields=fields) as form:
            for name, value in form.multi_items():
                if not isinstance(value, str):
                    _require_name(name, value.filename or "")
            yield form
    except MultiPartException as error:
        raise wrong(f"the form: {error.message}") from None


def _require_encoding(kind: str) -> None:
    header = Message()
    header["content-type"] = kind
    given = header.get_param("charset", "utf-8")
    encoding = given if isinstance(given, str) else "of several parts"
    try:
        known = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        known = ""
    if known not in _ENCODINGS:
        raise wrong(f"Content-Type: charset {encoding[:40]!r} is not read here; send the form in UTF-8")


def _require_name(field: str, name: str) -> None:
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > _LONGEST:
        raise wrong(f"{field}: the name of the file has {size:,} bytes; give it {_LONGEST} at most", param=field)
