"""Minimum Bayes risk: not the most probable text, but that which is most like all that the model may mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from heedful.data.tokenizers import Tokenizer
from heedful.generation.hypotheses import Found
from heedful.generation.search import Search
from heedful.generation.start import Request
from heedful.metrics.utility import Utility
from heedful.models.interface import State, Step


def by_risk(texts: Sequence[str], utility: Utility) -> list[tuple[int, float]]:
    """Each different text, by the place where it came first, and its expected utility, which falls.

    All texts together stand for what a model expects (Eikema and Aziz 2020, section 5): each is compared with all, and
    those that came several times count as often, so they should be samples.
    """
    times = Counter(texts)
    different = list(times)
    weights = np.array([times[text] for text in different]) / times.total()
    expected = (utility(different) @ weights).tolist()
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    found = [(first[text], value) for text, value in zip(different, expected, strict=True)]
    return sorted(found, key=lambda each: -each[1])


@final
@dataclass(frozen=True)
class LeastRisk(Search):
    """The `n_best` of what another search finds that have the greatest expected utility, their score then."""

    search: Search
    tokenizer: Tokenizer
    utility: Utility
    n_best: int = 1

    def answer(self, step: Step, state: State, request: Request) -> Found:
        """At most `n_best` hypotheses for each row, whose texts differ."""
        found = self.search.answer(step, state, request)
        texts = ([self.tokenizer.decode(each.ids) for each in own] for own in found.hypotheses)
        return found.ranked([by_risk(own, self.utility)[: self.n_best] for own in texts])
