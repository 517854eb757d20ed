"""Detection of captioning data: pictures and COCO files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat, HintOnlyFormat
from heedful.data.detect.sniff import BinaryShape, FileSniff, FolderShape, JsonValueShape, has_file_names

_PICTURE_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp")
_RECIPE_HINT: Final = "copy a recipe with heedful recipes flickr8k-soft and name your files there"


def _is_picture(file: FileSniff) -> bool:
    """Return whether a file or folder holds pictures or picture file names."""
    if isinstance(file.shape, FolderShape):
        return any(file.shape.ending_counts.get(ending, 0) for ending in _PICTURE_SUFFIXES)
    if isinstance(file.shape, BinaryShape):
        return "picture" in file.shape.kind
    return has_file_names(file.shape, _PICTURE_SUFFIXES)


def _is_coco(file: FileSniff) -> bool:
    """Return whether a file is a COCO JSON document."""
    document = file.shape.value if isinstance(file.shape, JsonValueShape) else None
    return isinstance(document, dict) and {"images", "annotations"} <= {*document}


DATA_FORMATS: Final[Sequence[DataFormat]] = (
    HintOnlyFormat(
        _is_picture,
        f"these are pictures, or names of their files; captioning needs pictures and captions: {_RECIPE_HINT}",
    ),
    HintOnlyFormat(_is_coco, f"this is COCO's JSON; {_RECIPE_HINT}"),
)
