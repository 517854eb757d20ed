"""What is marked in passages that were found: the answer, where a model tells it, else the telling terms."""

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
    """What finds answers in texts, as `QuestionAnsweringPredictor` does."""

    def answer_all(self, questions: Sequence[tuple[str, str]]) -> Sequence[SpanAnswer]:
        """What the text of each pair answers to its question."""
        ...


@dataclass(frozen=True)
class HighlightedPassage:
    """A passage that was found, and what is marked in its text.

    Attributes:
        hit: the passage.
        marks: first character and the one behind, in order.
        answer: what a model answers by this passage, empty where it says that it does not tell; None without a model.
        probability: of that answer, or of there being none.
    """

    hit: SearchHit
    marks: tuple[TextRange, ...]
    answer: str | None = None
    probability: float | None = None

    @property
    def json_record(self) -> dict[str, Any]:
        """As JSON has it."""
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
    """The passages for a question by each ordering, with what is marked in each.

    Args:
        query: the question.
        rankings: passages, best first.
        rare_terms: terms of the question that tell something, marked where there is no answerer.
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
    """A question and its passages as JSON has them."""
    return {
        "query": query,
        "orders": {ordering: [passage.json_record for passage in ranking] for ordering, ranking in rankings.items()},
    }


def _highlight_answer(answer: SpanAnswer) -> _Highlights:
    if not answer.text:
        return (), "", answer.no_answer_probability
    best = answer.spans[0]
    return ((best.start, best.stop),), answer.text, best.probability
