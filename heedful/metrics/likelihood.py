"""How surprised a model is."""

from __future__ import annotations

import math

from heedful.errors import DataError


def perplexity(log_probability_sum: float, count: int) -> float:
    """exp(-sum / count): how many equally likely tokens the model chose between; infinite on overflow.

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
