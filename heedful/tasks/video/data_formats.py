"""Detection of video captioning data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat, HintOnlyFormat
from heedful.data.detect.sniff import FileSniff, FolderShape, has_file_names

_CLIP_SUFFIXES: Final = (".mp4", ".avi", ".mkv", ".mov", ".webm")


def _is_clip(file: FileSniff) -> bool:
    """Return whether a file or folder holds clips or clip file names."""
    if isinstance(file.shape, FolderShape):
        return any(file.shape.ending_counts.get(ending, 0) for ending in _CLIP_SUFFIXES)
    return file.path.suffix.lower() in _CLIP_SUFFIXES or has_file_names(file.shape, _CLIP_SUFFIXES)


DATA_FORMATS: Final[Sequence[DataFormat]] = (
    HintOnlyFormat(
        _is_clip,
        "these are clips, or files of them; captioning needs clips and captions: copy a recipe with heedful recipes "
        "video and name your files there",
    ),
)
