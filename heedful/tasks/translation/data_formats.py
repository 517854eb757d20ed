"""Data formats for translation training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.detect.parallel import ParallelColumnsFormat, ParallelLinesFormat
from heedful.data.detect.parquet import ParquetFormat
from heedful.data.detect.translation_files import TranslationFileFormat

DATA_FORMATS: Final[Sequence[DataFormat]] = (
    ParallelLinesFormat(),
    ParallelColumnsFormat(),
    TranslationFileFormat(),
    ParquetFormat(),
)
