"""Detection of question answering data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.questions import QuestionFormat

DATA_FORMATS: Final[Sequence[DataFormat]] = (QuestionFormat(),)
