"""Entropy of a translation's attention to its source."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def attention_entropy(weights: Float[np.ndarray, "T S"]) -> float:
    """Return the normalised mean entropy of attention over the source, from 0 (each token attends to one) to 1.

    The mean entropy of the attention of each token (Rikters and Fishel 2017, the absentmindedness penalty), divided by
    the maximum for this number of source tokens.

    Args:
        weights: attention of each target token, end included (T), to the source tokens (S); rows need not sum to 1.
    """
    if weights.shape[1] < 2:
        return 0.0
    shares = np.asarray(weights, dtype=np.float64).clip(0)
    shares = shares / np.maximum(shares.sum(1, keepdims=True), np.finfo(np.float64).tiny)
    logs = np.log(np.where(shares > 0, shares, 1))
    return float(-(shares * logs).sum(1).mean() / np.log(weights.shape[1]))
