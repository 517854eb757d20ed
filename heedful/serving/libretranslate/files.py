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
from heedful.localisation.documents import TranslatableDocument
from heedful.localisation.files import DOCUMENT_SUFFIXES, read_document
from heedful.localisation.placeholders import to_plain_text
from heedful.localisation.text_content import TextContent, decode_text, read_file_bytes
from heedful.serving.http_errors import bad_request, not_found
from heedful.serving.libretranslate.messages import UploadedFile
from heedful.serving.libretranslate.texts import TextJob
from heedful.tasks.translation.document_translation import translate_document
from heedful.tasks.translation.markup_translation import MarkupTranslator

_TEXT_SUFFIX: Final = ".txt"
MULTILINGUAL_SUFFIX: Final = ".tmx"
"""How the names of files end that hold many languages."""
FORMATS: Final = tuple(sorted((*DOCUMENT_SUFFIXES, _TEXT_SUFFIX)))
"""How the names of files end that are translated."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_MAX_UNPACK_RATIO: Final = 5
"""How many times as large an office document may be when it is unpacked."""
_MEMORY_FACTORS: Final = {".html": 200, ".htm": 200, ".xhtml": 200, ".po": 120, ".pot": 120, ".docx": 50, ".docm": 50}
"""Bytes of memory for each byte of a file, unpacked, that are needed to read it and to write it anew: measured with
files that have little text and many units."""
_DEFAULT_MEMORY_FACTOR: Final = 80
"""The same of other formats."""
_DETECTION_CHARACTERS: Final = 20_000
"""Letters of a file that say which language it is in."""


class TranslatableFile(ABC):
    """What a file holds.

    Abstract.
    """

    @abstractmethod
    def sample_text(self) -> str:
        """Some text, to tell the language by."""

    @abstractmethod
    def translate(self, job: TextJob) -> bytes:
        """The file in another language."""


@final
@dataclass(frozen=True)
class _PlainTextFile(TranslatableFile):
    """Nothing but text, which is translated as if it had come without a file."""

    content: TextContent
    path: Path

    def sample_text(self) -> str:
        """Its first letters."""
        return self.content.text[:_DETECTION_CHARACTERS]

    def translate(self, job: TextJob) -> bytes:
        """In the encoding that it had."""
        return self.content.encode(job.translate_plain([self.content.text])[0][0], path=self.path)


@final
@dataclass(frozen=True)
class _DocumentFile(TranslatableFile):
    """Units, which are translated as `heedful translate` does."""

    document: TranslatableDocument

    def sample_text(self) -> str:
        """The first of them."""
        texts, num_characters = list[str](), 0
        for unit in self.document:
            if num_characters >= _DETECTION_CHARACTERS:
                break
            if unit.translatable:
                texts.append(to_plain_text(unit.source))
                num_characters += len(texts[-1])
        return "\n".join(texts)[:_DETECTION_CHARACTERS]

    def translate(self, job: TextJob) -> bytes:
        """With its gaps filled."""
        return translate_document(
            self.document, MarkupTranslator(job.directed_model.translator, job.translate_sentences)
        ).content


def check_suffix(upload: UploadedFile) -> str:
    """How the name of a file ends; `HTTPError` where that is no format, or the file is packed."""
    suffix = Path(upload.name).suffix.lower()
    if suffix not in FORMATS:
        raise bad_request(
            f"file: {upload.name[:80]!r} is none of {', '.join(FORMATS)}; convert it to one of these", param="file"
        )
    if upload.content.startswith(_GZIP_MAGIC):
        raise bad_request("file: is gzipped; send it unpacked", param="file")
    return suffix


def check_size(upload: UploadedFile, *, max_bytes: int) -> None:
    """`HTTPError` where a file has more bytes than `max_bytes`, or would have by far, were it unpacked."""
    size = len(upload.content)
    if size > max_bytes:
        raise bad_request(f"file: has {size:,} bytes, and {max_bytes:,} are the most; send it in parts", param="file")
    unpacked = _unpacked_size(upload.content)
    if unpacked > _MAX_UNPACK_RATIO * max_bytes:
        raise bad_request(
            f"file: unpacks to {unpacked:,} bytes, and {_MAX_UNPACK_RATIO * max_bytes:,} are the most; send it in parts",
            param="file",
        )


def estimate_memory(upload: UploadedFile, suffix: str) -> int:
    """Estimate the bytes of memory that it takes to read a file and to write it anew, at most."""
    size = max(len(upload.content), _unpacked_size(upload.content))
    return len(upload.content) + _MEMORY_FACTORS.get(suffix, _DEFAULT_MEMORY_FACTOR) * size


def _unpacked_size(content: bytes) -> int:
    """Bytes of all that an office document holds; none of what is no zip, which its reader refuses."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            return sum(member.file_size for member in file.infolist())
    except (zipfile.BadZipFile, ValueError, EOFError, struct.error, NotImplementedError):
        return 0


