"""Readers of extractive question answering data: questions about a text whose answers are parts of it.

A question without answers is one that its text does not answer. An answer must stand where its file says; see
`MisplacedPolicy` for answers that do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, final

from heedful.data.labelled import read_csv_rows
from heedful.data.readers import ExampleReader, JsonRecord, read_json_object, read_records
from heedful.errors import DataError

MisplacedPolicy = Literal["error", "nearest"]
"""What to do with an answer that is not at its given place: raise an error, or use the nearest place where it
stands."""

_NO_ANSWER = "ANSWERNOTFOUND"
_INDICES = re.compile(r"\((\d+), ?(\d+)\)")
_SUBJQA_COLUMNS = ("question", "review", "human_ans_spans", "human_ans_indices", "q_review_id")


@dataclass(frozen=True)
class ReferenceAnswer:
    """A part of a text and the index of its first character."""

    text: str
    start: int

    @property
    def stop(self) -> int:
        """Index of the character after the answer."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class ExtractiveQuestion:
    """A question about a context.

    Attributes:
        question: the question; it may be empty.
        context: the text that may hold the answer.
        answers: each is `context[answer.start : answer.stop]`; empty if the context does not answer the question.
        id: id of the question in its file.
        location: where the question stands (`file`, and the path inside it).
        num_moved: number of answers that stood elsewhere than their file says and were taken from the nearest place.
    """

    question: str
    context: str
    answers: tuple[ReferenceAnswer, ...]
    id: str
    location: str
    num_moved: int = 0


class QuestionReader(ExampleReader[ExtractiveQuestion]):
    """Base of readers of questions; `misplaced` says what happens to answers that are not at their given place."""

    def __init__(self, path: Path, *, misplaced: MisplacedPolicy = "error") -> None:
        super().__init__(path)
        self._misplaced = misplaced

    def _relocate_answers(self, question: ExtractiveQuestion) -> ExtractiveQuestion:
        """Check where the answers stand, move misplaced ones if that is allowed, and drop duplicates."""
        answers, num_moved = [], 0
        for answer in question.answers:
            start = _find_answer_start(answer, question.context, location=question.location, misplaced=self._misplaced)
            num_moved += start != answer.start
            answers.append(ReferenceAnswer(answer.text, start))
        # Several people often give the same answer.
        return replace(question, answers=tuple(dict.fromkeys(answers)), num_moved=num_moved)


@final
class SquadReader(QuestionReader):
    """Read SQuAD's JSON: 1.1, and 2.0, in which `is_impossible` marks questions without an answer.

    Also reads XQuAD, MLQA and other files with `data`, `paragraphs`, `context`, `qas`, `question`, `id` and
    `answers` with `text` and `answer_start`. The file is held in memory while it is read.
    """

    def __iter__(self) -> Iterator[ExtractiveQuestion]:
        for article in read_json_object(self.paths[0]).get_objects("data"):
            for paragraph in article.get_objects("paragraphs"):
                context = paragraph.get_text("context")
                for qa in paragraph.get_objects("qas"):
                    yield self._relocate_answers(_parse_squad_question(qa, context))


@final
class QuestionsJsonl(QuestionReader):
    """Read one question from each line: `{"question": ..., "context": ..., "answers": [{"text": ..., "start": ...}]}`.

    `start` counts characters from 0. An empty or missing list of answers means that there is no answer; `id` may be
    left out.
    """

    def __iter__(self) -> Iterator[ExtractiveQuestion]:
        for number, record in read_records(self.paths[0]):
            answer_records = record.get_objects("answers") if "answers" in record else []
            answers = tuple(
                ReferenceAnswer(answer.get_text("text"), answer.get_int("start")) for answer in answer_records
            )
            question_id = record.get_scalar("id") if "id" in record else str(number)
            question, context = record.get_text("question"), record.get_text("context")
            yield self._relocate_answers(ExtractiveQuestion(question, context, answers, question_id, record.location))


