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
