"""Detection of tagging data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.tagged import TaggedWordsFormat

DATA_FORMATS: Final[Sequence[DataFormat]] = (TaggedWordsFormat(),)
