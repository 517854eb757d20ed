"""What is marked in passages that were found: the answer, where a model tells it, else the telling terms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from heedful.retrieval.orders import Hit, Ordering, matches
from heedful.tasks.spans.face import Answered

Mark = tuple[int, int]
_Told = tuple[tuple[Mark, ...], str | None, float | None]


@runtime_checkable
class Answers(Protocol):
    """What finds answers in texts, as `Answerer` does."""

    def answer_all(self, questions: Sequence[tuple[str, str]]) -> Sequence[Answered]:
        """What the text of each pair answers to its question."""
        ...


@dataclass(frozen=True)
class Shown:
    """A passage that was found, and what is marked in its text.

    Attributes:
        hit: the passage.
        marks: first character and the one behind, in order.
        answer: what a model answers by this passage, empty where it says that it does not tell; None without a model.
        probability: of that answer, or of there being none.
    """

    hit: Hit
    marks: tuple[Mark, ...]
    answer: str | None = None
    probability: float | None = None

    @property
    def record(self) -> dict[str, Any]:
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


def marks_of(
    query: str, orders: Mapping[Ordering, Sequence[Hit]], *, telling: Collection[str], answerer: Answers | None
) -> dict[Ordering, list[Shown]]:
    """The passages for a question by each ordering, with what is marked in each.

    Args:
        query: the question.
        orders: passages, best first.
        telling: terms of the question that tell something, marked where there is no answerer.
        answerer: finds answers in passages.
    """
    hits = {hit.passage.id: hit for each in orders.values() for hit in each}
    if answerer is None:
        told: list[_Told] = [(tuple(matches(telling, hit.passage.text)), None, None) for hit in hits.values()]
    else:
        answers = answerer.answer_all([(query, hit.passage.text) for hit in hits.values()]) if hits else ()
        told = [_told(answer) for answer in answers]
    known = dict(zip(hits, told, strict=True))
    return {by: [Shown(hit, *known[hit.passage.id]) for hit in each] for by, each in orders.items()}


def record(query: str, orders: Mapping[Ordering, Sequence[Shown]]) -> dict[str, Any]:
    """A question and its passages as JSON has them."""
    return {"query": query, "orders": {by: [each.record for each in shown] for by, shown in orders.items()}}


def _told(answer: Answered) -> _Told:
    if not answer.text:
        return (), "", answer.none
    best = answer.spans[0]
    return ((best.start, best.stop),), answer.text, best.probability
