"""What a search found, ranked by how much of the source was attended to as well."""

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
"""What a token of the source got at least: attention that chooses may give one nothing, whose logarithm has no end."""


@final
@dataclass(frozen=True)
class CoverageReranker(SearchStrategy):
    """The `n_best` of what another search finds, ranked by its scores and by coverage (Wu et al. 2016, equation 14).

    A score gets beta * sum_i log(min(sum_j p_ij, 1)) more, where p_ij is what token j of the text attended to token i
    of the source. The texts are read once more for it, when they are all there: coverage decides nothing on the way.
    Those that were cut stay behind those that ended.
    """

    search: SearchStrategy
    beta: float
    n_best: int = 1

    @property
    def rows_per_sentence(self) -> int:
        """Those of the other search."""
        return self.search.rows_per_sentence

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """At most `n_best` hypotheses for each row; `RecipeError` where nobody can say what they looked at."""
        if request.attention_lookup is None:
            raise RecipeError(
                "coverage: asks what was attended to in the source, which translation alone tells; leave it out"
            )
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
    """sum_i log(min(sum_j p_ij, 1)); 0 where every token of the source got as much as one of the text can give."""
    return float(attention.sum(0).clamp(_MIN_ATTENTION, 1).log().sum())
