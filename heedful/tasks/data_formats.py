"""Formats of data from which `heedful new` recognises what a task can learn from (`Recipe.forms`); needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.detect.parallel import ParallelColumnsFormat, ParallelLinesFormat
from heedful.data.detect.registry import PARALLEL_FORMATS
from heedful.data.documents import PlainTextFormat, TextFieldFormat
from heedful.data.labelled import LabelledTableFormat
from heedful.data.questions import QuestionFormat
from heedful.data.tagged import TaggedWordsFormat

LABELLED_TEXTS: Final[Sequence[DataFormat]] = (LabelledTableFormat(),)
TAGGED_SENTENCES: Final[Sequence[DataFormat]] = (TaggedWordsFormat(),)
QUESTIONS: Final[Sequence[DataFormat]] = (QuestionFormat(),)
PARALLEL_TEXT: Final = PARALLEL_FORMATS
TEXT_PAIRS: Final[Sequence[DataFormat]] = (ParallelLinesFormat(confidence=0.3), ParallelColumnsFormat(confidence=0.3))
"""Parallel text for tasks that it suits less than translation."""
DOCUMENTS: Final[Sequence[DataFormat]] = (
    PlainTextFormat(confidence=0.3, allows_single_text=False),
    TextFieldFormat(confidence=0.3),
)
"""Plain text for tasks that it suits less than language modelling."""
