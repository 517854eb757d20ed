"""Files that are translated as they are, and kept for some minutes for whoever knows where."""

from __future__ import annotations

import asyncio
import io
import re
import secrets
import struct
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final
from urllib.parse import quote

from heedful.errors import DataError
from heedful.localisation.documents import Document
from heedful.localisation.encodings import Content, decoded, read_bytes
from heedful.localisation.files import ENDINGS, read_document
from heedful.localisation.placeholders import plain
from heedful.serving.libretranslate.messages import Upload
from heedful.serving.libretranslate.texts import Order
from heedful.serving.refusal import missing, wrong
from heedful.tasks.translation.filling import fill
from heedful.tasks.translation.protecting import Protecting

_PLAIN: Final = ".txt"
MANY: Final = ".tmx"
"""How the names of files end that hold many languages."""
FORMATS: Final = tuple(sorted((*ENDINGS, _PLAIN)))
"""How the names of files end that are translated."""
_GZIP: Final = b"\x1f\x8b"
_GROWTH: Final = 5
"""How many times as large an office document may be when it is unpacked."""
_MEMORY: Final = {".html": 200, ".htm": 200, ".xhtml": 200, ".po": 120, ".pot": 120, ".docx": 50, ".docm": 50}
"""Bytes of memory for each byte of a file, unpacked, that are needed to read it and to write it anew: measured with
files that have little text and many units."""
_USUAL_MEMORY: Final = 80
"""The same of other formats."""
_TELLING: Final = 20_000
"""Letters of a file that say which language it is in."""


class Translatable(ABC):
    """What a file holds.

    Abstract.
    """

    @abstractmethod
    def beginning(self) -> str:
        """Some text, to tell the language by."""

    @abstractmethod
    def translated(self, order: Order) -> bytes:
        """The file in another language."""


@final
@dataclass(frozen=True)
class _Text(Translatable):
    """Nothing but text, which is translated as if it had come without a file."""

    content: Content
    path: Path

    def beginning(self) -> str:
        """Its first letters."""
        return self.content.text[:_TELLING]

    def translated(self, order: Order) -> bytes:
        """In the encoding that it had."""
        return self.content.encoded(order.plain([self.content.text])[0][0], path=self.path)


@final
@dataclass(frozen=True)
class _Document(Translatable):
    """Units, which are translated as `heedful translate` does."""

    document: Document

    def beginning(self) -> str:
        """The first of them."""
        found, size = list[str](), 0
        for unit in self.document:
            if size >= _TELLING:
                break
            if unit.translatable:
                found.append(plain(unit.source))
                size += len(found[-1])
        return "\n".join(found)[:_TELLING]

    def translated(self, order: Order) -> bytes:
        """With its gaps filled."""
        return fill(self.document, Protecting(order.interpreter.translator, order.translations)).content


def suffix_of(upload: Upload) -> str:
    """How the name of a file ends; `Refusal` where that is no format, or the file is packed."""
    suffix = Path(upload.name).suffix.lower()
    if suffix not in FORMATS:
        raise wrong(
            f"file: {upload.name[:80]!r} is none of {', '.join(FORMATS)}; convert it to one of these", param="file"
        )
    if upload.content.startswith(_GZIP):
        raise wrong("file: is gzipped; send it unpacked", param="file")
    return suffix


def check_size(upload: Upload, *, most: int) -> None:
    """`Refusal` where a file has more bytes than `most`, or would have by far, were it unpacked."""
    size = len(upload.content)
    if size > most:
        raise wrong(f"file: has {size:,} bytes, and {most:,} are the most; send it in parts", param="file")
    unpacked = _unpacked(upload.content)
    if unpacked > _GROWTH * most:
        raise wrong(
            f"file: unpacks to {unpacked:,} bytes, and {_GROWTH * most:,} are the most; send it in parts", param="file"
        )


def decoding_memory(upload: Upload, suffix: str) -> int:
    """Estimate the bytes of memory that it takes to read a file and to write it anew, at most."""
    size = max(len(upload.content), _unpacked(upload.content))
    return len(upload.content) + _MEMORY.get(suffix, _USUAL_MEMORY) * size


def _unpacked(content: bytes) -> int:
    """Bytes of all that an office document holds; none of what is no zip, which its reader refuses."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            return sum(member.file_size for member in file.infolist())
    except (zipfile.BadZipFile, ValueError, EOFError, struct.error, NotImplementedError):
        return 0


@contextmanager
def placed(upload: Upload) -> Iterator[Path]:
    """A file in a folder of its own while the block runs; errors call it by the name that it came with."""
    with tempfile.TemporaryDirectory(prefix="heedful-") as folder:
        path = Path(folder) / f"file{suffix_of(upload)}"
        path.write_bytes(upload.content)
        try:
            yield path
        except DataError as error:
            told = str(error).replace(str(path), upload.name[:80])
            raise wrong(f"file: {told}", param="file") from None


def opened(path: Path, *, source: str | None, target: str) -> Translatable:
    """What is in a file.

    Args:
        path: of the file.
        source: its language, which one that holds many needs.
        target: the one that it is to be in, likewise.

    Raises:
        DataError: it is damaged, or of another format than its name says.
    """
    if path.suffix == _PLAIN:
        return _Text(decoded(read_bytes(path), path=path), path)
    return _Document(read_document(path, source=source, target=target))


@final
@dataclass(frozen=True)
class Kept:
    """A translated file that waits.

    Attributes:
        name: under which it is saved.
        content: all of it.
    """

    name: str
    content: bytes

    @property
    def disposition(self) -> str:
        """The header that says so, in letters that every client reads, and in all."""
        simple = re.sub(r"[^A-Za-z0-9._-]", "_", self.name)
        return f"attachment; filename=\"{simple}\"; filename*=UTF-8''{quote(self.name, safe='')}"


@final
class Shelf:
    """Where translated files wait to be fetched, in memory, under names that nobody guesses.

    Args:
        size: bytes of all together; the oldest go where there are more, but for the newest.
        most: how many there are at one time, likewise.
        seconds: after which one is gone.
    """

    def __init__(self, *, size: int, most: int = 100, seconds: float = 600.0) -> None:
        self._size = size
        self._most = most
        self._seconds = seconds
        self._kept: dict[str, Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, kept: Kept) -> str:
        """The name under which it waits."""
        name = secrets.token_urlsafe(24) + Path(kept.name).suffix
        self._kept[name] = kept
        while len(self._kept) > 1 and (len(self._kept) > self._most or self._bytes > self._size):
            del self._kept[next(iter(self._kept))]
        asyncio.get_running_loop().call_later(self._seconds, self._kept.pop, name, None)
        return name

    def get(self, name: str) -> Kept:
        """What waits under a name; `Refusal` where nothing does."""
        if name not in self._kept:
            minutes = self._seconds / 60
            raise missing(f"no file waits here; files are kept for {minutes:g} minutes, so translate it again")
        return self._kept[name]

    @property
    def _bytes(self) -> int:
        return sum(len(each.content) for each in self._kept.values())
