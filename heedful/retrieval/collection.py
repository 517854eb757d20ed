"""Passages that can be searched, and questions of which it is known where the answer stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from heedful.data.readers import Reader, Record, columns, json_file, placed_lines, read_lines, records
from heedful.errors import DataError, RecipeError


@dataclass(frozen=True)
class Passage:
    """A text that can be found.

    Attributes:
        id: what its file calls it, or its number from 1; no two passages of an index share one.
        text: never empty.
        title: empty where it has none; it is searched like the text.
    """

    id: str
    text: str
    title: str = ""

    @property
    def whole(self) -> str:
        """What is searched: title and text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True)
class Judged:
    """A question and the passages that answer it.

    Attributes:
        question: it may be empty.
        passages: their ids, at least one.
        texts: of the passages, where the file of questions holds them too; else empty.
        place: where it stands (`file:line`).
    """

    question: str
    passages: tuple[str, ...]
    texts: tuple[str, ...]
    place: str


Passages = Reader[tuple[str, Passage]]
"""Passages, each with its place (`file:line`), that can be read again and again."""


@final
class PassageLines(Passages):
    """A passage on each line, called by the line's number; lines of nothing but white space are left out."""

    def __iter__(self) -> Iterator[tuple[str, Passage]]:
        for number, place, line in placed_lines(self.paths[0]):
            yield place, Passage(str(number), line)


@final
class PassageColumns(Passages):
    """Tab-separated columns, counted from 0; a passage is called by the line's number unless a column has its id."""

    def __init__(self, path: Path, *, text: int, title: int | None = None, id: int | None = None) -> None:
        super().__init__(path)
        self._columns = (text, title, id)
        if min(column for column in self._columns if column is not None) < 0:
            raise RecipeError("columns are counted from 0; name no negative one")

    def __iter__(self) -> Iterator[tuple[str, Passage]]:
        text, title, name = self._columns
        needed = 1 + max(column for column in self._columns if column is not None)
        for number, place, line in placed_lines(self.paths[0]):
            fields = columns(line, needed, place=place)
            called = str(number) if name is None else fields[name].strip()
            yield place, Passage(called, fields[text], "" if title is None else fields[title].strip())


@final
class PassageObjects(Passages):
    """A JSON object on each line; `id` (text or number) and `title` may be missing."""

    def __init__(self, path: Path, *, text: str = "text", title: str = "title", id: str = "id") -> None:
        super().__init__(path)
        self._fields = (text, title, id)

    def __iter__(self) -> Iterator[tuple[str, Passage]]:
        text, title, name = self._fields
        for number, record in records(self.paths[0]):
            called = record.scalar(name) if name in record else str(number)
            yield record.place, Passage(called, record.text(text), record.text(title) if title in record else "")


@final
class SquadPassages(Passages):
    """The contexts of a file in SQuAD's form, called `article.paragraph`, both counted from 1."""

    def __iter__(self) -> Iterator[tuple[str, Passage]]:
        for name, title, paragraph in _paragraphs(self.paths[0]):
            yield paragraph.place, Passage(name, paragraph.text("context"), title)


def judged_questions(path: Path) -> Iterator[Judged]:
    """Questions with the passages that answer them.

    A file that ends with .json or .json.gz is in SQuAD's form: each question is answered by its own context, called as
    `SquadPassages` calls it, and questions that are marked as impossible are left out. Any other has a JSON object on
    each line, `{"question": ..., "passages": [id, ...]}`.

    Raises:
        DataError: the file is missing or of another form; the message says where.
    """
    if is_json(path):
        return _squad_questions(path)
    read_lines(path)  # which reports a missing file
    return _judged_lines(path)


def is_json(path: Path) -> bool:
    """Whether a file is one JSON object by its name, as SQuAD's are."""
    return path.name.lower().removesuffix(".gz").endswith(".json")


def _judged_lines(path: Path) -> Iterator[Judged]:
    for _, record in records(path):
        question, found = record.text("question"), record.fields.get("passages")
        if not isinstance(found, list) or not found or not all(isinstance(name, str | int) for name in found):
            raise DataError(f"{record.place}: field 'passages' must be a list of the ids of passages; mend the line")
        yield Judged(question, tuple(dict.fromkeys(map(str, found))), (), record.place)


def _squad_questions(path: Path) -> Iterator[Judged]:
    for name, _, paragraph in _paragraphs(path):
        context = paragraph.text("context")
        for qa in paragraph.inners("qas"):
            if not ("is_impossible" in qa and qa.flag("is_impossible")):
                yield Judged(qa.text("question"), (name,), (context,), qa.place)


def _paragraphs(path: Path) -> Iterator[tuple[str, str, Record]]:
    """Each with its name and the title of its article."""
    for first, article in enumerate(json_file(path).inners("data"), 1):
        title = article.text("title").replace("_", " ").strip() if "title" in article else ""
        for second, paragraph in enumerate(article.inners("paragraphs"), 1):
            yield f"{first}.{second}", title, paragraph
