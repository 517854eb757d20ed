"""The forms of data that language models are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form
from heedful.data.forms.plain import PlainText, TextFields

FORMS: Final[Sequence[Form]] = (PlainText(), TextFields())
