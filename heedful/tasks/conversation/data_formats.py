"""Data formats that conversation can be trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.dialogues import DialogueFormat
from heedful.data.detect.format import DataFormat, HintOnlyFormat
from heedful.data.detect.sniff import FileSniff, JsonValueShape


def _is_camrest(file: FileSniff) -> bool:
    """Return whether a file looks like CamRest676."""
    value = file.shape.value if isinstance(file.shape, JsonValueShape) else None
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "dial" in value[0]


DATA_FORMATS: Final[Sequence[DataFormat]] = (
    DialogueFormat(),
    HintOnlyFormat(
        _is_camrest,
        "these are dialogues of CamRest676; copy their recipe with heedful recipes camrest and name this file there",
    ),
)
