"""The forms of data that captions are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form, Pointer
from heedful.data.forms.glance import Binary, Document, Folder, Glance, names_files

_ENDINGS: Final = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp")
_COPY: Final = "copy a recipe with heedful recipes flickr8k-soft and name your files there"


def _is_picture(file: Glance) -> bool:
    if isinstance(file.shape, Folder):
        return any(file.shape.endings.get(ending, 0) for ending in _ENDINGS)
    if isinstance(file.shape, Binary):
        return "picture" in file.shape.what
    return names_files(file.shape, _ENDINGS)


def _is_coco(file: Glance) -> bool:
    value = file.shape.value if isinstance(file.shape, Document) else None
    return isinstance(value, dict) and {"images", "annotations"} <= {*value}


FORMS: Final[Sequence[Form]] = (
    Pointer(_is_picture, f"these are pictures, or names of their files; captions are learned from both: {_COPY}"),
    Pointer(_is_coco, f"this is COCO's JSON; {_COPY}"),
)
