"""Extractive question answering: questions about a text whose answers are parts of it, their readers and how their
files are detected.

A question without answers is one that its text does not answer. An answer must stand where its file says; see
`MisplacedPolicy` for answers that do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, final

from heedful.data.detect.checks import ENCODING_CHECKS, EmptyTextCheck, LeakageCheck, RepeatCheck, count_faults
from heedful.data.detect.file_names import DatasetPart, get_suffix
from heedful.data.detect.format import (
    CsvPartWriter,
    DataCheck,
    DataFormat,
    DatasetExample,
    DetectedDataset,
    JsonlPartWriter,
    LinePartWriter,
    PartWriter,
    SquadPartWriter,
    find_single_files,
)
from heedful.data.detect.languages import guess_language
from heedful.data.detect.sniff import FileSniff, JsonObjectsShape, JsonValueShape, TableShape, read_json_objects
from heedful.data.detect.tables import DataTable, select_tables
from heedful.data.readers import ExampleReader, JsonRecord, read_csv_rows, read_json_object, read_records
from heedful.errors import DataError

MisplacedPolicy = Literal["error", "nearest"]
"""What to do with an answer that is not at its given place: raise an error, or use the nearest place where it
stands."""

_NO_ANSWER = "ANSWERNOTFOUND"
_INDICES = re.compile(r"\((\d+), ?(\d+)\)")
SUBJQA_COLUMNS = ("question", "review", "human_ans_spans", "human_ans_indices", "q_review_id")


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
        """Return a question with its answers where they stand in the context and without duplicates; a misplaced answer
        is moved, or raises `DataError`, as the reader's `misplaced` says.
        """
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
        missing = [name for name in SUBJQA_COLUMNS if name not in header]
        if missing:
            raise DataError(f"{location}: no column {missing[0]!r}; is this a file of SubjQA?")
        for location, fields in rows:
            if len(fields) != len(header):
                raise DataError(
                    f"{location}: {len(fields)} columns where the header has {len(header)}; correct the row"
                )
            question = _parse_subjqa_row(dict(zip(header, fields, strict=True)), location=location)
            first = questions.get(question.id, replace(question, answers=(), num_moved=0))
            if (first.context, first.question) != (question.context, question.question):
                raise DataError(
                    f"{location}: the same q_review_id as at {first.location}, but another text; correct one"
                )
            questions[question.id] = replace(
                first, answers=(*first.answers, *question.answers), num_moved=first.num_moved + question.num_moved
            )
        for question in questions.values():
            yield replace(question, answers=tuple(dict.fromkeys(question.answers)))


def _parse_squad_question(qa: JsonRecord, context: str) -> ExtractiveQuestion:
    """Parse the JSON object of one question of SQuAD about a context; raise `DataError` if answers are missing that
    should be there.
    """
    impossible = "is_impossible" in qa and qa.get_bool("is_impossible")
    answer_records = [] if impossible else qa.get_objects("answers")
    if not answer_records and not impossible and "is_impossible" in qa:
        raise DataError(f"{qa.location}: no answers though is_impossible is false; correct the file")
    answers = tuple(
        ReferenceAnswer(answer.get_text("text"), answer.get_int("answer_start")) for answer in answer_records
    )
    return ExtractiveQuestion(qa.get_text("question"), context, answers, qa.get_scalar("id"), qa.location)


def _parse_subjqa_row(row: dict[str, str], *, location: str) -> ExtractiveQuestion:
    """Parse one row of SubjQA, given as fields by column; raise `DataError` at `location` if the answer is not a part
    of the review.
    """
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
            "correct or delete the row"
        )
    return replace(question, answers=(ReferenceAnswer(context[start:stop], start),), num_moved=int(stop > len(context)))


def _find_answer_start(answer: ReferenceAnswer, context: str, *, location: str, misplaced: MisplacedPolicy) -> int:
    """Return the start of an answer in its context. Raise `DataError` at `location` if it does not occur there, or if
    it is not at its given place and `misplaced` is "error"; with "nearest" return the nearest place.
    """
    if not answer.text:
        raise DataError(f"{location}: an empty answer; remove it from the list if there is no answer")
    if answer.start >= 0 and context.startswith(answer.text, answer.start):
        return answer.start
    starts = [match.start() for match in re.finditer(f"(?={re.escape(answer.text)})", context)]
    shortened = answer.text if len(answer.text) <= 40 else f"{answer.text[:40]}..."
    if not starts:
        raise DataError(f"{location}: the answer {shortened!r} does not occur in the context; correct or delete it")
    if misplaced == "error":
        raise DataError(
            f"{location}: the answer {shortened!r} is not at {answer.start} but at {starts[0]}; correct the file, "
            "or "
            'allow misplaced answers with misplaced = "nearest"'
        )
    return min(starts, key=lambda start: (abs(start - answer.start), start))


QuestionFileKind = Literal["squad", "jsonl", "subjqa", "converted"]
_CONTEXT_NAME: Final = re.compile(r"context|passage|paragraph|text|document|review")
_QUESTION_NAME: Final = re.compile(r"question|query")
_ANSWER_NAME: Final = re.compile(r"answers?(_text)?|span")


@final
@dataclass(frozen=True, kw_only=True)
class DetectedQuestions(DetectedDataset):
    """A dataset of questions, contexts and answers.

    Attributes:
        kind: the format of the file.
        tables: the table of each part, if the data is in tables.
        columns: the columns of question, context and answer.
    """

    noun: str = "questions"
    text_nouns: Sequence[str] = ("question", "context")
    truncates: bool = False  # longer contexts are read in windows
    kind: QuestionFileKind
    tables: Mapping[DatasetPart, DataTable]
    columns: tuple[str, str, str] = ("question", "context", "answers")

    @property
    def format_description(self) -> str:
        """Description of the format."""
        if self.kind == "squad":
            return "SQuAD's JSON"
        if self.kind == "subjqa":
            return "SubjQA's CSV"
        return self.tables[self.present_parts[0]].description

    @property
    def learning_description(self) -> str:
        """Description of the task."""
        if self.kind == "converted":
            question, context, answer = self.columns
            return f"{question} is answered by a part of {context}, which {answer} names"
        return "a question is answered by a part of its context"

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read one example for each question in the file of a part; questions about the same context have the same
        split key.
        """
        path = self.get_first_file(part)
        if self.kind == "squad":
            yield from _read_squad(path)
        elif self.kind == "subjqa":
            for row in self.tables[part].read_rows(["question", "review"]):
                yield DatasetExample(row.values, (), row.line, row.raw, (row.values[1],))
        elif self.kind == "jsonl":
            for line_number, record in read_json_objects(path):
                texts = record.get_text("question"), record.get_text("context")
                yield DatasetExample(texts, (), line_number, json.dumps(record.fields, ensure_ascii=False), (texts[1],))
        else:
            yield from self._convert_rows(part)

    def _convert_rows(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read the questions of a part from tables whose answers have no position; the first occurrence in the context
        is taken. Raise `DataError` if there is none.
        """
        question, context, answer = self.columns
        table = self.tables[part]
        rows: Iterator[tuple[int, str, str, list[tuple[str, int | None]]]]
        if table.is_json:
            rows = (
                (
                    line_number,
                    record.get_text(question),
                    record.get_text(context),
                    list(_iter_answers(record.fields.get(answer))),
                )
                for line_number, record in read_json_objects(table.path)
            )
        else:
            rows = (
                (row.line, row.values[0], row.values[1], list(_iter_answers(row.values[2])))
                for row in table.read_rows(self.columns)
            )
        for line_number, question_text, text, answers in rows:
            located_answers = [
                _locate_answer(answer_text, start, text, location=f"{table.path}:{line_number}")
                for answer_text, start in answers
            ]
            raw = {"question": question_text, "context": text, "answers": located_answers}
            yield DatasetExample((question_text, text), (), line_number, raw, (text,))

    def format_location(self, part: DatasetPart, example: DatasetExample) -> str:
        """Return the location of an example of a part: file and line, or in SQuAD's JSON the number of the question,
        since there are no lines.
        """
        return (
            f"{self.get_first_file(part)} question {example.line}"
            if self.kind == "squad"
            else super().format_location(part, example)
        )

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the recipe table of one part: its path in `files`, and the kind if the name of the file does not imply
        it.
        """
        kind = "jsonl" if self.kind == "converted" else self.kind
        default_kind = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "subjqa"}.get(
            get_suffix(Path(files[0])), "squad"
        )
        return {"path": files[0]} | ({} if kind == default_kind else {"kind": kind})

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build the writer of the file of a part in `folder`, in the same format, or as JSON lines if answers had to be
        located; `compress` adds gzip.
        """
        suffix = ".gz" * compress
        if self.kind == "squad":
            return SquadPartWriter(folder / f"{part}.json{suffix}")
        if self.kind == "subjqa":
            return CsvPartWriter(
                folder / f"{part}.csv{suffix}",
                header=[column.name for column in self.tables[self.present_parts[0]].columns],
            )
        path = folder / f"{part}.jsonl{suffix}"
        return JsonlPartWriter(path) if self.kind == "converted" else LinePartWriter(path)

    def build_checks(self) -> Sequence[DataCheck]:
        """Return the checks for questions; contexts may have any length."""
        repeat_checks = (
            [] if self.kind == "subjqa" else [RepeatCheck(self.noun)]
        )  # there every person's answer has a row
        return [
            LeakageCheck(),
            *count_faults(self.noun, EmptyTextCheck()),
            *repeat_checks,
            *count_faults(self.noun, *ENCODING_CHECKS),
        ]


def _read_squad(path: Path) -> Iterator[DatasetExample]:
    """Yield one example for each question of SQuAD's JSON; its line is the number of the question."""
    number = 0
    for article in read_json_object(path).get_objects("data"):
        title = article.get_text("title") if "title" in article else ""
        for paragraph in article.get_objects("paragraphs"):
            context = paragraph.get_text("context")
            for qa in paragraph.get_objects("qas"):
                number += 1
                yield DatasetExample(
                    (qa.get_text("question"), context), (), number, (title, context, qa.fields), (context,)
                )


