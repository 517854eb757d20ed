"""Parts of a record besides attention: vector sizes, and attributions of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError


@dataclass(frozen=True)
class VectorSize:
    """Number of values per token in a part of the model: an embedding, or the output layer."""

    part: Literal["embedding", "output"]
    side: str
    size: int


@dataclass(frozen=True)
class Attribution:
    """How much each input token contributes to what the model produced, by gradients with respect to its embedding.

    Attributes:
        method: "gradient" is gradient times input; "integrated" averages the gradient on the path from a baseline of
            zero vectors to the words (Sundararajan, Taly and Yan 2017, equation 1).
        steps: points on that path; 1 for the gradient.
        about: "written" for the tokens of `InspectionRecord.written`, "answers" for those of
            `InspectionRecord.answers`.
        places: indices of the explained tokens or answers, one per row.
        unit: of the scores: "nats" of the output's log-probability, or "" of a numeric answer.
        axes: names of the axes whose tokens are the columns, one axis after the other.
        scores: of each token; positive scores speak for the output.
        values: the explained log-probability or number.
        baselines: the same with zero vectors for all words; None if the method does not need it.
    """

    method: Literal["gradient", "integrated"]
    steps: int
    about: Literal["written", "answers"]
    places: tuple[int, ...]
    unit: str
    axes: tuple[str, ...]
    scores: Float[np.ndarray, "N K"]
    values: Float[np.ndarray, " N"]
    baselines: Float[np.ndarray, " N"] | None = None

    def __post_init__(self) -> None:
        rows = {len(self.places), len(self.scores), len(self.values)}
        rows |= set() if self.baselines is None else {len(self.baselines)}
        if self.scores.ndim != 2 or len(rows) != 1:
            raise DataError(
                f"attribution of {len(self.places)} answers with scores of shape {self.scores.shape} and "
                f"{len(self.values)} values; give a row, a value and a baseline for each answer"
            )

    @property
    def gaps(self) -> Float[np.ndarray, " N"] | None:
        """Completeness error: value - baseline - sum of the scores; None for the gradient method."""
        if self.baselines is None:
            return None
        gaps: np.ndarray = self.values - self.baselines - self.scores.sum(1)
        return gaps
