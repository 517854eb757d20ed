"""Minimum Bayes risk: not the most probable text, but that which is most like all that the model may mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from heedful.data.tokenizers import Tokenizer
from heedful.generation.prefill import GenerationRequest
from heedful.generation.results import Hypothesis, SearchResult
from heedful.generation.search import SamplingSearch, SearchStrategy
from heedful.metrics.utility import PairwiseUtility
from heedful.models.interface import State, Step


def rank_by_expected_utility(
    texts: Sequence[str], utility: PairwiseUtility, *, log_probabilities: Sequence[float] | None = None
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
    text_weights = (
        np.exp(np.array(log_probabilities) - max(log_probabilities)) if log_probabilities else np.ones(len(texts))
    )
    weight_by_text: dict[str, float] = {}
    for text, weight in zip(texts, text_weights.tolist(), strict=True):
        weight_by_text[text] = weight_by_text.get(text, 0.0) + weight
    distinct_texts = list(weight_by_text)
    weights = np.array(list(weight_by_text.values())) / text_weights.sum()
    expected = (utility(distinct_texts) @ weights).tolist()
    first_index = {text: index for index, text in reversed(list(enumerate(texts)))}
    ranked = [(first_index[text], value) for text, value in zip(distinct_texts, expected, strict=True)]
    return sorted(ranked, key=lambda item: -item[1])


@final
@dataclass(frozen=True)
class MinimumBayesRisk(SearchStrategy):
    """The `n_best` of what another search finds that have the greatest expected utility, their score then.

    Samples count alike; what a beam found counts by its probability, whatever penalties ranked it.
    """

    search: SearchStrategy
    tokenizer: Tokenizer
    utility: PairwiseUtility
    n_best: int = 1

    @property
    def rows_per_sentence(self) -> int:
        """Those of the other search."""
        return self.search.rows_per_sentence

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """At most `n_best` hypotheses for each row, whose texts differ."""
        results = self.search.decode_request(step, state, request)
        return results.rerank([self._rank_hypotheses(hypotheses) for hypotheses in results.hypotheses])

    def _rank_hypotheses(self, hypotheses: Sequence[Hypothesis]) -> list[tuple[int, float]]:
        texts = [self.tokenizer.decode(hypothesis.ids) for hypothesis in hypotheses]
        log_probabilities = (
            None
            if isinstance(self.search, SamplingSearch)
            else [hypothesis.log_probability for hypothesis in hypotheses]
        )
        return rank_by_expected_utility(texts, self.utility, log_probabilities=log_probabilities)[: self.n_best]
