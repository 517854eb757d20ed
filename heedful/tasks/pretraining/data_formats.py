"""Detection of data for pre-training encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.documents import PlainTextFormat, TextFieldFormat

DATA_FORMATS: Final[Sequence[DataFormat]] = (
    PlainTextFormat(confidence=0.3, allows_single_text=False),
    TextFieldFormat(confidence=0.3),
)
