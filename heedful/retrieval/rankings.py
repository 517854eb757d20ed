"""Rank passages by words (BM25), by vectors (cosine), or by the product of both, and highlight the answer in those
found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from heedful.errors import RecipeError
from heedful.retrieval.bm25 import extract_terms
from heedful.retrieval.passages import SearchPassage
from heedful.tasks.predictor import AnswerRecord
from heedful.tasks.spans.predictor import SpanAnswer

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


TextRange = tuple[int, int]
_Highlights = tuple[tuple[TextRange, ...], str | None, float | None]


@runtime_checkable
class SupportsAnswering(Protocol):
    """Object that answers questions from texts, such as `QuestionAnsweringPredictor`."""

    def answer_all(self, questions: Sequence[tuple[str, str]]) -> Sequence[SpanAnswer]:
        """Answer each (question, text) pair."""
        ...


class PassageRecord(AnswerRecord):
    """A passage that was found."""

    rank: int
    id: str
    title: str
    text: str
    score: float
    bm25: float
    cosine: float | None
    marks: list[list[int]]
    """where the text is marked: first character and the one behind"""
    answer: str | None = None
    probability: float | None = None


class QueryResultRecord(AnswerRecord):
    """The passages found for a query, as `heedful search --format jsonl` writes them."""

    query: str
    orders: dict[str, list[PassageRecord]]


@dataclass(frozen=True)
class HighlightedPassage:
    """A found passage and the highlights in its text.

    Attributes:
        hit: the passage.
        marks: character ranges, in order.
        answer: the answer of a model from this passage, empty if the model says there is none; None without a model.
        probability: of that answer, or of there being none.
    """

    hit: SearchHit
    marks: tuple[TextRange, ...]
    answer: str | None = None
    probability: float | None = None

    def to_record(self) -> PassageRecord:
        """Return the record of the passage."""
        hit, passage, fields = self.hit, self.hit.passage, dict[str, Any]()
        if self.answer is not None:
            fields = {"answer": self.answer, "probability": self.probability}
        return PassageRecord(
            rank=hit.rank,
            id=passage.id,
            title=passage.title,
            text=passage.text,
            score=hit.score,
            bm25=hit.bm25,
            cosine=hit.cosine,
            marks=list(map(list, self.marks)),
            **fields,
        )


def highlight_passages(
    query: str,
    rankings: Mapping[Ordering, Sequence[SearchHit]],
    *,
    rare_terms: Collection[str],
    answerer: SupportsAnswering | None,
) -> dict[Ordering, list[HighlightedPassage]]:
    """Highlight the answers of `answerer` in the found passages of each ordering, or else `rare_terms`; each passage is
    answered once.

    Args:
        query: the question.
        rankings: passages, best first, by ordering.
        rare_terms: query terms that are highlighted if there is no answerer.
        answerer: finds answers in passages.
    """
    hits = {hit.passage.id: hit for ranking in rankings.values() for hit in ranking}
    if answerer is None:
        highlights: list[_Highlights] = [
            (tuple(find_term_matches(rare_terms, hit.passage.text)), None, None) for hit in hits.values()
        ]
    else:
        answers = answerer.answer_all([(query, hit.passage.text) for hit in hits.values()]) if hits else ()
        highlights = [_highlight_answer(answer) for answer in answers]
    highlights_by_id = dict(zip(hits, highlights, strict=True))
    return {
        ordering: [HighlightedPassage(hit, *highlights_by_id[hit.passage.id]) for hit in ranking]
        for ordering, ranking in rankings.items()
    }


def build_search_record(query: str, rankings: Mapping[Ordering, Sequence[HighlightedPassage]]) -> QueryResultRecord:
    """Return the record of a query and its found passages, best first by ordering."""
    orders: dict[str, list[PassageRecord]] = {
        ordering: [passage.to_record() for passage in ranking] for ordering, ranking in rankings.items()
    }
    return QueryResultRecord(query=query, orders=orders)


def _highlight_answer(answer: SpanAnswer) -> _Highlights:
    """Return the character ranges, the text and the probability of the best answer of a passage; if there is none, no
    range, an empty text, and the probability that there is none.
    """
    if not answer.text:
        return (), "", answer.no_answer_probability
    best = answer.spans[0]
    return ((best.start, best.stop),), answer.text, best.probability
