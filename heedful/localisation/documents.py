"""Base classes of translation documents: files of units that are read, and filled without changing any other byte,
in any encoding.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, final

from heedful.compression import read_decompressed
from heedful.errors import DataError
from heedful.localisation.segments import Segment
from heedful.localisation.translation_memory import NO_MATCHES, MemoryMatch

UnitState = Literal["untranslated", "review", "translated"]
"""State of a unit: without a translation; with one that needs review (fuzzy or machine-translated); or finished."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TranslationUnit:
    """A text that is translated as one piece.

    Attributes:
        source: the text to translate.
        target: its translation; None if there is none, or if the format holds one language only.
        state: state of the translation.
        location: `file:line`; in an office document `file:paragraph`.
        name: its name in the file: an id, a context, the number of a subtitle.
        notes: notes for translators.
        translatable: whether the file marks it as translatable.
    """

    source: Segment
    target: Segment | None
    state: UnitState
    location: str
    name: str = ""
    notes: tuple[str, ...] = ()
    translatable: bool = True


@dataclass(frozen=True, order=True, slots=True)
class TextEdit:
    """Replacement of the characters `start` to `stop` of a text by `text`."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True)
class DocumentLanguages:
    """The source and target language of a file, in its own spelling; None if the file does not name one.

    Attributes:
        source: language of the texts.
        target: language of the translations.
    """

    source: str | None = None
    target: str | None = None


class TranslatableDocument(ABC):
    """Abstract base of a file of translation units; it is read once, and filling it returns new bytes and does not
    change it.

    Each format finds its units and defines how they are filled.

    Args:
        path: of the file, for messages.
    """

    keeps_source: bool = True
    """Whether translations stand beside their sources; otherwise they replace them."""

    accelerators: bool = True
    """Whether a sign before a letter may mark this letter as a menu accelerator."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @abstractmethod
    def units(self) -> Sequence[TranslationUnit]:
        """All units in order."""

    def __iter__(self) -> Iterator[TranslationUnit]:
        """Iterate over the units; formats may generate them one by one."""
        return iter(self.units)

    @property
    def languages(self) -> DocumentLanguages:
        """Languages that the file names; none by default."""
        return DocumentLanguages()

    @abstractmethod
    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """Return the bytes of the file with new translations, marked for review if the format supports it. Translations
        and translation memory matches are given by the number of their unit.

        Args:
            targets: translations by the number of the unit, from 0.
            matches: translation memory matches by the number of the unit. Translations that were taken from the memory
                are marked as finished; similar ones are added beside their unit if the format has a place for them.

        Raises:
            DataError: the encoding of the file cannot write a character of the translations.
        """


class TextDocument(TranslatableDocument):
    """Abstract base of a document that is a text file, filled by a few edits of its text.

    Each format finds its units and returns the edits that fill them.

    Args:
        content: of the file.
        path: of the file, for messages.
    """

    def __init__(self, content: TextContent, path: Path) -> None:
        super().__init__(path)
        self.content = content

    def apply_edits(self, edits: Iterable[TextEdit]) -> bytes:
        """Return the bytes of the file after edits that do not overlap; edits at the same position are applied in
        the given order.
        """
        ordered = sorted(edits, key=lambda edit: (edit.start, edit.stop))
        for left, right in pairwise(ordered):
            if left.stop > right.start:
                raise DataError(
                    f"{self.format_location(right.start)}: a translation stands inside another one; "
                    "export the file again"
                )
        parts, position = [], 0
        for edit in ordered:
            parts += [self.content.text[position : edit.start], edit.text]
            position = edit.stop
        return self.content.encode("".join([*parts, self.content.text[position:]]), path=self.path)

    @cached_property
    def _line_ends(self) -> list[int]:
        """Offsets of all line ends."""
        return [match.start() for match in re.finditer("\n", self.content.text)]

    def format_location(self, offset: int) -> str:
        """Return `file:line` of a character offset."""
        return f"{self.path}:{bisect_left(self._line_ends, offset) + 1}"


