"""Evaluate an index on questions with known relevant passages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heedful.errors import DataError
from heedful.metrics.ranking import mean_reciprocal_rank, recall_at_k
from heedful.retrieval.index import PassageIndex
from heedful.retrieval.passages import JudgedQuestion
from heedful.retrieval.rankings import Ordering, find_ranks

RECALL_CUTOFFS: Final = (1, 5, 10)
"""Numbers of passages for which recall is computed."""


@dataclass(frozen=True)
class OrderingMetrics:
    """Metrics of one ordering.

    Attributes:
        ordering: of passages.
        recall: share of the relevant passages among the first k, by k.
        mrr: the mean reciprocal rank.
    """

    ordering: Ordering
    recall: Mapping[int, float]
    mrr: float


def measure_search(
    index: PassageIndex,
    questions: Iterable[JudgedQuestion],
    *,
    orderings: Sequence[Ordering],
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[list[OrderingMetrics], int]:
    """Compute the metrics of each ordering, ranking all passages; return them and the number of questions.

    Args:
        index: of the passages.
        questions: with the ids of passages that answer them.
        orderings: to evaluate.
        on_progress: called with the number of questions done, and the total.

    Raises:
        DataError: a passage is not in the index, or has another text there; there is no question.
    """
    judged = list(questions)
    relevant_rows = [_find_relevant_rows(index, question) for question in judged]
    ranks: dict[Ordering, list[list[int | None]]] = {ordering: [] for ordering in orderings}
    all_scores = index.iter_scores([question.question for question in judged], words_only=set(orderings) <= {"bm25"})
    for num_done, (rows, scores) in enumerate(zip(relevant_rows, all_scores, strict=True), 1):
        for ordering in orderings:
            ranks[ordering].append(find_ranks(scores.rank_passages(ordering), rows))
        if on_progress is not None:
            on_progress(num_done, len(judged))
    metrics = [
        OrderingMetrics(
            question,
            {cutoff: recall_at_k(ranks[question], cutoff) for cutoff in RECALL_CUTOFFS},
            mean_reciprocal_rank(ranks[question]),
        )
        for question in orderings
    ]
    return metrics, len(judged)


def _find_relevant_rows(index: PassageIndex, judged: JudgedQuestion) -> list[int]:
    """Return the rows of the passages that answer a question; raises `DataError` if they are not in the index."""
    rows = []
    for passage_id in judged.passages:
        if passage_id not in index.rows_by_id:
            raise DataError(
                f"{judged.location}: the index has no passage {passage_id!r}; evaluate with questions about its "
                "passages"
            )
        rows.append(index.rows_by_id[passage_id])
    for row, text in zip(rows, judged.texts, strict=False):
        if index[row].text != text:
            raise DataError(
                f"{judged.location}: passage {index[row].id!r} has another text in the index; build the index from "
                "this "
                "file"
            )
    return rows