def _iter_answers(value: object) -> Iterator[tuple[str, int | None]]:
    """Yield each answer in a JSON value (a text, a list, or an object as in SQuAD's columns) and its start; None if no
    start is given.
    """
    if isinstance(value, str):
        if value.strip():
            yield value.strip(), None
    elif isinstance(value, list):
        for item in value:
            yield from _iter_answers(item)
    elif isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start", value.get("start"))
        if isinstance(texts, list):
            start_values = starts if isinstance(starts, list) else [None] * len(texts)
            yield from (
                (text, start) for text, start in zip(texts, start_values, strict=False) if isinstance(text, str)
            )
        elif isinstance(texts, str):
            yield texts, starts if isinstance(starts, int) else None


def _locate_answer(answer: str, start: int | None, context: str, *, location: str) -> dict[str, Any]:
    """Return an answer as a JSON object with its text and its start in the context: the given start if it is right,
    else that of the first occurrence, ignoring case if necessary. Raise `DataError` at `location` if there is none.
    """
    if start is not None and context.startswith(answer, start):
        return {"text": answer, "start": start}
    index = context.find(answer)
    if index < 0:
        index = context.lower().find(answer.lower())
    if index < 0 or not answer:
        raise DataError(
            f"{location}: the answer {answer[:40]!r} does not occur in its context; correct or delete the line"
        )
    return {"text": context[index : index + len(answer)], "start": index}


