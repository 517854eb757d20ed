"""Questions about a text whose answers are parts of it.

A question without answers is one that its text does not answer. An answer has to stand where its file says; what
happens otherwise is `Misplaced`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, final

from heedful.data.labelled import csv_rows
from heedful.data.readers import Reader, Record, json_file, records
from heedful.errors import DataError

Misplaced = Literal["error", "nearest"]
"""Of an answer that is not where it should be: refuse, or take the nearest place in the text where it does stand."""

_NOT_FOUND = "ANSWERNOTFOUND"
_INDICES = re.compile(r"\((\d+), ?(\d+)\)")
_SUBJQA = ("question", "review", "human_ans_spans", "human_ans_indices", "q_review_id")


@dataclass(frozen=True)
class Answer:
    """A part of a text and the character at which it begins."""

    text: str
    start: int

    @property
    def stop(self) -> int:
        """The character behind it."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Question:
    """A question about a context.

    Attributes:
        question: it may be empty.
        context: the text that may hold the answer.
        answers: each `context[answer.start : answer.stop]`; none where the context does not answer the question.
        id: what its file calls it.
        place: where it stands (`file`, with what leads there).
        moved: how many of the answers stood elsewhere than their file says and were taken from the nearest place.
    """

    question: str
    context: str
    answers: tuple[Answer, ...]
    id: str
    place: str
    moved: int = 0


class QuestionReader(Reader[Question]):
    """Questions that can be read again and again; `misplaced` says what happens to answers that are not there."""

    def __init__(self, path: Path, *, misplaced: Misplaced = "error") -> None:
        super().__init__(path)
        self._misplaced = misplaced

    def _placed(self, question: Question) -> Question:
        answers, moved = [], 0
        for answer in question.answers:
            start = _start(answer, question.context, place=question.place, misplaced=self._misplaced)
            moved += start != answer.start
            answers.append(Answer(answer.text, start))
        # Several people often give the same answer.
        return replace(question, answers=tuple(dict.fromkeys(answers)), moved=moved)


@final
class Squad(QuestionReader):
    """SQuAD's JSON: 1.1, and 2.0, in which `is_impossible` marks questions without an answer.

    Reads XQuAD, MLQA and whatever else has `data`, `paragraphs`, `context`, `qas`, `question`, `id` and
    `answers` with `text` and `answer_start`. The file is held in memory while it is read.
    """

    def __iter__(self) -> Iterator[Question]:
        for article in json_file(self.paths[0]).inners("data"):
            for paragraph in article.inners("paragraphs"):
                context = paragraph.text("context")
                for qa in paragraph.inners("qas"):
                    yield self._placed(_squad(qa, context))


@final
class QuestionsJsonl(QuestionReader):
    """A question on each line: `{"question": ..., "context": ..., "answers": [{"text": ..., "start": ...}]}`.

    `start` counts characters from 0. An empty list of answers, or none, says that there is no answer; `id` may
    be left out.
    """

    def __iter__(self) -> Iterator[Question]:
        for number, record in records(self.paths[0]):
            found = record.inners("answers") if "answers" in record else []
            answers = tuple(Answer(answer.text("text"), answer.integer("start")) for answer in found)
            name = record.scalar("id") if "id" in record else str(number)
            question, context = record.text("question"), record.text("context")
            yield self._placed(Question(question, context, answers, name, record.place))


@final
class SubjQA(QuestionReader):
    """SubjQA's CSV: questions about reviews (Bjerva et al. 2020).

    Its answers are given by characters; their texts are cut into words and so are not used. Every review ends with
    the mark of no answer, which is dropped; an answer that runs on over it ends with the review and counts as moved.
    What several people said of one question is one `Question`: it has no answer where nobody found one.
    """

    def __iter__(self) -> Iterator[Question]:
        found: dict[str, Question] = {}
        rows = csv_rows(self.paths[0])
        place, head = next(rows, (str(self.paths[0]), []))
        missing = [name for name in _SUBJQA if name not in head]
        if missing:
            raise DataError(f"{place}: no column {missing[0]!r}; is this a file of SubjQA?")
        for place, fields in rows:
            if len(fields) != len(head):
                raise DataError(f"{place}: {len(fields)} columns where the header has {len(head)}; mend the row")
            question = _subjqa(dict(zip(head, fields, strict=True)), place=place)
            first = found.get(question.id, replace(question, answers=(), moved=0))
            if (first.context, first.question) != (question.context, question.question):
                raise DataError(f"{place}: the same q_review_id as at {first.place}, but another text; mend one")
            found[question.id] = replace(
                first, answers=(*first.answers, *question.answers), moved=first.moved + question.moved
            )
        for question in found.values():
            yield replace(question, answers=tuple(dict.fromkeys(question.answers)))


def _squad(qa: Record, context: str) -> Question:
    impossible = "is_impossible" in qa and qa.flag("is_impossible")
    given = [] if impossible else qa.inners("answers")
    if not given and not impossible and "is_impossible" in qa:
        raise DataError(f"{qa.place}: no answers though is_impossible is false; mend the file")
    answers = tuple(Answer(answer.text("text"), answer.integer("answer_start")) for answer in given)
    return Question(qa.text("question"), context, answers, qa.scalar("id"), qa.place)


def _subjqa(row: dict[str, str], *, place: str) -> Question:
    review = row["review"]
    context = review.removesuffix(_NOT_FOUND).rstrip() if review.endswith(_NOT_FOUND) else review
    question = Question(row["question"], context, (), row["q_review_id"], place)
    if row["human_ans_spans"] == _NOT_FOUND:
        return question
    indices = _INDICES.fullmatch(row["human_ans_indices"])
    start, stop = (int(indices[1]), int(indices[2])) if indices else (0, 0)
    if not start < min(stop, len(context)) or stop > len(review):
        raise DataError(
            f"{place}: the answer {row['human_ans_indices']} is no part of a review of {len(review)} characters; "
            "mend or delete the row"
        )
    return replace(question, answers=(Answer(context[start:stop], start),), moved=int(stop > len(context)))


def _start(answer: Answer, context: str, *, place: str, misplaced: Misplaced) -> int:
    if not answer.text:
        raise DataError(f"{place}: an empty answer; leave it out of the list if there is none")
    if answer.start >= 0 and context.startswith(answer.text, answer.start):
        return answer.start
    there = [match.start() for match in re.finditer(f"(?={re.escape(answer.text)})", context)]
    shown = answer.text if len(answer.text) <= 40 else f"{answer.text[:40]}..."
    if not there:
        raise DataError(f"{place}: the answer {shown!r} does not stand in the context; mend or delete it")
    if misplaced == "error":
        raise DataError(
            f"{place}: the answer {shown!r} does not stand at {answer.start} but at {there[0]}; mend the file, or "
            'allow misplaced answers with misplaced = "nearest"'
        )
    return min(there, key=lambda start: (abs(start - answer.start), start))
