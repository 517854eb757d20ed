"""Parallel text: two files whose lines belong together, or two columns of a table."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from math import log
from pathlib import Path
from typing import Any, Final, Self, final
from zlib import crc32

from heedful.data.forms.faults import Empty, Fault, Garbled, Leaked, Repeated, show, tokens_in
from heedful.data.forms.form import Example, Form, Found, by_part
from heedful.data.forms.glance import Glance, Plain
from heedful.data.forms.languages import Language, guessed, language_called
from heedful.data.forms.naming import Part
from heedful.data.forms.pairing import Copied, Misaligned, Tongues, Unequal
from heedful.data.forms.saving import JsonlSaver, LineSaver, Saver
from heedful.data.forms.tables import Table, chosen
from heedful.data.readers import read_lines
from heedful.errors import DataError

_GUESSED: Final = 1000
"""Lines by which a language is guessed."""


@dataclass(frozen=True, kw_only=True)
class ParallelFound(Found):
    """Pairs of texts.

    Abstract: each form knows how its sides are exchanged.
    """

    noun: str = "pairs"
    together: bool = False
    parallel: bool = True
    called: Sequence[str] = ("source", "target")

    @property
    def direction(self) -> tuple[str, str] | None:
        """The tags of the language that is read and of the one that is written; None where one of them is not known.

        Two varieties of one language, such as `pt-BR` and `pt-PT`, are a direction; a language and itself are none.
        """
        tags = [language.tag for language in self.languages]
        return (tags[0], tags[1]) if len(tags) == 2 and all(tags) and tags[0] != tags[1] else None

    def sides(self, part: Part) -> Sequence[str]:
        """What both sides of a part are called in messages."""
        return [str(path) for path in self.files[part]]

    @abstractmethod
    def turned(self) -> Self:
        """Translations as sources, and sources as their translations, where both languages are known."""

    def faults(self) -> Sequence[Fault]:
        """Those of translations."""
        sides = {part: self.sides(part) for part in self.present}
        several = "with more than one target, as when several people translated them"
        remedy = "fine if all of them are right; a model learns their mean"
        return [
            Misaligned(sides),
            Tongues(self.languages, sides),
            Leaked(),
            Empty(self.noun, fatal=False),
            Repeated(self.noun, called="sources", conflict=several, remedy=remedy, least=0.01),
            Copied(self.noun),
            Unequal(self.noun),
            Garbled(self.noun),
        ]


@final
@dataclass(frozen=True, kw_only=True)
class LinesFound(ParallelFound):
    """Two files for each part.

    Attributes:
        documents: whether lines whose source is empty end documents, each of which is in one part.
    """

    documents: bool = False

    @property
    def seen(self) -> str:
        """Two files, line by line."""
        return "two files whose lines belong together"

    @property
    def taken(self) -> str:
        """The first is the source."""
        source, target = self.files[self.present[0]]
        first, second = self.languages
        known = f" ({first} to {second})" if first and second else ""
        return f"a line of {source.name} becomes that of {target.name}{known}"

    def examples(self, part: Part) -> Iterator[Example]:
        """Line by line."""
        lines = self._lines(part)
        return _by_document(lines) if self.documents else lines

    def parts_documents(self, example: Example) -> bool:
        """Where both lines are empty."""
        return self.documents and not any(map(str.strip, example.texts))

    def _lines(self, part: Part) -> Iterator[Example]:
        source, target = self.files[part]
        for number, (left, right) in enumerate(zip_longest(read_lines(source), read_lines(target)), 1):
            if left is None or right is None:
                raise DataError(parting(source, target))
            yield Example((left, right), (), number, (left, right), (left,))

    def table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """The two files."""
        return {"source": files[0], "target": files[1]}

    def turned(self) -> Self:
        """The files in the other order."""
        files = {part: both[::-1] for part, both in self.files.items()}
        return replace(self, files=files, languages=self.languages[::-1])

    def saver(self, folder: Path, part: Part, *, zipped: bool) -> Saver:
        """Two files, called by their languages where these are known."""
        codes = [language.code for language in self.languages]
        endings = codes if all(codes) and codes[0] != codes[1] else ["source", "target"]
        return LineSaver(*(folder / f"{part}.{ending}{'.gz' * zipped}" for ending in endings))


@final
@dataclass(frozen=True, kw_only=True)
class ColumnsFound(ParallelFound):
    """Two columns of a table.

    Attributes:
        tables: that of each part.
        columns: the names of both.
        as_json: whether its parts are written as lines of JSON.
        document: name of the column that says of which document a row is, each of which is in one part.
    """

    tables: Mapping[Part, Table]
    columns: tuple[str, str]
    as_json: bool = False
    document: str | None = None

    def sides(self, part: Part) -> Sequence[str]:
        """A file and a column."""
        return [f"{self.first(part)} ({self.tables[part].called(column)})" for column in self.columns]

    @property
    def seen(self) -> str:
        """The table."""
        return self.tables[self.present[0]].seen

    @property
    def taken(self) -> str:
        """The first is the source."""
        table = self.tables[self.present[0]]
        first, second = self.languages
        known = f" ({first} to {second})" if first and second else ""
        return f"{table.called(self.columns[0])} becomes {table.called(self.columns[1])}{known}"

    def examples(self, part: Part) -> Iterator[Example]:
        """Row by row."""
        columns = self.columns if self.document is None else (*self.columns, self.document)
        for row in self.tables[part].rows(columns):
            source, target, *document = row.values
            names = ("source", "target", "document")
            raw = dict(zip(names, row.values, strict=False)) if self.as_json else row.raw
            yield Example((source, target), (), row.line, raw, (*document[:1],) or (source,))

    def table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Its columns by number, fields of JSON by name."""
        if self.as_json:
            own = {} if self.document is None else {"document_field": "document"}
            return {"path": files[0], "source_field": "source", "target_field": "target", **own}
        table = self.tables[self.present[0]]
        if table.fields:
            own = {} if self.document is None else {"document_field": self.document}
            return {"path": files[0], "source_field": self.columns[0], "target_field": self.columns[1], **own}
        numbers = [table.number(column) for column in self.columns]
        said = {} if numbers == [0, 1] else {"source_column": numbers[0], "target_column": numbers[1]}
        if self.document is not None:
            said["document_column"] = table.number(self.document)
        return {"path": files[0], **said}

    def turned(self) -> Self:
        """The columns in the other order."""
        return replace(self, columns=self.columns[::-1], languages=self.languages[::-1])

    def saver(self, folder: Path, part: Part, *, zipped: bool) -> Saver:
        """The same table; lines of JSON instead of a CSV file."""
        if self.as_json:
            return JsonlSaver(folder / f"{part}.jsonl{'.gz' * zipped}")
        return self.tables[self.present[0]].saver(folder, part, zipped=zipped, head=False)


