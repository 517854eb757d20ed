"""Ranking metrics: recall at k, and mean reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from heedful.errors import DataError

_ROW_BATCH: Final = 1024
"""Number of texts whose cosines with all others are in memory at one time."""
_ROUNDING: Final = 1e-6
"""Rounding error of cosines in single precision, which may depend on the column."""


def recall_at_k(ranks: Sequence[Sequence[int | None]], k: int) -> float:
    """Return the share of the relevant passages among the first `k`, averaged over questions. `ranks` has the rank,
    from 1, of each relevant passage of each question.

    Args:
        ranks: for each question the rank, from 1, of each relevant passage; None if it was not found.
        k: number of passages that count.

    Raises:
        DataError: there is no question, or one without a relevant passage.
    """
    _check_ranks(ranks)
    recalls = [
        sum(rank is not None and rank <= k for rank in question_ranks) / len(question_ranks) for question_ranks in ranks
    ]
    return sum(recalls) / len(recalls)


def mean_reciprocal_rank(ranks: Sequence[Sequence[int | None]]) -> float:
    """Return 1 / rank of the first relevant passage, 0 if none was found, averaged over questions (Voorhees 1999).
    `ranks` has the rank, from 1, of each relevant passage of each question.

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
    """Return the rank, from 1, of each source's own target by cosine among all targets, and vice versa. Targets that
    share a number with it in any row of `group_ids` are not counted before it.

    Other targets with an equal cosine, up to rounding, rank before it, so that a constant model finds nothing.

    Args:
        sources, targets: vectors of length 1; row i of one belongs to row i of the other.
        group_ids: rows with an equal number in any grouping also belong together or are equal; they do not rank before.
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
    """Raise `DataError` unless there are questions, each with a relevant passage."""
    if not ranks:
        raise DataError("there are no questions to evaluate with; name a file with questions")
    for number, question_ranks in enumerate(ranks, 1):
        if not question_ranks:
            raise DataError(f"question {number}: no passage answers it; leave it out")
