"""Rank passages by words (BM25), by vectors (cosine), or by the product of both."""

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
"""The score by which passages are ranked."""
ORDERINGS: Final[tuple[Ordering, ...]] = ("bm25", "encoder", "product")


@dataclass(frozen=True)
class SearchHit:
    """A passage that was found.

    Attributes:
        passage: with title and id.
        score: what it is ranked by: BM25, a cosine, or its share of the product.
        rank: from 1.
        bm25: BM25 score, at least 0.
        cosine: of its vector and the query's; None where vectors were not compared.
    """

    passage: SearchPassage
    score: float
    rank: int
    bm25: float
    cosine: float | None


@dataclass(frozen=True)
class PassageScores:
    """Scores of all passages for one query.

    Attributes:
        bm25: 0 where the passage contains no term of the query.
        cosine: of the vectors; None where there are none.
    """

    bm25: Float[np.ndarray, " N"]
    cosine: Float[np.ndarray, " N"] | None

    def get_scores(self, ordering: Ordering) -> Float[np.ndarray, " N"]:
        """Return the scores that an ordering sorts by.

        Raises:
            RecipeError: the ordering needs vectors and there are none.
        """
        if ordering == "bm25":
            return self.bm25
        if self.cosine is None:
            raise RecipeError(
                f"--by {ordering}: this index has no vectors; build it again with --model RUN, or take --by bm25"
            )
        return self.cosine if ordering == "encoder" else self._product_scores

    @cached_property
    def _product_scores(self) -> Float[np.ndarray, " N"]:
        """The combined scores, as logarithms."""
        assert self.cosine is not None
        return combine_scores(self.bm25, self.cosine)

    def rank_passages(self, ordering: Ordering, *, top: int | None = None) -> Int[np.ndarray, " top"]:
        """Return the rows of the `top` best passages by an ordering, best first; equal scores in the order of the
        index.

        Args:
            ordering: what to sort by. With `bm25`, passages without any term of the query are left out.
            top: largest number of passages; all unless given.
        """
        scores = self.get_scores(ordering)
        ranking = np.argsort(-scores, kind="stable")
        if ordering == "bm25":
            ranking = ranking[: int(np.count_nonzero(scores > 0))]
        return ranking[:top]


def build_hits(
    scores: PassageScores, ordering: Ordering, *, top: int, load_passage: Callable[[int], SearchPassage]
) -> list[SearchHit]:
    """Return the best `top` passages by an ordering of `scores`, which has the scores of all passages for one query;
    `load_passage` loads the passage in a row.
    """
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
    """Return log-probabilities of the passages from the product of both scores.

    BM25 has no upper bound and depends on the length of the query; the cosines of an encoder may all lie between 0.7
    and 0.9, or below 0. So each score is standardised over the passages (mean 0, deviation 1) and passed through a
    softmax; their product is normalised to a probability again. The result does not depend on the unit or the zero of
    either score, no passage is lost because one score is 0, and a score that is equal for all passages, as BM25 for a
    query in another language, leaves the ranking to the other one.
    """
    combined = standardize(bm25) + standardize(cosine)
    combined = combined - combined.max(initial=0.0)
    logarithms: np.ndarray = combined - np.log(np.exp(combined).sum())
    return logarithms


def standardize(scores: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Scale scores to mean 0 and deviation 1; return zeros where they do not differ."""
    doubles = scores.astype(np.float64)
    if not len(doubles) or doubles.max() - doubles.min() < 1e-6:  # differences that come from rounding only
        return np.zeros_like(doubles)
    centred: np.ndarray = doubles - doubles.mean()
    spread: np.ndarray = centred / doubles.std()
    return spread


def find_ranks(ranking: Int[np.ndarray, " N"], rows: Sequence[int]) -> list[int | None]:
    """Return the rank of each row in a ranking, from 1; None where it is missing."""
    rank_by_row = {int(row): rank for rank, row in enumerate(ranking, 1)}
    return [rank_by_row.get(row) for row in rows]


def find_term_matches(query_terms: Collection[str], text: str) -> list[tuple[int, int]]:
    """Return the character ranges of the terms of a text that are among `query_terms`; adjacent ranges are merged."""
    ranges: list[tuple[int, int]] = []
    for term in extract_terms(text):
        if term.text not in query_terms:
            continue
        if ranges and term.start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], term.stop))
        else:
            ranges.append((term.start, term.stop))
    return ranges
