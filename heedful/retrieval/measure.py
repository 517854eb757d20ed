"""How well an index finds the passages that are known to answer questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heedful.errors import DataError
from heedful.metrics.ranking import mean_reciprocal_rank, recall_at
from heedful.retrieval.collection import Judged
from heedful.retrieval.index import PassageIndex
from heedful.retrieval.orders import Ordering, ranks_of

FIRST: Final = (1, 5, 10)
"""How many passages recall looks at."""


@dataclass(frozen=True)
class Measured:
    """What one ordering finds.

    Attributes:
        ordering: of passages.
        recall: the share of the passages sought among the first so many.
        mrr: the mean reciprocal rank.
    """

    ordering: Ordering
    recall: Mapping[int, float]
    mrr: float


def measure_search(
    index: PassageIndex,
    questions: Iterable[Judged],
    *,
    orderings: Sequence[Ordering],
    tick: Callable[[int, int], None] | None = None,
) -> tuple[list[Measured], int]:
    """Each ordering measured, and the number of questions; every passage of the index is ranked.

    Args:
        index: of the passages.
        questions: with the ids of passages that answer them.
        orderings: to measure.
        tick: told how many questions were searched, and of how many.

    Raises:
        DataError: a passage is not in the index, or has another text there; there is no question.
    """
    known = list(questions)
    sought = [_rows(index, each) for each in known]
    ranks: dict[Ordering, list[list[int | None]]] = {ordering: [] for ordering in orderings}
    scored = index.scores([each.question for each in known], words_only=set(orderings) <= {"bm25"})
    for number, (rows, scores) in enumerate(zip(sought, scored, strict=True), 1):
        for ordering in orderings:
            ranks[ordering].append(ranks_of(scores.order(ordering), rows))
        if tick is not None:
            tick(number, len(known))
    found = [
        Measured(each, {first: recall_at(ranks[each], first) for first in FIRST}, mean_reciprocal_rank(ranks[each]))
        for each in orderings
    ]
    return found, len(known)


def _rows(index: PassageIndex, judged: Judged) -> list[int]:
    rows = []
    for name in judged.passages:
        if name not in index.rows:
            raise DataError(
                f"{judged.place}: the index has no passage {name!r}; measure by questions about its passages"
            )
        rows.append(index.rows[name])
    for row, text in zip(rows, judged.texts, strict=False):
        if index[row].text != text:
            raise DataError(
                f"{judged.place}: passage {index[row].id!r} has another text in the index; build the index from this "
                "file"
            )
    return rows
