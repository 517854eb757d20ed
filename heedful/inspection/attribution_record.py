"""What a record knows of its model beside attention: how wide its ends are, and which tokens mattered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError


@dataclass(frozen=True)
class VectorSize:
    """How many numbers a part of the model makes of each token: an embedding, or the output with its choices."""

    part: Literal["embedding", "output"]
    side: str
    size: int


@dataclass(frozen=True)
class Attribution:
    """How much each token that was read speaks for what was said, by gradients with respect to its embedding.

    Attributes:
        method: "gradient" is the gradient times the input; "integrated" takes its mean on the way from no word to the
            word (Sundararajan, Taly and Yan 2017, equation 1), with vectors of zeros for no word.
        steps: places on that way; 1 of the gradient.
        about: "written" for the tokens of `Record.written`, "answers" for those of `Record.answers`.
        places: which of them, one for each row.
        unit: of the scores: "nats" of the log-probability of what was said, or "" of a number that was said.
        axes: names of those whose tokens are the columns, one axis behind the other.
        scores: of each token; above 0 speaks for what was said.
        values: what was explained: the log-probability, or the number.
        baselines: the same without any word; None where the method does not need it.
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
        """What completeness lacks: value - baseline - sum of the scores, 0 if the integral is exact; None likewise."""
        if self.baselines is None:
            return None
        gaps: np.ndarray = self.values - self.baselines - self.scores.sum(1)
        return gaps
