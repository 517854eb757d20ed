"""How well a search orders: recall among the first, and the mean reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.errors import DataError


def recall_at(ranks: Sequence[Sequence[int | None]], first: int) -> float:
    """The share of the passages sought that are among the `first`, averaged over questions.

    Args:
        ranks: for each question the rank, from 1, of each passage that answers it; None where it was not found.
        first: how many passages one looks at.

    Raises:
        DataError: there is no question, or one without a passage that answers it.
    """
    _check(ranks)
    found = [sum(rank is not None and rank <= first for rank in each) / len(each) for each in ranks]
    return sum(found) / len(found)


def mean_reciprocal_rank(ranks: Sequence[Sequence[int | None]]) -> float:
    """1 / rank of the first passage that answers, 0 where none was found, averaged over questions (Voorhees 1999).

    Args:
        ranks: as for `recall_at`.

    Raises:
        DataError: there is no question, or one without a passage that answers it.
    """
    _check(ranks)
    best = [max((1 / rank for rank in each if rank is not None), default=0.0) for each in ranks]
    return sum(best) / len(best)


def _check(ranks: Sequence[Sequence[int | None]]) -> None:
    if not ranks:
        raise DataError("there are no questions to measure by; name a file that has some")
    for number, each in enumerate(ranks, 1):
        if not each:
            raise DataError(f"question {number}: no passage answers it; leave it out")
