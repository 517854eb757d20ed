"""The forms of data that texts which say the same are learned from: those of translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form
from heedful.data.forms.parallel import ParallelColumns, ParallelLines

FORMS: Final[Sequence[Form]] = (ParallelLines(certainty=0.3), ParallelColumns(certainty=0.3))
