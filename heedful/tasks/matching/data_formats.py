"""Data formats that matching can be trained on: those of translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.detect.parallel import ParallelColumnsFormat, ParallelLinesFormat

DATA_FORMATS: Final[Sequence[DataFormat]] = (ParallelLinesFormat(confidence=0.3), ParallelColumnsFormat(confidence=0.3))
