"""Detection of captioning data: pictures, clips and COCO files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat, HintOnlyFormat
from heedful.data.detect.sniff import BinaryShape, FileSniff, FolderShape, JsonValueShape, has_file_names

_PICTURE_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp")
_CLIP_SUFFIXES: Final = (".mp4", ".avi", ".mkv", ".mov", ".webm")
_RECIPE_HINT: Final = "copy a recipe with heedful recipes flickr8k-soft and name your files there"


def _holds_files(file: FileSniff, suffixes: tuple[str, ...]) -> bool:
    """Return whether a folder or a file holds files with such suffixes, or their names."""
    if isinstance(file.shape, FolderShape):
        return any(file.shape.ending_counts.get(ending, 0) for ending in suffixes)
    return has_file_names(file.shape, suffixes)


def _is_picture(file: FileSniff) -> bool:
    if isinstance(file.shape, BinaryShape):
        return "picture" in file.shape.kind
    return _holds_files(file, _PICTURE_SUFFIXES)


def _is_coco(file: FileSniff) -> bool:
    document = file.shape.value if isinstance(file.shape, JsonValueShape) else None
    return isinstance(document, dict) and {"images", "annotations"} <= {*document}


def _is_clip(file: FileSniff) -> bool:
    is_folder = isinstance(file.shape, FolderShape)
    return (not is_folder and file.path.suffix.lower() in _CLIP_SUFFIXES) or _holds_files(file, _CLIP_SUFFIXES)


DATA_FORMATS: Final[Sequence[DataFormat]] = (
    HintOnlyFormat(
        _is_picture,
        f"these are pictures, or names of their files; captioning needs pictures and captions: {_RECIPE_HINT}",
    ),
    HintOnlyFormat(_is_coco, f"this is COCO's JSON; {_RECIPE_HINT}"),
)
VIDEO_DATA_FORMATS: Final[Sequence[DataFormat]] = (
    HintOnlyFormat(
        _is_clip,
        "these are clips, or files of them; captioning needs clips and captions: copy a recipe with heedful recipes "
        "video and name your files there",
    ),
)
