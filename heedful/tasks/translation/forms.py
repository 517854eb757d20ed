"""The forms of data that translations are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form
from heedful.data.forms.parallel import ParallelColumns, ParallelLines
from heedful.data.forms.parquet import ParquetFiles
from heedful.data.forms.translated import TranslatedFiles

FORMS: Final[Sequence[Form]] = (ParallelLines(), ParallelColumns(), TranslatedFiles(), ParquetFiles())
