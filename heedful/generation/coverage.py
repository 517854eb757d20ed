"""What a search found, ranked by how much of the source was attended to as well."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, final

from jaxtyping import Float
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.hypotheses import Found
from heedful.generation.search import Search
from heedful.generation.start import Request
from heedful.models.interface import State, Step

_LEAST: Final = 1e-4
"""What a token of the source got at least: attention that chooses may give one nothing, whose logarithm has no end."""


@final
@dataclass(frozen=True)
class Covering(Search):
    """The `n_best` of what another search finds, ranked by its scores and by coverage (Wu et al. 2016, equation 14).

    A score gets beta * sum_i log(min(sum_j p_ij, 1)) more, where p_ij is what token j of the text attended to token i
    of the source. The texts are read once more for it, when they are all there: coverage decides nothing on the way.
    Those that were cut stay behind those that ended.
    """

    search: Search
    beta: float
    n_best: int = 1

    @property
    def rows(self) -> int:
        """Those of the other search."""
        return self.search.rows

    def answer(self, step: Step, state: State, request: Request) -> Found:
        """At most `n_best` hypotheses for each row; `RecipeError` where nobody can say what they looked at."""
        if request.looked is None:
            raise RecipeError(
                "coverage: asks what was attended to in the source, which translation alone tells; leave it out"
            )
        found = self.search.answer(step, state, replace(request, looked=None))
        rows = [row for row, own in enumerate(found.hypotheses) for _ in own]
        weights = iter(request.looked(rows, [each.ids for own in found.hypotheses for each in own]))
        order = []
        for own in found.hypotheses:
            scores = [each.score + self.beta * covered(next(weights)) for each in own]
            ranks = sorted(
                (not each.finished, -score, place) for place, (each, score) in enumerate(zip(own, scores, strict=True))
            )
            order.append([(place, scores[place]) for *_, place in ranks[: self.n_best]])
        return found.ranked(order)


def covered(weights: Float[Tensor, "T S"]) -> float:
    """sum_i log(min(sum_j p_ij, 1)); 0 where every token of the source got as much as one of the text can give."""
    return float(weights.sum(0).clamp(_LEAST, 1).log().sum())