@contextmanager
def save_upload(upload: UploadedFile) -> Iterator[Path]:
    """A file in a folder of its own while the block runs; errors call it by the name that it came with."""
    with tempfile.TemporaryDirectory(prefix="heedful-") as folder:
        path = Path(folder) / f"file{check_suffix(upload)}"
        path.write_bytes(upload.content)
        try:
            yield path
        except DataError as error:
            message = str(error).replace(str(path), upload.name[:80])
            raise bad_request(f"file: {message}", param="file") from None


def open_translatable(path: Path, *, source: str | None, target: str) -> TranslatableFile:
    """What is in a file.

    Args:
        path: of the file.
        source: its language, which one that holds many needs.
        target: the one that it is to be in, likewise.

    Raises:
        DataError: it is damaged, or of another format than its name says.
    """
    if path.suffix == _TEXT_SUFFIX:
        return _PlainTextFile(decode_text(read_file_bytes(path), path=path), path)
    return _DocumentFile(read_document(path, source=source, target=target))


@final
@dataclass(frozen=True)
class StoredFile:
    """A translated file that waits.

    Attributes:
        name: under which it is saved.
        content: all of it.
    """

    name: str
    content: bytes

    @property
    def content_disposition(self) -> str:
        """The header that says so, in letters that every client reads, and in all."""
        simple = re.sub(r"[^A-Za-z0-9._-]", "_", self.name)
        return f"attachment; filename=\"{simple}\"; filename*=UTF-8''{quote(self.name, safe='')}"


@final
class TranslatedFileStore:
    """Where translated files wait to be fetched, in memory, under names that nobody guesses.

    Args:
        max_bytes: bytes of all together; the oldest go where there are more, but for the newest.
        max_files: how many there are at one time, likewise.
        seconds: after which one is gone.
    """

    def __init__(self, *, max_bytes: int, max_files: int = 100, seconds: float = 600.0) -> None:
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._seconds = seconds
        self._files: dict[str, StoredFile] = {}

    def __len__(self) -> int:
        return len(self._files)

    def add_file(self, stored_file: StoredFile) -> str:
        """The name under which it waits."""
        name = secrets.token_urlsafe(24) + Path(stored_file.name).suffix
        self._files[name] = stored_file
        while len(self._files) > 1 and (len(self._files) > self._max_files or self._total_bytes > self._max_bytes):
            del self._files[next(iter(self._files))]
        asyncio.get_running_loop().call_later(self._seconds, self._files.pop, name, None)
        return name

    def get_file(self, name: str) -> StoredFile:
        """What waits under a name; `HTTPError` where nothing does."""
        if name not in self._files:
            minutes = self._seconds / 60
            raise not_found(f"no file waits here; files are kept for {minutes:g} minutes, so translate it again")
        return self._files[name]

    @property
    def _total_bytes(self) -> int:
        return sum(len(stored_file.content) for stored_file in self._files.values())