@final
@dataclass(frozen=True)
class QuestionFormat(DataFormat):
    """Format of SQuAD's JSON, SubjQA's CSV, and tables or JSON lines with a question, a context and an answer."""

    confidence: float = 0.95

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield a dataset if no columns are named and the files are SQuAD's JSON, or have columns whose names mean
        question, context and answer; else nothing.
        """
        parts = find_single_files(files)
        if parts is None or columns:
            return
        if all(map(_is_squad, parts.values())):
            first_example = next(_read_squad(next(iter(parts.values())).path), None)
            texts = [] if first_example is None else [first_example.texts[1]]
            yield DetectedQuestions(
                files={part: [file.path] for part, file in parts.items()},
                confidence=self.confidence,
                languages=[guess_language(texts)],
                kind="squad",
                tables={},
            )
            return
        tables = select_tables(files)
        if tables is not None:
            yield from self._detect_in_tables(tables)

    def _detect_in_tables(self, tables: Mapping[DatasetPart, DataTable]) -> Iterator[DetectedDataset]:
        """Yield a dataset of the tables of all parts if the columns have the names of SubjQA, or names that mean
        question, context and answer; else nothing.
        """
        table = tables[next(iter(tables))]
        names = [item.name for item in table.columns]
        nested = table.shape.nested if isinstance(table.shape, JsonObjectsShape) else frozenset()
        question = _find_name(_QUESTION_NAME, names)
        answer = _find_name(_ANSWER_NAME, [*names, *nested])
        context = _find_name(_CONTEXT_NAME, [name for name in names if name not in (question, answer)])
        is_subjqa = isinstance(table.shape, TableShape) and {*names} >= {*SUBJQA_COLUMNS}
        if question is None or (not is_subjqa and (answer is None or context is None)):
            return
        has_own_format = (question, context, answer) == ("question", "context", "answers") and _has_own_format(table)
        kind: QuestionFileKind = "subjqa" if is_subjqa else "jsonl" if has_own_format else "converted"
        yield DetectedQuestions(
            files={part: [item.path] for part, item in tables.items()},
            confidence=self.confidence,
            languages=[guess_language(table.get_sample_values("review" if is_subjqa else str(context))[:200])],
            notes=[item.exclusion_note for item in tables.values() if item.exclusion_note],
            kind=kind,
            tables=tables,
            columns=(question, str(context), str(answer)),
            conversion_reason="answers need the position of their first character, so it is written as lines of JSON"
            if kind == "converted"
            else "",
        )


def _find_name(pattern: re.Pattern[str], names: Sequence[str]) -> str | None:
    """Return the first name that matches; None if there is none."""
    return next((name for name in names if pattern.fullmatch(name.lower())), None)


def _is_squad(file: FileSniff) -> bool:
    """Return whether a file is SQuAD's JSON."""
    value = file.shape.value if isinstance(file.shape, JsonValueShape) else None
    articles = value.get("data") if isinstance(value, dict) else None
    return (
        isinstance(articles, list) and bool(articles) and isinstance(articles[0], dict) and "paragraphs" in articles[0]
    )


def _has_own_format(table: DataTable) -> bool:
    """Return whether the answers in a table have heedful's own format: a list of objects with a text and a start."""
    if not isinstance(table.shape, JsonObjectsShape):
        return False
    lists = [row.get("answers") for row in table.shape.sample]
    answers = [answer for value in lists if isinstance(value, list) for answer in value]
    return all(isinstance(value, list | None) for value in lists) and all(
        isinstance(answer, dict) and "text" in answer and "start" in answer for answer in answers
    )
