"""Highlight the answer in found passages, or the rare query terms if there is no answering model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from heedful.retrieval.rankings import Ordering, SearchHit, find_term_matches
from heedful.tasks.records import AnswerRecord
from heedful.tasks.spans.predictor import SpanAnswer

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
