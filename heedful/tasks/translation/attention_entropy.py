"""How far the attention of a translation is from anything in its source."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def attention_entropy(weights: Float[np.ndarray, "T S"]) -> float:
    """How evenly the tokens of a translation looked at all of the source, from 0 (each at one token) to 1.

    The mean entropy of what a token looked at (Rikters and Fishel 2017, the absentmindedness penalty), as a share of
    the most that so many tokens of source may have.

    Args:
        weights: what each token, the end included, looked at; rows need not sum to 1.
    """
    if weights.shape[1] < 2:
        return 0.0
    shares = np.asarray(weights, dtype=np.float64).clip(0)
    shares = shares / np.maximum(shares.sum(1, keepdims=True), np.finfo(np.float64).tiny)
    logs = np.log(np.where(shares > 0, shares, 1))
    return float(-(shares * logs).sum(1).mean() / np.log(weights.shape[1]))
