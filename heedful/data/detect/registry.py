"""Which file formats there are: how the shape of any file is detected, and as what parallel text files are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from heedful.data.detect.file_names import get_suffix
from heedful.data.detect.format import DataFormat
from heedful.data.detect.parallel import ParallelColumnsFormat, ParallelLinesFormat
from heedful.data.detect.sniff import FileShape, FileSniff, sniff_binary, sniff_folder, sniff_text
from heedful.data.parquet import ParquetFormat, sniff_parquet
from heedful.data.translation_files import TRANSLATION_SUFFIXES, TranslationFileFormat, sniff_translation_file

_BINARY_SNIFFERS: Final[Mapping[str, Callable[[Path], FileShape]]] = {".parquet": sniff_parquet}
"""How the shape of binary formats is detected, by the suffix."""
_TEXT_SNIFFERS: Final[Mapping[str, Callable[[Path], FileShape]]] = dict.fromkeys(
    TRANSLATION_SUFFIXES, sniff_translation_file
)
"""How the shape of text formats is detected whose suffix says what they are."""
PARALLEL_FORMATS: Final[Sequence[DataFormat]] = (
    ParallelLinesFormat(),
    ParallelColumnsFormat(),
    TranslationFileFormat(),
    ParquetFormat(),
)
"""The formats of parallel text."""


def sniff_file(path: Path) -> FileSniff:
    """Detect the shape of a file or folder.

    Raises:
        DataError: the file does not exist, is empty, or holds text that is not UTF-8.
    """
    if path.is_dir():
        return FileSniff(path, sniff_folder(path))
    suffix = get_suffix(path)
    if suffix in _BINARY_SNIFFERS:
        return FileSniff(path, _BINARY_SNIFFERS[suffix](path))
    return FileSniff(path, sniff_binary(path) or _TEXT_SNIFFERS.get(suffix, sniff_text)(path))
