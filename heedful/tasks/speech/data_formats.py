"""Detection of speech data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat, HintOnlyFormat
from heedful.data.detect.sniff import BinaryShape, FileSniff, FolderShape, has_file_names

_SOUND_SUFFIXES: Final = (".wav", ".flac", ".mp3", ".ogg", ".m4a", ".opus")


def _is_sound(file: FileSniff) -> bool:
    """Return whether a file or folder holds sounds or sound file names."""
    if isinstance(file.shape, FolderShape):
        return any(file.shape.ending_counts.get(ending, 0) for ending in _SOUND_SUFFIXES)
    if isinstance(file.shape, BinaryShape) and "sound" in file.shape.kind:
        return file.path.suffix.lower() not in (".avi", ".webp")
    return has_file_names(file.shape, _SOUND_SUFFIXES)


DATA_FORMATS: Final[Sequence[DataFormat]] = (
    HintOnlyFormat(
        _is_sound,
        "these are sounds; speech training needs a table of their files and the spoken texts: copy a recipe with "
        "heedful recipes speech-transformer and name your files there",
    ),
)
