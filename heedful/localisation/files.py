"""Recognition of document formats by file name, and reading of documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from heedful.compression import strip_compression_suffix
from heedful.errors import DataError
from heedful.localisation.documents import TranslatableDocument
from heedful.localisation.docx_document import read_docx
from heedful.localisation.html_document import HtmlDocument
from heedful.localisation.odf_document import read_odf
from heedful.localisation.po_document import PoDocument
from heedful.localisation.srt_document import SrtDocument
from heedful.localisation.tmx_document import TmxDocument
from heedful.localisation.xliff_document import XliffDocument

_DOCUMENT_READERS: Final[Mapping[str, Callable[[Path], TranslatableDocument]]] = {
    ".po": PoDocument.from_file,
    ".pot": PoDocument.from_file,
    ".xlf": XliffDocument.from_file,
    ".xliff": XliffDocument.from_file,
    ".srt": SrtDocument.from_file,
    ".html": HtmlDocument.from_file,
    ".htm": HtmlDocument.from_file,
    ".xhtml": HtmlDocument.from_file,
    ".docx": read_docx,
    ".docm": read_docx,
    ".odt": read_odf,
    ".odp": read_odf,
}
BINARY_SUFFIXES: Final = frozenset((".docx", ".docm", ".odt", ".odp"))
"""Suffixes of formats that are not text."""
DOCUMENT_SUFFIXES: Final = frozenset((*_DOCUMENT_READERS, ".tmx"))
"""Suffixes of all document formats."""


def is_document_path(path: Path) -> bool:
    """Return whether a file name has the suffix of a translation document."""
    return path.suffix.lower() in DOCUMENT_SUFFIXES


def same_format(path: Path, other_path: Path) -> bool:
    """Return whether the suffixes of two file names stand for the same format, as `.htm` and `.html` do.

    A markup-free text format may also be called `.txt`, and an XML format `.xml`. Documents with and without macros are
    two formats, because programs do not open one under the suffix of the other.
    """
    suffixes = path.suffix.lower(), other_path.suffix.lower()
    if suffixes[0] == suffixes[1]:
        return True
    if suffixes[1] == ".txt":
        return suffixes[0] in (".po", ".pot", ".srt")
    if suffixes[1] == ".xml":
        return suffixes[0] in (".xlf", ".xliff", ".tmx", ".xhtml")
    readers = [_DOCUMENT_READERS.get(suffix) for suffix in suffixes]
    return readers[0] is not None and readers[0] == readers[1] and not BINARY_SUFFIXES.intersection(suffixes)


def read_document(path: Path, *, source: str | None = None, target: str | None = None) -> TranslatableDocument:
    """Read the document in a file, by its suffix. `source` and `target` are languages, which only a TMX needs.

    Args:
        path: of the file.
        source: source language, which a TMX needs.
        target: target language, likewise.

    Raises:
        DataError: the file is missing or damaged, or has another format.
    """
    suffix = Path(strip_compression_suffix(path.name.lower())).suffix
    if suffix == ".tmx":
        if source is None or target is None:
            raise DataError(f"{path}: a TMX holds many languages; say which: --source-language en --target-language de")
        return TmxDocument.from_file(path, source=source, target=target)
    if suffix not in _DOCUMENT_READERS:
        raise DataError(
            f"{path}: is not one of {', '.join(sorted(DOCUMENT_SUFFIXES))}; give text as lines, with --input"
        )
    return _DOCUMENT_READERS[suffix](path)
