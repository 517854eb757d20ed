"""Calibrated quality estimation: expected chrF of a translation from the model's certainty."""

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
    """A curve from the mean log-probability of a token, in nats, to the expected chrF (0 to 1).

    Attributes:
        weights: digest of the model's file, for which alone the curve is valid.
        points: of the curve.
        least: log-probability in nats per token that 99 in 100 calibration translations exceed; None if not computed.
        widest: attention entropy (`attention_entropy`) below which 99 in 100 are; None also if the model has no
            attention.
    """

    format: Literal[1] = 1
    weights: str
    points: tuple[tuple[float, float], ...]
    least: float | None = None
    widest: float | None = None

    def predict_chrf(self, candidate: TextCandidate) -> float:
        """Return the expected chrF of a translation, from 0 to 1."""
        return MonotoneCurve(self.points)(get_certainty(candidate))

    def find_doubts(self, candidate: TextCandidate, weights: Float[np.ndarray, "T S"] | None) -> tuple[str, ...]:
        """Return warning signs of a translation, by the model's certainty and its attention weights."""
        signs = [UNSURE_SIGN] if self.least is not None and get_certainty(candidate) < self.least else []
        if self.widest is not None and weights is not None and attention_entropy(weights) > self.widest:
            signs.append(SCATTERED_SIGN)
        return tuple(signs)


def get_certainty(candidate: TextCandidate) -> float:
    """Return the mean log-probability of a token, the end included."""
    return candidate.log_probability / (len(candidate.ids) + 1)
