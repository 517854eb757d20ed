"""Which comparison is made of runs of each task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from heedful.cli.comparison import Comparison
from heedful.cli.labelled_comparison import LabelledComparison
from heedful.cli.translation_comparison import TranslationComparison

COMPARISONS: Final[Mapping[str, type[Comparison]]] = {
    "translation": TranslationComparison,
    "classification": LabelledComparison,
    "tagging": LabelledComparison,
    "spans": LabelledComparison,
}
