"""Which format a file has, and the document in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from heedful.errors import DataError
from heedful.localisation.documents import Document
from heedful.localisation.docx import read_docx
from heedful.localisation.html import Html
from heedful.localisation.odf import read_odf
from heedful.localisation.po import Po
from heedful.localisation.srt import Srt
from heedful.localisation.tmx import Tmx
from heedful.localisation.xliff import Xliff

_READERS: Final[Mapping[str, Callable[[Path], Document]]] = {
    ".po": Po.read,
    ".pot": Po.read,
    ".xlf": Xliff.read,
    ".xliff": Xliff.read,
    ".srt": Srt.read,
    ".html": Html.read,
    ".htm": Html.read,
    ".xhtml": Html.read,
    ".docx": read_docx,
    ".docm": read_docx,
    ".odt": read_odf,
    ".odp": read_odf,
}
BINARY: Final = frozenset((".docx", ".docm", ".odt", ".odp"))
"""How the names of those end that are no text."""
ENDINGS: Final = frozenset((*_READERS, ".tmx"))
"""How the names of documents end."""


def is_document(path: Path) -> bool:
    """Whether the name says that a file is a translator's document."""
    return path.suffix.lower() in ENDINGS


def same_format(first: Path, second: Path) -> bool:
    """Return whether the names of two files say the same format, as `.htm` and `.html` do.

    Text that is marked up may be called text, and XML may be called XML. A document with macros and one without are two
    formats, since programs open neither under the other's name.
    """
    endings = first.suffix.lower(), second.suffix.lower()
    if endings[0] == endings[1]:
        return True
    if endings[1] == ".txt":
        return endings[0] in (".po", ".pot", ".srt")
    if endings[1] == ".xml":
        return endings[0] in (".xlf", ".xliff", ".tmx", ".xhtml")
    readers = [_READERS.get(ending) for ending in endings]
    return readers[0] is not None and readers[0] == readers[1] and not BINARY.intersection(endings)


def read_document(path: Path, *, source: str | None = None, target: str | None = None) -> Document:
    """The document in a file, by the ending of its name.

    Args:
        path: of the file.
        source: the language that is read, which a TMX needs.
        target: the language that is written, likewise.

    Raises:
        DataError: the file is missing or damaged, or of no such format.
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".tmx":
        if source is None or target is None:
            raise DataError(f"{path}: a TMX holds many languages; say which: --source-language en --target-language de")
        return Tmx.read(path, source=source, target=target)
    if suffix not in _READERS:
        raise DataError(f"{path}: is none of {', '.join(sorted(ENDINGS))}; give text as lines, with --input")
    return _READERS[suffix](path)
