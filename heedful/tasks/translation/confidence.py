"""How good a translation probably is, by how probable the model finds it, as it was on text with references."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel

from heedful.metrics.calibration import Monotone
from heedful.tasks.target import Candidate

FILE: Final = "confidence.json"


class Confidence(BaseModel, extra="forbid", allow_inf_nan=False):
    """Mean log-probability of a token, in nats, to the chrF (0 to 1) that such translations had.

    Attributes:
        weights: digest of the model's file; of other weights it says nothing.
        points: of the curve.
    """

    format: Literal[1] = 1
    weights: str
    points: tuple[tuple[float, float], ...]

    def of(self, found: Candidate) -> float:
        """What chrF to expect of a translation, from 0 to 1."""
        return Monotone(self.points)(certainty(found))


def certainty(found: Candidate) -> float:
    """The mean log-probability of a token, the end included."""
    return found.log_probability / (len(found.ids) + 1)
