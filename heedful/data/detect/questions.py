"""Detect extractive question answering data: questions about texts that are answered by a part of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, final

from heedful.data.detect.checks import (
    ENCODING_CHECKS,
    DataCheck,
    EmptyTextCheck,
    LeakageCheck,
    RepeatCheck,
    count_faults,
)
from heedful.data.detect.file_names import DatasetPart, get_suffix
from heedful.data.detect.format import DataFormat, DatasetExample, DetectedDataset, group_by_part
from heedful.data.detect.languages import guess_language
from heedful.data.detect.part_writers import CsvPartWriter, JsonlPartWriter, LinePartWriter, PartWriter, SquadPartWriter
from heedful.data.detect.sniff import FileSniff, JsonObjectsShape, JsonValueShape, TableShape, read_json_objects
from heedful.data.detect.tables import DataTable, select_tables
from heedful.data.readers import read_json_object
from heedful.errors import DataError

QuestionFileKind = Literal["squad", "jsonl", "subjqa", "converted"]
_SUBJQA_COLUMNS: Final = frozenset({"question", "review", "human_ans_spans", "human_ans_indices", "q_review_id"})
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
        """Read one example for each question; questions about the same context have the same split key."""
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
        """Read questions whose answers have no position; the first occurrence in the context is taken."""
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
        """Return the location of a question; in SQuAD's JSON its number, since there are no lines."""
        return (
            f"{self.get_first_file(part)} question {example.line}"
            if self.kind == "squad"
            else super().format_location(part, example)
        )

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the path, and the kind if the name of the file does not imply it."""
        kind = "jsonl" if self.kind == "converted" else self.kind
        default_kind = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "subjqa"}.get(
            get_suffix(Path(files[0])), "squad"
        )
        return {"path": files[0]} | ({} if kind == default_kind else {"kind": kind})

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build a writer of the same format; of JSON lines if answers had to be located."""
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
    """Read the questions of SQuAD's JSON."""
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
    """Yield each answer and its start, None if it is not given, from a text, a list, or SQuAD's columns."""
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
    """Return an answer with its start in the context; raise `DataError` if it is not there."""
    if start is not None and context.startswith(answer, start):
        return {"text": answer, "start": start}
    index = context.find(answer)
    if index < 0:
        index = context.lower().find(answer.lower())
    if index < 0 or not answer:
        raise DataError(
            f"{location}: the answer {answer[:40]!r} does not occur in its context; mend or delete the line"
        )
    return {"text": context[index : index + len(answer)], "start": index}


@final
@dataclass(frozen=True)
class QuestionFormat(DataFormat):
    """Format of SQuAD's JSON, SubjQA's CSV, and tables or JSON lines with a question, a context and an answer."""

    confidence: float = 0.95

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Detect questions by the names of keys and columns."""
        parts = group_by_part(files)
        if any(len(part_files) > 1 for part_files in parts.values()) or columns:
            return
        if all(_is_squad(part_files[0]) for part_files in parts.values()):
            first_example = next(_read_squad(next(iter(parts.values()))[0].path), None)
            texts = [] if first_example is None else [first_example.texts[1]]
            yield DetectedQuestions(
                files={part: [part_files[0].path] for part, part_files in parts.items()},
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
        """Detect questions in tables or JSON lines."""
        table = tables[next(iter(tables))]
        names = [item.name for item in table.columns]
        nested = table.shape.nested if isinstance(table.shape, JsonObjectsShape) else frozenset()
        question = _find_name(_QUESTION_NAME, names)
        answer = _find_name(_ANSWER_NAME, [*names, *nested])
        context = _find_name(_CONTEXT_NAME, [name for name in names if name not in (question, answer)])
        is_subjqa = isinstance(table.shape, TableShape) and {*names} >= _SUBJQA_COLUMNS
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
    """Return whether answers have heedful's own format: a list of objects with a text and a start."""
    if not isinstance(table.shape, JsonObjectsShape):
        return False
    lists = [row.get("answers") for row in table.shape.sample]
    answers = [answer for value in lists if isinstance(value, list) for answer in value]
    return all(isinstance(value, list | None) for value in lists) and all(
        isinstance(answer, dict) and "text" in answer and "start" in answer for answer in answers
    )
