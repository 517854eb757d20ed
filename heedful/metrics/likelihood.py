"""Perplexity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.metrics.metric import Metric, safe_divide


@final
@dataclass(frozen=True)
class Perplexity(Metric):
    """Perplexity exp(nats / count), both summed over examples; infinite on overflow."""

    nats: Float[np.ndarray, " N"]
    counts: Float[np.ndarray, " N"]

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self.nats)

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the perplexity for each row of weights."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(safe_divide(weights @ self.nats, weights @ self.counts)))


def perplexity(log_probability_sum: float, count: int) -> float:
    """Return exp(-sum / count), the number of equally likely tokens the model chose between; infinite on overflow.

    Args:
        log_probability_sum: natural log-probabilities of all tokens, added up; at most 0.
        count: the number of tokens.

    Raises:
        DataError: no tokens, or a sum that no log-probabilities can have.
    """
    if count < 1:
        raise DataError(f"perplexity of {count} tokens: there must be at least one")
    if math.isnan(log_probability_sum) or log_probability_sum > 1e-4 * count:
        raise DataError(
            f"a sum of log-probabilities of {log_probability_sum}: it must be a number of at most 0 "
            "(a loss has the opposite sign)"
        )
    try:
        return math.exp(-log_probability_sum / count)
    except OverflowError:
        return math.inf
