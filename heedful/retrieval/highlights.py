"""Highlight the answer in found passages, or the rare query terms if there is no answering model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from heedful.retrieval.rankings import Ordering, SearchHit, find_term_matches
from heedful.tasks.spans.predictor import SpanAnswer

TextRange = tuple[int, int]
_Highlights = tuple[tuple[TextRange, ...], str | None, float | None]


@runtime_checkable
class SupportsAnswering(Protocol):
    """Object that answers questions from texts, such as `QuestionAnsweringPredictor`."""

    def answer_all(self, questions: Sequence[tuple[str, str]]) -> Sequence[SpanAnswer]:
        """Answer each (question, text) pair."""
        ...


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

    @property
    def json_record(self) -> dict[str, Any]:
        """The passage as a JSON object."""
        passage = self.hit.passage
        content: dict[str, Any] = {
            "rank": self.hit.rank,
            "id": passage.id,
            "title": passage.title,
            "text": passage.text,
            "score": self.hit.score,
            "bm25": self.hit.bm25,
            "cosine": self.hit.cosine,
            "marks": [list(mark) for mark in self.marks],
        }
        if self.answer is not None:
            content |= {"answer": self.answer, "probability": self.probability}
        return content


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


def build_search_record(query: str, rankings: Mapping[Ordering, Sequence[HighlightedPassage]]) -> dict[str, Any]:
    """Return a query and its found passages, best first by ordering, as a JSON object."""
    return {
        "query": query,
        "orders": {ordering: [passage.json_record for passage in ranking] for ordering, ranking in rankings.items()},
    }


def _highlight_answer(answer: SpanAnswer) -> _Highlights:
    """Return the character ranges, the text and the probability of the best answer of a passage; if there is none, no
    range, an empty text, and the probability that there is none.
    """
    if not answer.text:
        return (), "", answer.no_answer_probability
    best = answer.spans[0]
    return ((best.start, best.stop),), answer.text, best.probability
