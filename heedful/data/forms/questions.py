"""Questions about texts that are answered by a part of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, final

from heedful.data.forms.faults import Empty, Fault, Garbled, Leaked, Repeated
from heedful.data.forms.form import Example, Form, Found, by_part
from heedful.data.forms.glance import Document, Glance, Objects, Rows, objects
from heedful.data.forms.languages import guessed
from heedful.data.forms.naming import Part, plain_suffix
from heedful.data.forms.saving import CsvSaver, JsonlSaver, LineSaver, Saver, SquadSaver
from heedful.data.forms.tables import Table, chosen
from heedful.data.readers import json_file
from heedful.errors import DataError

Kind = Literal["squad", "jsonl", "subjqa", "converted"]
_SUBJQA: Final = frozenset({"question", "review", "human_ans_spans", "human_ans_indices", "q_review_id"})
_CONTEXT: Final = re.compile(r"context|passage|paragraph|text|document|review")
_QUESTION: Final = re.compile(r"question|query")
_ANSWER: Final = re.compile(r"answers?(_text)?|span")


@final
@dataclass(frozen=True, kw_only=True)
class QuestionsFound(Found):
    """Questions, the texts they are about, and answers.

    Attributes:
        kind: how they stand there.
        tables: of each part, where they stand in tables.
        columns: question, context and answer.
    """

    noun: str = "questions"
    called: Sequence[str] = ("question", "context")
    bounded: bool = False  # longer contexts are read in windows
    kind: Kind
    tables: Mapping[Part, Table]
    columns: tuple[str, str, str] = ("question", "context", "answers")

    @property
    def seen(self) -> str:
        """The format."""
        if self.kind == "squad":
            return "SQuAD's JSON"
        if self.kind == "subjqa":
            return "SubjQA's CSV"
        return self.tables[self.present[0]].seen

    @property
    def taken(self) -> str:
        """What is asked."""
        if self.kind == "converted":
            question, context, answer = self.columns
            return f"{question} is answered by a part of {context}, that which {answer} tells"
        return "a question is answered by a part of its context"

    def examples(self, part: Part) -> Iterator[Example]:
        """Question by question; those about the same context stay together."""
        path = self.first(part)
        if self.kind == "squad":
            yield from _squad(path)
        elif self.kind == "subjqa":
            for row in self.tables[part].rows(["question", "review"]):
                yield Example(row.values, (), row.line, row.raw, (row.values[1],))
        elif self.kind == "jsonl":
            for number, record in objects(path):
                texts = record.text("question"), record.text("context")
                yield Example(texts, (), number, json.dumps(record.fields, ensure_ascii=False), (texts[1],))
        else:
            yield from self._converted(part)

    def _converted(self, part: Part) -> Iterator[Example]:
        """Questions with answers that have no place yet: the first one in the context is taken."""
        question, context, answer = self.columns
        table = self.tables[part]
        rows: Iterator[tuple[int, str, str, list[tuple[str, int | None]]]]
        if table.fields:
            rows = (
                (number, record.text(question), record.text(context), list(_told(record.fields.get(answer))))
                for number, record in objects(table.path)
            )
        else:
            rows = (
                (row.line, row.values[0], row.values[1], list(_told(row.values[2]))) for row in table.rows(self.columns)
            )
        for number, asked, text, answers in rows:
            found = [_placed(told, start, text, place=f"{table.path}:{number}") for told, start in answers]
            raw = {"question": asked, "context": text, "answers": found}
            yield Example((asked, text), (), number, raw, (text,))

    def place(self, part: Part, example: Example) -> str:
        """Questions of SQuAD's JSON have no line of their own."""
        return f"{self.first(part)} question {example.line}" if self.kind == "squad" else super().place(part, example)

    def table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """The file, with its kind where its name does not tell it."""
        kind = "jsonl" if self.kind == "converted" else self.kind
        by_name = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "subjqa"}.get(plain_suffix(Path(files[0])), "squad")
        return {"path": files[0]} | ({} if kind == by_name else {"kind": kind})

    def saver(self, folder: Path, part: Part, *, zipped: bool) -> Saver:
        """The same form; lines of JSON where answers had to be found."""
        gz = ".gz" * zipped
        if self.kind == "squad":
            return SquadSaver(folder / f"{part}.json{gz}")
        if self.kind == "subjqa":
            return CsvSaver(
                folder / f"{part}.csv{gz}", head=[each.name for each in self.tables[self.present[0]].columns]
            )
        path = folder / f"{part}.jsonl{gz}"
        return JsonlSaver(path) if self.kind == "converted" else LineSaver(path)

    def faults(self) -> Sequence[Fault]:
        """Those of questions; contexts may have any length."""
        again = [] if self.kind == "subjqa" else [Repeated(self.noun)]  # there every person's answer has a row
        return [Leaked(), Empty(self.noun, fatal=False), *again, Garbled(self.noun)]