@final
@dataclass(frozen=True)
class ParallelLines(Form):
    """Two files whose lines translate each other."""

    certainty: float = 0.95

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """Two plain files for each part, in the order of the first one's languages."""
        if columns or not all(isinstance(file.shape, Plain) for file in files):
            return
        parts = by_part(files)
        if any(len(both) != 2 for both in parts.values()):
            return
        first = [file.named.language.tag for file in parts[next(iter(parts))]]
        ordered = {}
        for part, both in parts.items():
            own = [file.named.language.tag for file in both]
            ordered[part] = both[::-1] if all(own) and own == first[::-1] else both
        train = ordered.get("train") or next(iter(ordered.values()))
        languages = _languages(train)
        yield LinesFound(
            files={part: [file.path for file in both] for part, both in ordered.items()},
            certainty=self.certainty,
            languages=languages,
        )

    def hint(self, files: Sequence[Glance]) -> str:
        """What is missing, or too much, where some part has two files or more."""
        parts = by_part(files)
        if not all(isinstance(file.shape, Plain) for file in files) or max(map(len, parts.values()), default=0) < 2:
            return ""
        odd = next(((part, each) for part, each in parts.items() if len(each) != 2), None)
        if odd is None:
            return ""
        part, found = odd
        names = ", ".join(file.path.name for file in found)
        return (
            f"{names}: {len(found)} file{'s' * (len(found) > 1)} for {part}, where translations need two; name two "
            "files of text for each part, the source first, as in heedful new train.en train.de"
        )


@final
@dataclass(frozen=True)
class ParallelColumns(Form):
    """Two columns of a table, or fields of JSON, that say the same."""

    certainty: float = 0.9

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """Two free texts, in two languages if that can be told; less certain where they are in one."""
        tables = chosen(files)
        if tables is None:
            return
        table = tables[next(iter(tables))]
        if columns and len(columns) != 2:
            return
        texts = [table.column(name) for name in columns] or [each for each in table.columns if each.is_text]
        tongues = _tongues(table, [each.name for each in texts])
        pair = table.pair
        for number, one in enumerate(texts):
            for other in texts[number + 1 :]:
                languages = tongues[one.name], tongues[other.name]
                apart = all(languages) and languages[0] != languages[1]
                alone = len(texts) == 2 and len(table.columns) == 2
                if not (apart or alone or columns or (len(texts) == 2 and pair)):
                    continue
                if pair and not all(languages):
                    languages = pair
                said = bool(columns) and one.is_text and other.is_text
                certainty = self.certainty if apart or said else 0.6 if pair or alone else 0.4
                yield ColumnsFound(
                    files={part: [each.path] for part, each in tables.items()},
                    certainty=certainty,
                    languages=languages,
                    tables=tables,
                    columns=(one.name, other.name),
                    notes=[each.left_out for each in tables.values() if each.left_out],
                    as_json=table.delimiter not in ("", "\t"),
                    converted=_why_converted(table),
                )
                return