_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE_MARKUP: Final = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
"""First bytes of markup without a byte order mark in which each letter has two bytes."""
_ENCODING_NAMES: Final = """\
ascii utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be
big5 big5hkscs gb2312 gbk gb18030 hz euc_jp euc_jis_2004 euc_jisx0213 euc_kr johab shift_jis shift_jis_2004
shift_jisx0213 iso2022_jp iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3 iso2022_jp_ext iso2022_kr
koi8-r koi8-t koi8-u kz1048 ptcp154 tis-620 hp-roman8
mac-arabic mac-croatian mac-cyrillic mac-farsi mac-greek mac-iceland mac-latin2 mac-roman mac-romanian mac-turkish"""
_CODE_PAGES: Final = """\
437 720 737 775 850 852 855 856 857 858 860 861 862 863 864 865 866 869 874 932 949 950 1006 1125
1250 1251 1252 1253 1254 1255 1256 1257 1258"""
_DOCUMENT_ENCODINGS: Final = frozenset(
    (
        *_ENCODING_NAMES.split(),
        *(f"cp{page}" for page in _CODE_PAGES.split()),
        *(f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))),
    )
)
"""Supported encodings by Python's names; Python's other codecs (idna, punycode, rot13) are not used for documents."""


@final
@dataclass(frozen=True)
class TextContent:
    """The text of a file with its encoding.

    Attributes:
        text: all of it, without a byte order mark, with its own line ends.
        encoding: Python's name of it.
        mark: the byte order mark, possibly empty.
        escapes: whether characters that the encoding lacks may be written as character references (`&#8364;`).
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    escapes: bool = False

    def encode(self, text: str, *, path: Path) -> bytes:
        """Encode a text as bytes of this file; raise DataError with `path` if the encoding cannot write a character."""
        try:
            return self.mark + text.encode(self.encoding, "xmlcharrefreplace" if self.escapes else "strict")
        except UnicodeEncodeError as error:
            raise DataError(
                f"{path}: its encoding, {self.encoding}, has no {text[error.start]!r}, which a translation needs; "
                "convert the file to UTF-8 (msgconv -t UTF-8 for PO) and try again"
            ) from None


def read_file_bytes(path: Path) -> bytes:
    """Read all bytes of a file, decompressed if it is compressed.

    Raises:
        DataError: it is missing, empty, damaged, or cannot be read.
    """
    if not path.exists():
        raise DataError(f"{path}: there is no such file; check the path")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder where a file is needed; name a file in it")
    data = read_decompressed(path)
    if not data.strip():
        raise DataError(f"{path}: the file is empty; is it the right one?")
    return data


def decode_text(data: bytes, *, path: Path, declared: str | None = None, escapes: bool = False) -> TextContent:
    """Decode bytes by their byte order mark, else by the `declared` encoding, else as UTF-8. `escapes` says whether
    characters that the encoding lacks may be escaped when new text is encoded.

    Raises:
        DataError: the encoding is unknown, or the bytes are not valid in it.
    """
    mark, encoding = detect_byte_order_mark(data)
    encoding = encoding or declared or "utf-8"
    shown_encoding = encoding[:40]
    try:
        encoding = codecs.lookup(encoding).name
    except (LookupError, ValueError):  # the second if the name has an invalid character
        encoding = ""
    if encoding not in _DOCUMENT_ENCODINGS:
        raise DataError(f"{path}: declares the encoding {shown_encoding!r}, which is unknown; convert it to UTF-8")
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: byte 0x{data[len(mark) + error.start]:02x} is not {encoding.upper()}, the encoding that "
            "is declared or assumed; convert the file, or correct the declaration"
        ) from None
    except UnicodeError as error:
        raise DataError(f"{path}: cannot be read as {encoding} ({error}); convert it to UTF-8") from None
    if "\0" in text:
        raise DataError(f"{path}:{text.count(chr(10), 0, text.index(chr(0))) + 1}: a NUL character; convert the file")
    content = TextContent(text, encoding, mark, escapes)
    if content.encode(text, path=path) != data:
        raise DataError(f"{path}: {encoding} has several ways to write its text; convert the file to UTF-8")
    return content


def detect_byte_order_mark(data: bytes) -> tuple[bytes, str | None]:
    """Return the byte order mark of a file's bytes (possibly empty), and the encoding that it or the first letter of
    markup implies; None if neither does.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return mark, encoding
    return b"", next((encoding for start, encoding in _WIDE_MARKUP if data.startswith(start)), None)
