"""From scores of passages to orders: by words, by vectors, and by the product of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
from jaxtyping import Float, Int

from heedful.errors import RecipeError
from heedful.retrieval.bm25 import extract_terms
from heedful.retrieval.passages import SearchPassage

Ordering = Literal["bm25", "encoder", "product"]
"""What passages are ordered by."""
ORDERINGS: Final[tuple[Ordering, ...]] = ("bm25", "encoder", "product")


@dataclass(frozen=True)
class SearchHit:
    """A passage that was found.

    Attributes:
        passage: with title and id.
        score: what it was ordered by: BM25, a cosine, or the share of the product that this passage has.
        rank: from 1.
        bm25: how well its words match, at least 0.
        cosine: between its vector and the query's; None where vectors were not compared.
    """

    passage: SearchPassage
    score: float
    rank: int
    bm25: float
    cosine: float | None


@dataclass(frozen=True)
class PassageScores:
    """What speaks for each passage, given one query.

    Attributes:
        bm25: 0 where no word of the query stands in the passage.
        cosine: of the vectors; None where there are none.
    """

    bm25: Float[np.ndarray, " N"]
    cosine: Float[np.ndarray, " N"] | None

    def get_scores(self, ordering: Ordering) -> Float[np.ndarray, " N"]:
        """The scores that an ordering sorts by; `RecipeError` where it needs vectors and there are none."""
        if ordering == "bm25":
            return self.bm25
        if self.cosine is None:
            raise RecipeError(
                f"--by {ordering}: this index has no vectors; build it again with --model RUN, or take --by bm25"
            )
        return self.cosine if ordering == "encoder" else self._product_scores

    @cached_property
    def _product_scores(self) -> Float[np.ndarray, " N"]:
        assert self.cosine is not None
        return combine_scores(self.bm25, self.cosine)

    def rank_passages(self, ordering: Ordering, *, top: int | None = None) -> Int[np.ndarray, " top"]:
        """The passages, best first; those with equal scores as they stand in the index.

        Args:
            ordering: what to sort by. By `bm25`, passages without any word of the query are not found.
            top: how many, at most; all unless given.
        """
        scores = self.get_scores(ordering)
        ranking = np.argsort(-scores, kind="stable")
        if ordering == "bm25":
            ranking = ranking[: int(np.count_nonzero(scores > 0))]
        return ranking[:top]


def build_hits(
    scores: PassageScores, ordering: Ordering, *, top: int, load_passage: Callable[[int], SearchPassage]
) -> list[SearchHit]:
    """The best `top` passages by an ordering; `load_passage` fetches one by its place in the index."""
    values, cosine = scores.get_scores(ordering), scores.cosine
    return [
        SearchHit(
            load_passage(row),
            float(np.exp(values[row]) if ordering == "product" else values[row]),
            rank,
            float(scores.bm25[row]),
            None if cosine is None else float(cosine[row]),
        )
        for rank, row in enumerate(scores.rank_passages(ordering, top=top).tolist(), 1)
    ]


def combine_scores(bm25: Float[np.ndarray, " N"], cosine: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """The product of both scores, each made a probability over the passages; as logarithms.

    BM25 has no upper end and depends on how many words a query has; cosines of an encoder may all lie between 0.7 and
    0.9, or below 0. So each is standardised over the passages (mean 0, deviation 1) and goes through a softmax; the
    product, divided by its sum, is a probability again. Nothing depends on the unit or the zero of either score, no
    passage is lost because one score is 0, and a score that is the same for all passages, as BM25 for a query in
    another language, leaves the order to the other one.
    """
    combined = standardize(bm25) + standardize(cosine)
    combined = combined - combined.max(initial=0.0)
    logarithms: np.ndarray = combined - np.log(np.exp(combined).sum())
    return logarithms


def standardize(scores: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Mean 0 and deviation 1; all 0 where the scores do not differ."""
    doubles = scores.astype(np.float64)
    if not len(doubles) or doubles.max() - doubles.min() < 1e-6:  # what rounding alone makes of equal scores
        return np.zeros_like(doubles)
    centred: np.ndarray = doubles - doubles.mean()
    spread: np.ndarray = centred / doubles.std()
    return spread


def find_ranks(ranking: Int[np.ndarray, " N"], rows: Sequence[int]) -> list[int | None]:
    """The place of each row in an order, from 1; None where it is not in it."""
    rank_by_row = {int(row): rank for rank, row in enumerate(ranking, 1)}
    return [rank_by_row.get(row) for row in rows]


def find_term_matches(query_terms: Collection[str], text: str) -> list[tuple[int, int]]:
    """Where terms stand in a text: first character and the one behind; what touches is one."""
    ranges: list[tuple[int, int]] = []
    for term in extract_terms(text):
        if term.text not in query_terms:
            continue
        if ranges and term.start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], term.stop))
        else:
            ranges.append((term.start, term.stop))
    return ranges
