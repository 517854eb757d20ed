"""Pictures, sounds and clips that are sent: as files of a form, or in base 64; what anybody names is never opened."""

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
from heedful.data.sound import Sound, decode_sound
from heedful.errors import DataError, MissingExtraError
from heedful.serving.api.requests import FILE_FIELDS, MAX_FRAMES, FileContent, InspectHTTPRequest
from heedful.serving.forms import open_form
from heedful.serving.http_errors import HTTPError, bad_request
from heedful.serving.json_input import parse_json
from heedful.serving.routes import RequestContext, read_json

_TEXT_FIELDS: Final = frozenset({"model", "search", "text", "pair", "to", "format", *FILE_FIELDS})
"""Fields of forms that are text; others stand there as in JSON."""
_MAX_PIXELS: Final = 2**24
"""Of a picture; a small file may claim any number."""
_MAX_TOTAL_PIXELS: Final = 2**28
"""Of all frames that are sent as pictures."""
_ZIP_MAGIC: Final = b"PK\x03\x04"


async def read_upload_fields(request: Request) -> Mapping[str, Any]:
    """The fields of a form with files, or the JSON of a body; `HTTPError` where it is neither."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        return await read_json(request)
    async with open_form(request, max_files=MAX_FRAMES, max_fields=32 + MAX_FRAMES) as form:
        fields: dict[str, Any] = {}
        for name, value in form.multi_items():
            content = await value.read() if isinstance(value, UploadFile) else _parse_field(name, value)
            fields[name] = [*fields.get(name, []), content] if name == "frames" else content
        return fields


def _parse_field(name: str, text: str) -> Any:
    if name in _TEXT_FIELDS:
        return text
    try:
        return parse_json(text, name=name)
    except HTTPError:  # what is no JSON is a text, which the field may be
        return text


def find_file_field(message: BaseModel, *names: str) -> str:
    """Under which of these names a message has what a model is to perceive; `HTTPError` unless there is that alone."""
    present = [name for name in FILE_FIELDS if getattr(message, name, None) is not None]
    if len(present) != 1 or present[0] not in names:
        expected = " or ".join(names)
        raise bad_request(
            f"{', '.join(present) or expected}: what this model takes is {expected}; give one, alone", param=names[0]
        )
    return present[0]


def find_inspected_field(message: InspectHTTPRequest, *names: str) -> str:
    """`find_file_field`, of a model that is looked at and that reads no text beside it."""
    if message.text:
        raise bad_request("text: this model reads none; leave it out", param="text")
    if message.tokens is not None:
        raise bad_request("tokens: belongs to models that go on with texts; leave it out", param="tokens")
    return find_file_field(message, *names)


def decode_content(file_content: FileContent, *, name: str, max_bytes: int) -> bytes:
    """The bytes of a file, which are at most so many; `HTTPError` where they are more, or no base 64."""
    content = file_content
    if isinstance(content, str):
        prefix, comma, encoded = content.partition(",")
        try:
            content = base64.b64decode(encoded if comma and prefix.startswith("data:") else content, validate=True)
        except (binascii.Error, ValueError):
            message = f"{name}: is no base 64; send a file's bytes so, or as multipart/form-data"
            raise bad_request(message, param=name) from None
    if len(content) > max_bytes:
        raise bad_request(f"{name}: {len(content):,} bytes; this server takes at most {max_bytes:,}", param=name)
    return content


@contextmanager
def open_picture(image: FileContent, context: RequestContext) -> Iterator[Picture]:
    """The picture of a message, for whose memory there is room while the block runs; `HTTPError` where there is none."""
    content = BytesIO(decode_content(image, name="image", max_bytes=context.registry.settings.limits.file))
    size = pictures.estimate_picture_memory(read_pixel_count(content, name="image", max_pixels=_MAX_PIXELS))
    content.seek(0)
    with context.registry.decoding_memory.reserve(size, context.deadline, name="image"):
        yield decode_picture(content, name="image", max_pixels=_MAX_PIXELS)


@contextmanager
def open_sound(
    file_content: FileContent, context: RequestContext, *, max_seconds: float, rate: int, name: str
) -> Iterator[Sound]:
    """The sound of a message, likewise, of at most this many seconds.

    Args:
        file_content: the file.
        context: the request.
        max_seconds: that are decoded.
        rate: samples a second that the model reads.
        name: of the sound, for messages.
    """
    content = BytesIO(decode_content(file_content, name=name, max_bytes=context.registry.settings.limits.file))
    try:
        size = sounds.estimate_sound_memory(content, name=name, max_seconds=max_seconds, target_rate=rate)
        with context.registry.decoding_memory.reserve(size, context.deadline, name=name) as reservation:
            sound = decode_sound(content, name=name, max_seconds=max_seconds)
            num_bytes = 4 * len(sound.samples)
            reservation.reduce(
                num_bytes + (sounds.estimate_resampling_memory(len(sound.samples)) if sound.rate != rate else num_bytes)
            )
            yield sound
    except MissingExtraError:
        message = f"{name}: is no WAV of whole numbers, and this server reads no other sound; convert it"
        raise bad_request(message, param=name) from None


@contextmanager
def open_clip(
    file_content: FileContent | list[FileContent],
    context: RequestContext,
    *,
    name: str,
    estimate_memory: Callable[[Path], int],
) -> Iterator[Path]:
    """A clip in a folder of its own while the block runs: a file, or a folder of frames; errors call it by `name`.

    Args:
        file_content: the file, or pictures.
        context: the request.
        name: of the clip, for messages.
        estimate_memory: bytes that it takes to read a file.
    """
    with TemporaryDirectory(prefix="heedful-") as folder:
        path = Path(folder) / name
        try:
            path, size = _save_clip(
                file_content, Path(folder), name=name, bytes_left=context.registry.settings.limits.file
            )
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
    """Where the clip is, and the bytes of memory to decode the largest of its pictures, where it is made of some."""
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
        (path / f"{number}.png").write_bytes(content)  # of whatever kind, which the file itself says
    return path, pictures.estimate_picture_memory(largest)
