"""The forms of data that classes and numbers are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form
from heedful.data.forms.labelled import LabelledColumns

FORMS: Final[Sequence[Form]] = (LabelledColumns(),)