def _by_document(examples: Iterator[Example]) -> Iterator[Example]:
    """Each with the sources of its document as what decides its part, and so the empty line that ends it."""
    own: list[Example] = []
    for example in chain(examples, [None]):
        if example is not None:
            own.append(example)
        if example is None or not example.texts[0].strip():
            whole = "\n".join(each.texts[0] for each in own)
            yield from (replace(each, keys=(whole,)) for each in own)
            own = []


def _tongues(table: Table, names: Sequence[str]) -> Mapping[str, Language]:
    """The languages of columns: as called where two are called after different ones, or as their texts look."""
    called = {name: language_called(name) for name in names} if table.header else {}
    if len({language.tag for language in called.values() if language}) < 2:
        called = {}
    return {name: called.get(name) or guessed(table.values(name)[:_GUESSED]) for name in names}


def _why_converted(table: Table) -> str:
    if table.delimiter not in ("", "\t"):
        return "parallel text is not read from CSV files, so it is written as lines of JSON"
    if table.header and not table.fields:
        return "parallel text is read from tables without a header, so it is written without"
    return ""


def _languages(files: Sequence[Glance]) -> list[Language]:
    """By the names of files, or where two folders are called after languages by these, or by what stands there."""
    by_folder = [language_called(file.path.parent.name) for file in files]
    apart = all(by_folder) and len({language.tag for language in by_folder}) == len(files)
    found = []
    for file, folder in zip(files, by_folder, strict=True):
        assert isinstance(file.shape, Plain)
        found.append(file.named.language or (folder if apart else guessed(file.shape.lines[:_GUESSED])))
    return found


def parting(source: Path, target: Path) -> str:
    """In words where two files part that should have equally many lines.

    Taken is the line from which on, if the longer one's next lines are left out, the lengths of both sides and their
    digits go together best.
    """
    sizes = [_measured(source), _measured(target)]
    counts = [len(each) for each in sizes]
    said = f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}; line-aligned files must have equally many"
    longer = int(counts[1] > counts[0])
    surplus = abs(counts[0] - counts[1])
    long, short = sizes[longer], sizes[1 - longer]
    path = (source, target)[longer]
    if all(size < 0 for size in long.sizes[len(short) :]):
        return (
            f"{said}. {path} has {surplus:,} empty line{'s' * (surplus > 1)} more at its end: take "
            f"{'them' if surplus > 1 else 'it'} away"
        )
    first = _first_apart(long, short, surplus)
    lines = [_text(each, first) for each in (source, target)]
    return (
        f"{said}. They seem to part at line {first:,}, from where on {path} has {surplus:,} more:\n"
        f"  {show(f'{source}:{first}', lines[0])}\n  {show(f'{target}:{first}', lines[1])}\n"
        "Mend that place and try again; there may be others"
    )


@dataclass(frozen=True)
class _Lines:
    """The log length of each line, -1 for an empty one, and its digits as one number."""

    sizes: array[float]
    digits: array[int]

    def __len__(self) -> int:
        return len(self.sizes)


def _measured(path: Path) -> _Lines:
    found = _Lines(array("d"), array("L"))
    for line in read_lines(path):
        found.sizes.append(log(1 + tokens_in(line)) if line.strip() else -1.0)
        found.digits.append(crc32("".join(filter(str.isdigit, line)).encode()))
    return found


def _first_apart(long: _Lines, short: _Lines, surplus: int) -> int:
    """The line, counted from 1, from which on a shift by `surplus` fits best."""
    gain = best = 0.0
    first = 0
    for number in range(len(short)):
        gain += _cost(long, number + surplus, short, number) - _cost(long, number, short, number)
        if gain > best:
            best, first = gain, number + 1
    return first + 1


def _cost(long: _Lines, number: int, short: _Lines, other: int) -> float:
    """How badly two lines go together."""
    size, against = long.sizes[number], short.sizes[other]
    if (size < 0) != (against < 0):
        return 2.0
    return min(1.0, abs(size - against)) + (long.digits[number] != short.digits[other])


def _text(path: Path, number: int) -> str:
    return next((line for count, line in enumerate(read_lines(path), 1) if count == number), "")
