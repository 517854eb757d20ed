"""Minimum Bayes risk decoding: choose the text with the highest expected utility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from heedful.data.tokenizers import Tokenizer
from heedful.generation.prefill import GenerationRequest
from heedful.generation.results import Hypothesis, SearchResult
from heedful.generation.search import SamplingSearch, SearchStrategy
from heedful.metrics.weighted_sacrebleu import PairwiseUtility
from heedful.models.interface import State, Step


def rank_by_expected_utility(
    texts: Sequence[str], utility: PairwiseUtility, *, log_probabilities: Sequence[float] | None = None
) -> list[tuple[int, float]]:
    """Return the index of each distinct text and its expected utility, highest first.

    All texts together are samples of the model's distribution (Eikema and Aziz 2020, section 5): each is compared with
    all, and repeated texts count several times, which is right for samples. A beam contains each text once, so beam
    hypotheses are weighted by their probability among all of them (Kumar and Byrne 2004, section 4).

    Args:
        texts: the texts; of equal ones the most probable first.
        utility: utility of each text against each.
        log_probabilities: the model's log-probabilities, up to a constant; None for samples.
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
    """Search that reranks another search's hypotheses by expected utility and returns the `n_best`, with the utility
    as score.

    Samples have equal weights; beam hypotheses are weighted by their probability, without length penalties.
    """

    search: SearchStrategy
    tokenizer: Tokenizer
    utility: PairwiseUtility
    n_best: int = 1

    @property
    def rows_per_sentence(self) -> int:
        """Rows of the inner search."""
        return self.search.rows_per_sentence

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """Return at most `n_best` hypotheses with distinct texts for each row."""
        results = self.search.decode_request(step, state, request)
        return results.rerank([self._rank_hypotheses(hypotheses) for hypotheses in results.hypotheses])

    def _rank_hypotheses(self, hypotheses: Sequence[Hypothesis]) -> list[tuple[int, float]]:
        """Rank hypotheses by expected utility."""
        texts = [self.tokenizer.decode(hypothesis.ids) for hypothesis in hypotheses]
        log_probabilities = (
            None
            if isinstance(self.search, SamplingSearch)
            else [hypothesis.log_probability for hypothesis in hypotheses]
        )
        return rank_by_expected_utility(texts, self.utility, log_probabilities=log_probabilities)[: self.n_best]
