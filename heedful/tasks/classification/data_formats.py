"""The forms of data that classes and numbers are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.detect.labelled import LabelledTableFormat

DATA_FORMATS: Final[Sequence[DataFormat]] = (LabelledTableFormat(),)
