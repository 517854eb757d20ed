"""Data formats that classification can be trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.labelled import LabelledTableFormat

DATA_FORMATS: Final[Sequence[DataFormat]] = (LabelledTableFormat(),)
