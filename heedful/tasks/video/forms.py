"""The forms of data that captions of clips are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form, Pointer
from heedful.data.forms.glance import Folder, Glance, names_files

_ENDINGS: Final = (".mp4", ".avi", ".mkv", ".mov", ".webm")


def _is_clip(file: Glance) -> bool:
    if isinstance(file.shape, Folder):
        return any(file.shape.endings.get(ending, 0) for ending in _ENDINGS)
    return file.path.suffix.lower() in _ENDINGS or names_files(file.shape, _ENDINGS)


FORMS: Final[Sequence[Form]] = (
    Pointer(
        _is_clip,
        "these are clips, or files of them; captions are learned from both: copy a recipe with heedful recipes video "
        "and name your files there",
    ),
)
