"""How well a search orders: recall among the first, and the mean reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from heedful.errors import DataError

_ROWS: Final = 1024
"""Texts whose cosines with all others are in memory at a time."""
_ROUNDING: Final = 1e-6
"""Of cosines in single precision: a product may depend on the column that it stands in."""


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


def own_ranks(
    sources: Float[np.ndarray, "N d"], targets: Float[np.ndarray, "N d"], kinds: Int[np.ndarray, "ways N"]
) -> Int[np.ndarray, "2 N"]:
    """The rank, from 1, of each source's own target by its cosine among all targets, and the other way round.

    Others that are as close, up to rounding, stand before, so that who says the same of all finds nothing.

    Args:
        sources, targets: vectors of length 1; row i of one belongs to row i of the other.
        kinds: rows of the same number in any way belong together as well, or are the same; they do not stand before.
    """
    ranks = []
    for asked, sought in ((sources, targets), (targets, sources)):
        for start in range(0, len(asked), _ROWS):
            rows = np.arange(start, min(start + _ROWS, len(asked)))
            cosines = asked[rows] @ sought.T
            others = (kinds[:, rows, None] != kinds[:, None]).all(0)
            ranks.append(1 + ((cosines >= cosines[:, rows].diagonal()[:, None] - _ROUNDING) & others).sum(1))
    return np.concatenate(ranks).reshape(2, -1)


def _check(ranks: Sequence[Sequence[int | None]]) -> None:
    if not ranks:
        raise DataError("there are no questions to measure by; name a file that has some")
    for number, each in enumerate(ranks, 1):
        if not each:
            raise DataError(f"question {number}: no passage answers it; leave it out")
