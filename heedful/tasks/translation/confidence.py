"""How good a translation probably is, by how probable the model finds it, as it was on text with references."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel

from heedful.metrics.calibration import Monotone
from heedful.tasks.target import Candidate
from heedful.tasks.translation.detachment import scatter
from heedful.tasks.translation.signs import SCATTERED, UNSURE

FILE: Final = "confidence.json"


class Confidence(BaseModel, extra="forbid", allow_inf_nan=False):
    """Mean log-probability of a token, in nats, to the chrF (0 to 1) that such translations had.

    Attributes:
        weights: digest of the model's file; of other weights it says nothing.
        points: of the curve.
        least: of which 99 in 100 of these translations the model was surer, in nats a token; None where nobody asked.
        widest: the attention of as many was less scattered (`scatter`); None also where the model has none.
    """

    format: Literal[1] = 1
    weights: str
    points: tuple[tuple[float, float], ...]
    least: float | None = None
    widest: float | None = None

    def of(self, found: Candidate) -> float:
        """What chrF to expect of a translation, from 0 to 1."""
        return Monotone(self.points)(certainty(found))

    def doubts(self, found: Candidate, weights: Float[np.ndarray, "T S"] | None) -> tuple[str, ...]:
        """Signs of a translation, by how sure the model is of it and by what its tokens looked at."""
        signs = [UNSURE] if self.least is not None and certainty(found) < self.least else []
        if self.widest is not None and weights is not None and scatter(weights) > self.widest:
            signs.append(SCATTERED)
        return tuple(signs)


def certainty(found: Candidate) -> float:
    """The mean log-probability of a token, the end included."""
    return found.log_probability / (len(found.ids) + 1)