@final
class SubjQAReader(QuestionReader):
    """Read SubjQA's CSV: questions about reviews (Bjerva et al. 2020).

    Answers are given by character indices; their texts are tokenized and so are not used. Every review ends with the
    mark of no answer, which is dropped; an answer that runs over it ends with the review and counts as moved. The
    answers of several people to one question become one `ExtractiveQuestion`: it has no answer if none of them found
    one.
    """

    def __iter__(self) -> Iterator[ExtractiveQuestion]:
        questions: dict[str, ExtractiveQuestion] = {}
        rows = read_csv_rows(self.paths[0])
        location, header = next(rows, (str(self.paths[0]), []))
        missing = [name for name in _SUBJQA_COLUMNS if name not in header]
        if missing:
            raise DataError(f"{location}: no column {missing[0]!r}; is this a file of SubjQA?")
        for location, fields in rows:
            if len(fields) != len(header):
                raise DataError(f"{location}: {len(fields)} columns where the header has {len(header)}; mend the row")
            question = _parse_subjqa_row(dict(zip(header, fields, strict=True)), location=location)
            first = questions.get(question.id, replace(question, answers=(), num_moved=0))
            if (first.context, first.question) != (question.context, question.question):
                raise DataError(f"{location}: the same q_review_id as at {first.location}, but another text; mend one")
            questions[question.id] = replace(
                first, answers=(*first.answers, *question.answers), num_moved=first.num_moved + question.num_moved
            )
        for question in questions.values():
            yield replace(question, answers=tuple(dict.fromkeys(question.answers)))


def _parse_squad_question(qa: JsonRecord, context: str) -> ExtractiveQuestion:
    """Parse one question of SQuAD's JSON."""
    impossible = "is_impossible" in qa and qa.get_bool("is_impossible")
    answer_records = [] if impossible else qa.get_objects("answers")
    if not answer_records and not impossible and "is_impossible" in qa:
        raise DataError(f"{qa.location}: no answers though is_impossible is false; mend the file")
    answers = tuple(
        ReferenceAnswer(answer.get_text("text"), answer.get_int("answer_start")) for answer in answer_records
    )
    return ExtractiveQuestion(qa.get_text("question"), context, answers, qa.get_scalar("id"), qa.location)


def _parse_subjqa_row(row: dict[str, str], *, location: str) -> ExtractiveQuestion:
    """Parse one row of SubjQA."""
    review = row["review"]
    context = review.removesuffix(_NO_ANSWER).rstrip() if review.endswith(_NO_ANSWER) else review
    question = ExtractiveQuestion(row["question"], context, (), row["q_review_id"], location)
    if row["human_ans_spans"] == _NO_ANSWER:
        return question
    indices = _INDICES.fullmatch(row["human_ans_indices"])
    start, stop = (int(indices[1]), int(indices[2])) if indices else (0, 0)
    if not start < min(stop, len(context)) or stop > len(review):
        raise DataError(
            f"{location}: the answer {row['human_ans_indices']} is not a part of a review of {len(review)} characters; "
            "mend or delete the row"
        )
    return replace(question, answers=(ReferenceAnswer(context[start:stop], start),), num_moved=int(stop > len(context)))


def _find_answer_start(answer: ReferenceAnswer, context: str, *, location: str, misplaced: MisplacedPolicy) -> int:
    """Return the start of an answer in its context; raise `DataError` if it is not there, or misplaced and that is
    an error.
    """
    if not answer.text:
        raise DataError(f"{location}: an empty answer; remove it from the list if there is no answer")
    if answer.start >= 0 and context.startswith(answer.text, answer.start):
        return answer.start
    starts = [match.start() for match in re.finditer(f"(?={re.escape(answer.text)})", context)]
    shortened = answer.text if len(answer.text) <= 40 else f"{answer.text[:40]}..."
    if not starts:
        raise DataError(f"{location}: the answer {shortened!r} does not occur in the context; mend or delete it")
    if misplaced == "error":
        raise DataError(
            f"{location}: the answer {shortened!r} is not at {answer.start} but at {starts[0]}; mend the file, "
            "or "
            'allow misplaced answers with misplaced = "nearest"'
        )
    return min(starts, key=lambda start: (abs(start - answer.start), start))
