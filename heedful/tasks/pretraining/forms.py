"""The forms of data that encoders are pre-trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form
from heedful.data.forms.plain import PlainText, TextFields

FORMS: Final[Sequence[Form]] = (PlainText(certainty=0.3, whole=False), TextFields(certainty=0.3))
