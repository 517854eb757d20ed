"""Decode pictures, sounds and clips that are sent as form files or in base64; names in requests are never opened as
files.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.requests import Request

from heedful.data import pictures
from heedful.data import sound as sounds
from heedful.data.pictures import Picture, decode_picture, read_pixel_count
from heedful.data.sound import Frontend, Sound
from heedful.errors import DataError, MissingExtraError
from heedful.serving.api.handlers import FILE_FIELDS, MAX_FRAMES, FileContent, InspectHTTPRequest
from heedful.serving.http_errors import HTTPError, bad_request
from heedful.serving.request_body import open_form, parse_json, read_json
from heedful.serving.routes import RequestContext

_TEXT_FIELDS: Final = frozenset({"model", "search", "text", "pair", "to", "format", *FILE_FIELDS})
"""Form fields that are texts; the others are parsed as JSON."""
_MAX_PIXELS: Final = 2**24
"""Maximum pixels of a picture; a small file may claim any number."""
_MAX_TOTAL_PIXELS: Final = 2**28
"""Maximum pixels of all frames that are sent as pictures."""
_ZIP_MAGIC: Final = b"PK\x03\x04"


async def read_upload_fields(request: Request) -> Mapping[str, Any]:
    """Read the fields of a request from its multipart form, whose files become bytes, or its JSON body; raise an
    `HTTPError` if the body is neither.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        return await read_json(request)
    async with open_form(request, max_files=MAX_FRAMES, max_fields=32 + MAX_FRAMES) as form:
        fields: dict[str, Any] = {}
        for name, value in form.multi_items():
            content = await value.read() if isinstance(value, UploadFile) else _parse_field(name, value)
            fields[name] = [*fields.get(name, []), content] if name == "frames" else content
        return fields


def _parse_field(name: str, text: str) -> Any:
    """Parse the text of a form field as JSON; return it unchanged if the field of this name is a text field, or if it
    is not valid JSON.
    """
    if name in _TEXT_FIELDS:
        return text
    try:
        return parse_json(text, name=name)
    except HTTPError:  # a value that is not JSON is a text, which the field may allow
        return text


def find_file_field(message: BaseModel, *names: str) -> str:
    """Return the one of the fields `names` that holds the file of a message. Raise an `HTTPError` if the message has no
    file or several, or has it in another field.
    """
    present = [name for name in FILE_FIELDS if getattr(message, name, None) is not None]
    if len(present) != 1 or present[0] not in names:
        expected = " or ".join(names)
        raise bad_request(
            f"{', '.join(present) or expected}: this model takes {expected}; give exactly one", param=names[0]
        )
    return present[0]


def find_inspected_field(message: InspectHTTPRequest, *names: str) -> str:
    """Return the one of these fields that holds the file to inspect; raise an `HTTPError` unless the message has
    exactly one file, in one of them, or if there is also a text or a number of tokens.
    """
    if message.text:
        raise bad_request("text: this model reads none; leave it out", param="text")
    if message.tokens is not None:
        raise bad_request("tokens: is for models that continue texts; leave it out", param="tokens")
    return find_file_field(message, *names)


def decode_content(file_content: FileContent, *, name: str, max_bytes: int) -> bytes:
    """Return the bytes of a sent file; raise an `HTTPError`, which names the request field `name`, if they are more
    than `max_bytes` or not valid base64.
    """
    content = file_content
    if isinstance(content, str):
        prefix, comma, encoded = content.partition(",")
        try:
            content = base64.b64decode(encoded if comma and prefix.startswith("data:") else content, validate=True)
        except (binascii.Error, ValueError):
            message = f"{name}: is not base64; send the bytes of a file as base64, or as multipart/form-data"
            raise bad_request(message, param=name) from None
    if len(content) > max_bytes:
        raise bad_request(f"{name}: {len(content):,} bytes; this server takes at most {max_bytes:,}", param=name)
    return content


