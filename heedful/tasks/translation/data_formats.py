"""Data formats for translation training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat
from heedful.data.detect.registry import PARALLEL_FORMATS

DATA_FORMATS: Final[Sequence[DataFormat]] = PARALLEL_FORMATS
