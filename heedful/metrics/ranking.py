"""How well a search orders: recall among the first, and the mean reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from heedful.errors import DataError

_ROW_BATCH: Final = 1024
"""Texts whose cosines with all others are in memory at a time."""
_ROUNDING: Final = 1e-6
"""Of cosines in single precision: a product may depend on the column that it stands in."""


def recall_at_k(ranks: Sequence[Sequence[int | None]], k: int) -> float:
    """The share of the passages sought that are among the `k`, averaged over questions.

    Args:
        ranks: for each question the rank, from 1, of each passage that answers it; None where it was not found.
        k: how many passages one looks at.

    Raises:
        DataError: there is no question, or one without a passage that answers it.
    """
    _check_ranks(ranks)
    recalls = [
        sum(rank is not None and rank <= k for rank in question_ranks) / len(question_ranks) for question_ranks in ranks
    ]
    return sum(recalls) / len(recalls)


def mean_reciprocal_rank(ranks: Sequence[Sequence[int | None]]) -> float:
    """1 / rank of the first passage that answers, 0 where none was found, averaged over questions (Voorhees 1999).

    Args:
        ranks: as for `recall_at_k`.

    Raises:
        DataError: there is no question, or one without a passage that answers it.
    """
    _check_ranks(ranks)
    reciprocal_ranks = [
        max((1 / rank for rank in question_ranks if rank is not None), default=0.0) for question_ranks in ranks
    ]
    return sum(reciprocal_ranks) / len(reciprocal_ranks)


def rank_paired_targets(
    sources: Float[np.ndarray, "N d"], targets: Float[np.ndarray, "N d"], group_ids: Int[np.ndarray, "ways N"]
) -> Int[np.ndarray, "2 N"]:
    """The rank, from 1, of each source's own target by its cosine among all targets, and the other way round.

    Others that are as close, up to rounding, stand before, so that who says the same of all finds nothing.

    Args:
        sources, targets: vectors of length 1; row i of one belongs to row i of the other.
        group_ids: rows of the same number in any way belong together as well, or are the same; they do not stand before.
    """
    ranks = []
    for query_vectors, candidate_vectors in ((sources, targets), (targets, sources)):
        for start in range(0, len(query_vectors), _ROW_BATCH):
            rows = np.arange(start, min(start + _ROW_BATCH, len(query_vectors)))
            cosines = query_vectors[rows] @ candidate_vectors.T
            is_other = (group_ids[:, rows, None] != group_ids[:, None]).all(0)
            ranks.append(1 + ((cosines >= cosines[:, rows].diagonal()[:, None] - _ROUNDING) & is_other).sum(1))
    return np.concatenate(ranks).reshape(2, -1)


def _check_ranks(ranks: Sequence[Sequence[int | None]]) -> None:
    if not ranks:
        raise DataError("there are no questions to measure by; name a file that has some")
    for number, question_ranks in enumerate(ranks, 1):
        if not question_ranks:
            raise DataError(f"question {number}: no passage answers it; leave it out")
