"""Minimum Bayes risk: not the most probable text, but that which is most like all that the model may mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from heedful.data.tokenizers import Tokenizer
from heedful.generation.hypotheses import Found, Hypothesis
from heedful.generation.search import Sampling, Search
from heedful.generation.start import Request
from heedful.metrics.utility import Utility
from heedful.models.interface import State, Step


def by_risk(
    texts: Sequence[str], utility: Utility, *, log_probabilities: Sequence[float] | None = None
) -> list[tuple[int, float]]:
    """Each different text, by the place where it came first, and its expected utility, which falls.

    All texts together stand for what a model expects (Eikema and Aziz 2020, section 5): each is compared with all, and
    those that came several times count as often, which is right for samples. What a beam finds is there once, however
    probable it is, so that each counts by its probability among them (Kumar and Byrne 2004, section 4).

    Args:
        texts: the most probable of equal ones first.
        utility: of each text beside each.
        log_probabilities: of the model, up to a constant; none for samples.
    """
    shares = np.exp(np.array(log_probabilities) - max(log_probabilities)) if log_probabilities else np.ones(len(texts))
    counted: dict[str, float] = {}
    for text, share in zip(texts, shares.tolist(), strict=True):
        counted[text] = counted.get(text, 0.0) + share
    different = list(counted)
    weights = np.array(list(counted.values())) / shares.sum()
    expected = (utility(different) @ weights).tolist()
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    found = [(first[text], value) for text, value in zip(different, expected, strict=True)]
    return sorted(found, key=lambda each: -each[1])


@final
@dataclass(frozen=True)
class LeastRisk(Search):
    """The `n_best` of what another search finds that have the greatest expected utility, their score then.

    Samples count alike; what a beam found counts by its probability, whatever penalties ranked it.
    """

    search: Search
    tokenizer: Tokenizer
    utility: Utility
    n_best: int = 1

    @property
    def rows(self) -> int:
        """Those of the other search."""
        return self.search.rows

    def answer(self, step: Step, state: State, request: Request) -> Found:
        """At most `n_best` hypotheses for each row, whose texts differ."""
        found = self.search.answer(step, state, request)
        return found.ranked([self._best(own) for own in found.hypotheses])

    def _best(self, hypotheses: Sequence[Hypothesis]) -> list[tuple[int, float]]:
        texts = [self.tokenizer.decode(each.ids) for each in hypotheses]
        chances = None if isinstance(self.search, Sampling) else [each.log_probability for each in hypotheses]
        return by_risk(texts, self.utility, log_probabilities=chances)[: self.n_best]
