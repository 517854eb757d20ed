"""Rerank the results of a search by how much of the source was attended to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, final

from jaxtyping import Float
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.prefill import GenerationRequest
from heedful.generation.results import SearchResult
from heedful.generation.search import SearchStrategy
from heedful.models.interface import State, Step

_MIN_ATTENTION: Final = 1e-4
"""Lower bound of a source token's attention; hard attention can give it 0, whose logarithm is infinite."""


@final
@dataclass(frozen=True)
class CoverageReranker(SearchStrategy):
    """Search that reranks the hypotheses of another one by score and coverage (Wu et al. 2016, equation 14).

    A score is increased by beta * sum_i log(min(sum_j p_ij, 1)), where p_ij is the attention of target token j to
    source token i. The finished texts are read once more to get it, so coverage does not influence the search itself.
    Unfinished hypotheses stay behind finished ones.
    """

    search: SearchStrategy
    beta: float
    n_best: int = 1

    @property
    def rows_per_sentence(self) -> int:
        """Number of model rows of each sentence: that of the inner search."""
        return self.search.rows_per_sentence

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """Return at most `n_best` hypotheses for each row.

        Raises:
            RecipeError: the request has no attention lookup.
        """
        if request.attention_lookup is None:
            raise RecipeError("coverage: needs attention to a source text, which only translation has; leave it out")
        result = self.search.decode_request(step, state, replace(request, attention_lookup=None))
        rows = [row for row, hypotheses in enumerate(result.hypotheses) for _ in hypotheses]
        weights = iter(
            request.attention_lookup(
                rows, [hypothesis.ids for hypotheses in result.hypotheses for hypothesis in hypotheses]
            )
        )
        order = []
        for hypotheses in result.hypotheses:
            scores = [hypothesis.score + self.beta * compute_coverage(next(weights)) for hypothesis in hypotheses]
            ranking = sorted(
                (not hypothesis.finished, -score, index)
                for index, (hypothesis, score) in enumerate(zip(hypotheses, scores, strict=True))
            )
            order.append([(index, scores[index]) for *_, index in ranking[: self.n_best]])
        return result.rerank(order)


def compute_coverage(attention: Float[Tensor, "T S"]) -> float:
    """Return sum_i log(min(sum_j p_ij, 1)); 0 where every source token has a total attention of at least 1."""
    return float(attention.sum(0).clamp(_MIN_ATTENTION, 1).log().sum())
