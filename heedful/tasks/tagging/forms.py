"""The forms of data that tags are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form
from heedful.data.forms.tagged import TaggedWords

FORMS: Final[Sequence[Form]] = (TaggedWords(),)