@contextmanager
def open_picture(image: FileContent, context: RequestContext) -> Iterator[Picture]:
    """Decode the picture that a message holds in `image`, holding its memory during the block; raise an `HTTPError` if
    it is too large, or if there is no memory for it until the deadline of the request.
    """
    content = BytesIO(decode_content(image, name="image", max_bytes=context.limits.file))
    size = pictures.estimate_picture_memory(read_pixel_count(content, name="image", max_pixels=_MAX_PIXELS))
    content.seek(0)
    with context.registry.decoding_memory.reserve(size, context.deadline, name="image"):
        yield decode_picture(content, name="image", max_pixels=_MAX_PIXELS)


@contextmanager
def open_sound(
    file_content: FileContent, context: RequestContext, *, frontend: Frontend, max_seconds: float, name: str
) -> Iterator[Sound]:
    """Decode the sound of a message, holding its memory during the block.

    Args:
        file_content: the file.
        context: of the request.
        frontend: of the model that reads it.
        max_seconds: seconds that are decoded at most.
        name: of the field, for messages.
    """
    content = BytesIO(decode_content(file_content, name=name, max_bytes=context.limits.file))
    try:
        size = frontend.estimate_memory(content, name=name, max_seconds=max_seconds)
        with context.registry.decoding_memory.reserve(size, context.deadline, name=name) as reservation:
            sound = frontend.decode(content, name=name, max_seconds=max_seconds)
            num_bytes, resampled = 4 * len(sound.samples), sound.rate != frontend.rate
            reservation.reduce(
                num_bytes + (sounds.estimate_resampling_memory(len(sound.samples)) if resampled else num_bytes)
            )
            yield sound
    except MissingExtraError:
        message = f"{name}: is not a WAV of whole numbers, and this server reads no other sound; convert it"
        raise bad_request(message, param=name) from None


@contextmanager
def open_clip(
    file_content: FileContent | list[FileContent],
    context: RequestContext,
    *,
    name: str,
    estimate_memory: Callable[[Path], int],
) -> Iterator[Path]:
    """Store a clip in a temporary folder during the block, as a file or as a folder of frames; errors call it by
    `name`.

    Args:
        file_content: the file, or a list of pictures.
        context: of the request.
        name: of the field.
        estimate_memory: returns the bytes of memory that reading a file takes.
    """
    with TemporaryDirectory(prefix="heedful-") as folder:
        path = Path(folder) / name
        try:
            path, size = _save_clip(file_content, Path(folder), name=name, bytes_left=context.limits.file)
            size = estimate_memory(path) if path.is_file() else size
            with context.registry.decoding_memory.reserve(size, context.deadline, name=name):
                yield path
        except DataError as error:
            raise bad_request(str(error).replace(str(path), name), param=name) from None
        except MissingExtraError:
            raise bad_request(f"{name}: this server decodes no videos; send frames as pictures", param=name) from None


def _save_clip(
    file_content: FileContent | list[FileContent], folder: Path, *, name: str, bytes_left: int
) -> tuple[Path, int]:
    """Save a clip, which is a file or a list of pictures of at most `bytes_left` bytes, in a folder; return its path
    and the bytes of memory for decoding its largest picture (0 for a file). Errors call the clip by `name`.
    """
    if not isinstance(file_content, list):
        content = decode_content(file_content, name=name, max_bytes=bytes_left)
        path = folder / ("clip.npz" if content.startswith(_ZIP_MAGIC) else "clip")
        path.write_bytes(content)
        return path, 0
    path, pixels_left, largest = folder / "frames", _MAX_TOTAL_PIXELS, 0
    path.mkdir()
    for number, frame in enumerate(file_content, 1):
        content = decode_content(frame, name=f"{name}.{number}", max_bytes=bytes_left)
        bytes_left -= len(content)
        num_pixels = read_pixel_count(
            BytesIO(content), name=f"{name}.{number}", max_pixels=min(pixels_left, _MAX_PIXELS)
        )
        pixels_left, largest = pixels_left - num_pixels, max(largest, num_pixels)
        (path / f"{number}.png").write_bytes(content)  # of any kind: the file itself declares it
    return path, pictures.estimate_picture_memory(largest)
