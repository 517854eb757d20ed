"""Formats of data from which `heedful new` recognises what a task can learn from (`Recipe.forms`); needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.detect.labelled import LabelledTableFormat
from heedful.data.detect.parallel import ParallelColumnsFormat, ParallelLinesFormat
from heedful.data.detect.parquet import ParquetFormat
from heedful.data.detect.plain_text import PlainTextFormat, TextFieldFormat
from heedful.data.detect.questions import QuestionFormat
from heedful.data.detect.tagged import TaggedWordsFormat
from heedful.data.detect.translation_files import TranslationFileFormat

LABELLED_TEXTS: Final[Sequence[DataFormat]] = (LabelledTableFormat(),)
TAGGED_SENTENCES: Final[Sequence[DataFormat]] = (TaggedWordsFormat(),)
QUESTIONS: Final[Sequence[DataFormat]] = (QuestionFormat(),)
PARALLEL_TEXT: Final[Sequence[DataFormat]] = (
    ParallelLinesFormat(),
    ParallelColumnsFormat(),
    TranslationFileFormat(),
    ParquetFormat(),
)
TEXT_PAIRS: Final[Sequence[DataFormat]] = (ParallelLinesFormat(confidence=0.3), ParallelColumnsFormat(confidence=0.3))
"""Parallel text for tasks that it suits less than translation."""
DOCUMENTS: Final[Sequence[DataFormat]] = (
    PlainTextFormat(confidence=0.3, allows_single_text=False),
    TextFieldFormat(confidence=0.3),
)
"""Plain text for tasks that it suits less than language modelling."""
