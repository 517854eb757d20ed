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
from heedful.data.pictures import Picture, claimed_pixels, decoded_picture
from heedful.data.sound import Sound, decoded_sound
from heedful.errors import DataError, MissingExtraError
from heedful.serving.forms import multipart
from heedful.serving.jsons import parse_json
from heedful.serving.own.messages import FILES, FRAMES, Inspect, Sent
from heedful.serving.refusal import Refusal, wrong
from heedful.serving.routes import Asked, read_json

_TEXTS: Final = frozenset({"model", "search", "text", "pair", "to", "format", *FILES})
"""Fields of forms that are text; others stand there as in JSON."""
_PIXELS: Final = 2**24
"""Of a picture; a small file may claim any number."""
_ALL_PIXELS: Final = 2**28
"""Of all frames that are sent as pictures."""
_ZIP: Final = b"PK\x03\x04"


async def read_sent(request: Request) -> Mapping[str, Any]:
    """The fields of a form with files, or the JSON of a body; `Refusal` where it is neither."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        return await read_json(request)
    async with multipart(request, files=FRAMES, fields=32 + FRAMES) as form:
        table: dict[str, Any] = {}
        for name, value in form.multi_items():
            given = await value.read() if isinstance(value, UploadFile) else _field(name, value)
            table[name] = [*table.get(name, []), given] if name == "frames" else given
        return table


def _field(name: str, text: str) -> Any:
    if name in _TEXTS:
        return text
    try:
        return parse_json(text, name=name)
    except Refusal:  # what is no JSON is a text, which the field may be
        return text


def sent_as(message: BaseModel, *names: str) -> str:
    """Under which of these names a message has what a model is to perceive; `Refusal` unless there is that alone."""
    given = [name for name in FILES if getattr(message, name, None) is not None]
    if len(given) != 1 or given[0] not in names:
        wanted = " or ".join(names)
        raise wrong(f"{', '.join(given) or wanted}: what this model takes is {wanted}; give one, alone", param=names[0])
    return given[0]


def perceived(message: Inspect, *names: str) -> str:
    """`sent_as`, of a model that is looked at and that reads no text beside it."""
    if message.text:
        raise wrong("text: this model reads none; leave it out", param="text")
    if message.tokens is not None:
        raise wrong("tokens: belongs to models that go on with texts; leave it out", param="tokens")
    return sent_as(message, *names)


def content_of(sent: Sent, *, name: str, most: int) -> bytes:
    """The bytes of a file, which are at most so many; `Refusal` where they are more, or no base 64."""
    content = sent
    if isinstance(content, str):
        head, comma, rest = content.partition(",")
        try:
            content = base64.b64decode(rest if comma and head.startswith("data:") else content, validate=True)
        except (binascii.Error, ValueError):
            message = f"{name}: is no base 64; send a file's bytes so, or as multipart/form-data"
            raise wrong(message, param=name) from None
    if len(content) > most:
        raise wrong(f"{name}: {len(content):,} bytes; this server takes at most {most:,}", param=name)
    return content


@contextmanager
def picture_in(image: Sent, asked: Asked) -> Iterator[Picture]:
    """The picture of a message, for whose memory there is room while the block runs; `Refusal` where there is none."""
    content = BytesIO(content_of(image, name="image", most=asked.house.settings.limits.file))
    size = pictures.decoding_memory(claimed_pixels(content, name="image", largest=_PIXELS))
    content.seek(0)
    with asked.house.decoding.reserve(size, asked.term, name="image"):
        yield decoded_picture(content, name="image", largest=_PIXELS)


@contextmanager
def sound_in(sent: Sent, asked: Asked, *, seconds: float, rate: int, name: str) -> Iterator[Sound]:
    """The sound of a message, likewise, of at most this many seconds.

    Args:
        sent: the file.
        asked: the request.
        seconds: that are decoded.
        rate: samples a second that the model reads.
        name: of the sound, for messages.
    """
    content = BytesIO(content_of(sent, name=name, most=asked.house.settings.limits.file))
    try:
        size = sounds.decoding_memory(content, name=name, longest=seconds, rate=rate)
        with asked.house.decoding.reserve(size, asked.term, name=name) as reservation:
            sound = decoded_sound(content, name=name, longest=seconds)
            held = 4 * len(sound.samples)
            reservation.reduce(held + (sounds.resampling_memory(len(sound.samples)) if sound.rate != rate else held))
            yield sound
    except MissingExtraError:
        message = f"{name}: is no WAV of whole numbers, and this server reads no other sound; convert it"
        raise wrong(message, param=name) from None


@contextmanager
def clip_in(sent: Sent | list[Sent], asked: Asked, *, name: str, memory: Callable[[Path], int]) -> Iterator[Path]:
    """A clip in a folder of its own while the block runs: a file, or a folder of frames; errors call it by `name`.

    Args:
        sent: the file, or pictures.
        asked: the request.
        name: of the clip, for messages.
        memory: bytes that it takes to read a file.
    """
    with TemporaryDirectory(prefix="heedful-") as folder:
        path = Path(folder) / name
        try:
            path, size = _placed(sent, Path(folder), name=name, most=asked.house.settings.limits.file)
            size = memory(path) if path.is_file() else size
            with asked.house.decoding.reserve(size, asked.term, name=name):
                yield path
        except DataError as error:
            raise wrong(str(error).replace(str(path), name), param=name) from None
        except MissingExtraError:
            raise wrong(f"{name}: this server decodes no videos; send frames as pictures", param=name) from None


def _placed(sent: Sent | list[Sent], folder: Path, *, name: str, most: int) -> tuple[Path, int]:
    """Where the clip is, and the bytes of memory to decode the largest of its pictures, where it is made of some."""
    if not isinstance(sent, list):
        content = content_of(sent, name=name, most=most)
        path = folder / ("clip.npz" if content.startswith(_ZIP) else "clip")
        path.write_bytes(content)
        return path, 0
    path, pixels, largest = folder / "frames", _ALL_PIXELS, 0
    path.mkdir()
    for number, each in enumerate(sent, 1):
        content = content_of(each, name=f"{name}.{number}", most=most)
        most -= len(content)
        own = claimed_pixels(BytesIO(content), name=f"{name}.{number}", largest=min(pixels, _PIXELS))
        pixels, largest = pixels - own, max(largest, own)
        (path / f"{number}.png").write_bytes(content)  # of whatever kind, which the file itself says
    return path, pictures.decoding_memory(largest)
