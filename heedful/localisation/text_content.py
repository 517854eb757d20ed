"""Decoding of text files and encoding with the same encoding, so that unchanged text gives the same bytes."""

from __future__ import annotations

import codecs
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from heedful.errors import DataError

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE_MARKUP: Final = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
"""First bytes of markup without a byte order mark in which each letter has two bytes."""
_GZIP: Final = b"\x1f\x8b"
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
    """Read all bytes of a file, unpacked if it is gzipped.

    Raises:
        DataError: it is missing, empty, damaged, or cannot be read.
    """
    if not path.exists():
        raise DataError(f"{path}: there is no such file; check the path")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder where a file is needed; name a file in it")
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(_GZIP) else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip file ({error}); fetch or compress it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the path and its rights") from None
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
