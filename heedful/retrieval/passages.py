"""Passages to search, and questions with known relevant passages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from heedful.compression import strip_compression_suffix
from heedful.data.readers import (
    ExampleReader,
    JsonRecord,
    read_json_object,
    read_lines,
    read_numbered_lines,
    read_records,
    split_columns,
)
from heedful.errors import DataError, RecipeError


@dataclass(frozen=True)
class SearchPassage:
    """A text that can be searched.

    Attributes:
        id: its id in the file, or its number from 1; unique in an index.
        text: never empty.
        title: empty if it has none; searched like the text.
    """

    id: str
    text: str
    title: str = ""

    @property
    def full_text(self) -> str:
        """Title and text, which are searched."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True)
class JudgedQuestion:
    """A question and the passages that answer it.

    Attributes:
        question: may be empty.
        passages: ids of the passages, at least one.
        texts: of the passages, if the file of questions contains them too; else empty.
        location: location in the file (`file:line`).
    """

    question: str
    passages: tuple[str, ...]
    texts: tuple[str, ...]
    location: str


PassageReader = ExampleReader[tuple[str, SearchPassage]]
"""Reader of passages with their location (`file:line`), which can be iterated repeatedly."""


@final
class PassageLines(PassageReader):
    """Reader of one passage per line, whose id is the line number; blank lines are skipped."""

    def __iter__(self) -> Iterator[tuple[str, SearchPassage]]:
        for number, place, line in read_numbered_lines(self.paths[0]):
            yield place, SearchPassage(str(number), line)


@final
class PassageColumns(PassageReader):
    """Reader of tab-separated columns, counted from 0; the id is the line number unless a column has it."""

    def __init__(
        self, path: Path, *, text_column: int, title_column: int | None = None, id_column: int | None = None
    ) -> None:
        super().__init__(path)
        self._columns = (text_column, title_column, id_column)
        if min(column for column in self._columns if column is not None) < 0:
            raise RecipeError("columns are counted from 0; do not give a negative one")

    def __iter__(self) -> Iterator[tuple[str, SearchPassage]]:
        text_column, title_column, id_column = self._columns
        num_columns = 1 + max(column for column in self._columns if column is not None)
        for number, location, line in read_numbered_lines(self.paths[0]):
            fields = split_columns(line, num_columns, location=location)
            passage_id = str(number) if id_column is None else fields[id_column].strip()
            yield (
                location,
                SearchPassage(
                    passage_id, fields[text_column], "" if title_column is None else fields[title_column].strip()
                ),
            )


@final
class PassageObjects(PassageReader):
    """Reader of one JSON object per line; `id` (text or number) and `title` may be missing."""

    def __init__(
        self, path: Path, *, text_field: str = "text", title_field: str = "title", id_field: str = "id"
    ) -> None:
        super().__init__(path)
        self._fields = (text_field, title_field, id_field)

    def __iter__(self) -> Iterator[tuple[str, SearchPassage]]:
        text_field, title_field, id_field = self._fields
        for number, record in read_records(self.paths[0]):
            passage_id = record.get_scalar(id_field) if id_field in record else str(number)
            yield (
                record.location,
                SearchPassage(
                    passage_id,
                    record.get_text(text_field),
                    record.get_text(title_field) if title_field in record else "",
                ),
            )


@final
class SquadPassages(PassageReader):
    """Reader of the contexts of a SQuAD file, with ids `article.paragraph`, both counted from 1."""

    def __iter__(self) -> Iterator[tuple[str, SearchPassage]]:
        for name, title, paragraph in _iter_squad_paragraphs(self.paths[0]):
            yield paragraph.location, SearchPassage(name, paragraph.get_text("context"), title)


def read_judged_questions(path: Path) -> Iterator[JudgedQuestion]:
    """Return the questions of a file with the passages that answer them.

    A file ending in .json or .json.gz is in SQuAD format: each question is answered by its own context, with the ids of
    `SquadPassages`, and questions marked as impossible are left out. Any other file has a JSON object on each line,
    `{"question": ..., "passages": [id, ...]}`.

    Raises:
        DataError: the file is missing or has another format; the message names the location.
    """
    if is_json_file(path):
        return _read_squad_questions(path)
    read_lines(path)  # which reports a missing file
    return _read_judged_lines(path)


def is_json_file(path: Path) -> bool:
    """Return whether the name of a file says that it is one JSON object, such as SQuAD."""
    return strip_compression_suffix(path.name.lower()).endswith(".json")


def _read_judged_lines(path: Path) -> Iterator[JudgedQuestion]:
    """Yield the questions of a file with one JSON object per line; raise `DataError` if `passages` is not a list of one
    id or more.
    """
    for _, record in read_records(path):
        question, passage_ids = record.get_text("question"), record.fields.get("passages")
        if (
            not isinstance(passage_ids, list)
            or not passage_ids
            or not all(isinstance(name, str | int) for name in passage_ids)
        ):
            raise DataError(
                f"{record.location}: field 'passages' must be a list of the ids of passages; correct the line"
            )
        yield JudgedQuestion(question, tuple(dict.fromkeys(map(str, passage_ids))), (), record.location)


def _read_squad_questions(path: Path) -> Iterator[JudgedQuestion]:
    """Yield the answerable questions of a SQuAD file with their contexts."""
    for name, _, paragraph in _iter_squad_paragraphs(path):
        context = paragraph.get_text("context")
        for qa in paragraph.get_objects("qas"):
            if not ("is_impossible" in qa and qa.get_bool("is_impossible")):
                yield JudgedQuestion(qa.get_text("question"), (name,), (context,), qa.location)


def _iter_squad_paragraphs(path: Path) -> Iterator[tuple[str, str, JsonRecord]]:
    """Yield each paragraph of a SQuAD file with its id (`article.paragraph`) and the title of its article."""
    for article_number, article in enumerate(read_json_object(path).get_objects("data"), 1):
        title = article.get_text("title").replace("_", " ").strip() if "title" in article else ""
        for paragraph_number, paragraph in enumerate(article.get_objects("paragraphs"), 1):
            yield f"{article_number}.{paragraph_number}", title, paragraph
