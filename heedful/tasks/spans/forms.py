"""The forms of data that answers in texts are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form
from heedful.data.forms.questions import Questions

FORMS: Final[Sequence[Form]] = (Questions(),)
