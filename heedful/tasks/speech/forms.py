"""The forms of data that speech is learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form, Pointer
from heedful.data.forms.glance import Binary, Folder, Glance, names_files

_ENDINGS: Final = (".wav", ".flac", ".mp3", ".ogg", ".m4a", ".opus")


def _is_sound(file: Glance) -> bool:
    if isinstance(file.shape, Folder):
        return any(file.shape.endings.get(ending, 0) for ending in _ENDINGS)
    if isinstance(file.shape, Binary) and "sound" in file.shape.what:
        return file.path.suffix.lower() not in (".avi", ".webp")
    return names_files(file.shape, _ENDINGS)


FORMS: Final[Sequence[Form]] = (
    Pointer(
        _is_sound,
        "these are sounds; speech is learned from a table of their files and what is said in them: copy a recipe with "
        "heedful recipes speech-transformer and name your files there",
    ),
)