def _squad(path: Path) -> Iterator[Example]:
    number = 0
    for article in json_file(path).inners("data"):
        title = article.text("title") if "title" in article else ""
        for paragraph in article.inners("paragraphs"):
            context = paragraph.text("context")
            for qa in paragraph.inners("qas"):
                number += 1
                yield Example((qa.text("question"), context), (), number, (title, context, qa.fields), (context,))


def _told(value: object) -> Iterator[tuple[str, int | None]]:
    """Answers with the place where they begin, as far as it is told: a text, several, or SQuAD's columns of them."""
    if isinstance(value, str):
        if value.strip():
            yield value.strip(), None
    elif isinstance(value, list):
        for each in value:
            yield from _told(each)
    elif isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start", value.get("start"))
        if isinstance(texts, list):
            begun = starts if isinstance(starts, list) else [None] * len(texts)
            yield from ((text, start) for text, start in zip(texts, begun, strict=False) if isinstance(text, str))
        elif isinstance(texts, str):
            yield texts, starts if isinstance(starts, int) else None


def _placed(answer: str, start: int | None, context: str, *, place: str) -> dict[str, Any]:
    """An answer where it stands."""
    if start is not None and context.startswith(answer, start):
        return {"text": answer, "start": start}
    found = context.find(answer)
    if found < 0:
        found = context.lower().find(answer.lower())
    if found < 0 or not answer:
        raise DataError(f"{place}: the answer {answer[:40]!r} does not stand in its context; mend or delete the line")
    return {"text": context[found : found + len(answer)], "start": found}


@final
@dataclass(frozen=True)
class Questions(Form):
    """SQuAD's JSON, SubjQA's CSV, and tables or lines of JSON with a question, a context and an answer."""

    certainty: float = 0.95

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """By names of keys and columns."""
        parts = by_part(files)
        if any(len(each) > 1 for each in parts.values()) or columns:
            return
        if all(_is_squad(each[0]) for each in parts.values()):
            asked = next(_squad(next(iter(parts.values()))[0].path), None)
            texts = [] if asked is None else [asked.texts[1]]
            yield QuestionsFound(
                files={part: [each[0].path] for part, each in parts.items()},
                certainty=self.certainty,
                languages=[guessed(texts)],
                kind="squad",
                tables={},
            )
            return
        tables = chosen(files)
        if tables is not None:
            yield from self._in_tables(tables)

    def _in_tables(self, tables: Mapping[Part, Table]) -> Iterator[Found]:
        table = tables[next(iter(tables))]
        names = [each.name for each in table.columns]
        nested = table.shape.nested if isinstance(table.shape, Objects) else frozenset()
        question = _named(_QUESTION, names)
        answer = _named(_ANSWER, [*names, *nested])
        context = _named(_CONTEXT, [name for name in names if name not in (question, answer)])
        subjqa = isinstance(table.shape, Rows) and {*names} >= _SUBJQA
        if question is None or (not subjqa and (answer is None or context is None)):
            return
        ours = (question, context, answer) == ("question", "context", "answers") and _is_ours(table)
        kind: Kind = "subjqa" if subjqa else "jsonl" if ours else "converted"
        yield QuestionsFound(
            files={part: [each.path] for part, each in tables.items()},
            certainty=self.certainty,
            languages=[guessed(table.values("review" if subjqa else str(context))[:200])],
            notes=[each.left_out for each in tables.values() if each.left_out],
            kind=kind,
            tables=tables,
            columns=(question, str(context), str(answer)),
            converted="answers are read with the character where they begin, so it is written as lines of JSON"
            if kind == "converted"
            else "",
        )


def _named(pattern: re.Pattern[str], names: Sequence[str]) -> str | None:
    return next((name for name in names if pattern.fullmatch(name.lower())), None)


def _is_squad(file: Glance) -> bool:
    value = file.shape.value if isinstance(file.shape, Document) else None
    articles = value.get("data") if isinstance(value, dict) else None
    return (
        isinstance(articles, list) and bool(articles) and isinstance(articles[0], dict) and "paragraphs" in articles[0]
    )


def _is_ours(table: Table) -> bool:
    """Whether answers stand as they are read: a list of objects with a text and a start."""
    if not isinstance(table.shape, Objects):
        return False
    lists = [row.get("answers") for row in table.shape.sample]
    answers = [each for value in lists if isinstance(value, list) for each in value]
    return all(isinstance(value, list | None) for value in lists) and all(
        isinstance(each, dict) and "text" in each and "start" in each for each in answers
    )
