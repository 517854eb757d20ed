"""How good a translation probably is, by how probable the model finds it, as it was on text with references."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel

from heedful.metrics.calibration import MonotoneCurve
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.translation.attention_entropy import attention_entropy
from heedful.tasks.translation.hallucination_signs import SCATTERED_SIGN, UNSURE_SIGN

CONFIDENCE_FILE: Final = "confidence.json"


class ConfidenceCurve(BaseModel, extra="forbid", allow_inf_nan=False):
    """Mean log-probability of a token, in nats, to the chrF (0 to 1) that such translations had.

    Attributes:
        weights: digest of the model's file; of other weights it says nothing.
        points: of the curve.
        least: of which 99 in 100 of these translations the model was surer, in nats a token; None where nobody asked.
        widest: the attention of as many was less scattered (`attention_entropy`); None also where the model has none.
    """

    format: Literal[1] = 1
    weights: str
    points: tuple[tuple[float, float], ...]
    least: float | None = None
    widest: float | None = None

    def predict_chrf(self, candidate: TextCandidate) -> float:
        """What chrF to expect of a translation, from 0 to 1."""
        return MonotoneCurve(self.points)(get_certainty(candidate))

    def find_doubts(self, candidate: TextCandidate, weights: Float[np.ndarray, "T S"] | None) -> tuple[str, ...]:
        """Signs of a translation, by how sure the model is of it and by what its tokens looked at."""
        signs = [UNSURE_SIGN] if self.least is not None and get_certainty(candidate) < self.least else []
        if self.widest is not None and weights is not None and attention_entropy(weights) > self.widest:
            signs.append(SCATTERED_SIGN)
        return tuple(signs)


def get_certainty(candidate: TextCandidate) -> float:
    """The mean log-probability of a token, the end included."""
    return candidate.log_probability / (len(candidate.ids) + 1)
