"""Data formats that language models can be trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.documents import PlainTextFormat, TextFieldFormat

DATA_FORMATS: Final[Sequence[DataFormat]] = (PlainTextFormat(), TextFieldFormat())
