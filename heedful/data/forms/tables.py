"""Tables and lines of JSON, whose rows are read by the names of columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from heedful.data.forms.columns import Profile
from heedful.data.forms.form import by_part
from heedful.data.forms.glance import LABEL_FIRST, Glance, Objects, Rows, objects, table_rows, written
from heedful.data.forms.languages import Language
from heedful.data.forms.naming import PARTS, Part
from heedful.data.forms.saving import CsvSaver, LineSaver, Saver
from heedful.errors import DataError, RecipeError
from heedful.words import near

_DELIMITERS: Final[Mapping[str, str]] = {
    "\t": "tabs",
    ",": "commas",
    ";": "semicolons",
    "|": "bars",
    LABEL_FIRST: "the first spaces of lines",
}


class Row(NamedTuple):
    """Some values of a row: where it begins, and all of it as it stands in its file."""

    values: tuple[str, ...]
    line: int
    raw: Any


@final
@dataclass(frozen=True)
class Table:
    """A table or lines of JSON.

    Attributes:
        path: the file.
        shape: what was seen of it.
        pair: the languages that its name tells.
        left_out: what is to be said of a file that does not belong to it; perhaps empty.
    """

    path: Path
    shape: Rows | Objects
    pair: tuple[Language, Language] | None = None
    left_out: str = ""

    @property
    def columns(self) -> Sequence[Profile]:
        """What they are like."""
        return self.shape.columns

    @property
    def fields(self) -> bool:
        """Whether they are fields of JSON."""
        return isinstance(self.shape, Objects)

    @property
    def listed(self) -> bool:
        """Whether these are those of one list."""
        return isinstance(self.shape, Objects) and self.shape.listed

    @property
    def delimiter(self) -> str:
        """What stands between columns; nothing in JSON."""
        return self.shape.delimiter if isinstance(self.shape, Rows) else ""

    @property
    def declared(self) -> bool:
        """Whether the first line of the file says what stands between columns."""
        return isinstance(self.shape, Rows) and self.shape.declared

    @property
    def header(self) -> bool:
        """Whether columns have names."""
        return isinstance(self.shape, Objects) or self.shape.header

    @property
    def seen(self) -> str:
        """What it is, in words."""
        names = [column.name for column in self.columns]
        if self.fields:
            what = "a list of JSON objects" if self.listed else "a JSON object on each line"
            return f"{what}, with {', '.join(names)}"
        head = f"with a header ({', '.join(names)})" if self.header else "without a header"
        if self.delimiter == LABEL_FIRST:
            return "a label at the beginning of each line, and a text behind it"
        between = _DELIMITERS.get(self.delimiter, repr(self.delimiter))
        return f"{len(names)} columns between {between}, {head}"

    def called(self, name: str) -> str:
        """A column in words."""
        return f"{'field' if self.fields else 'column'} {name}"

    def column(self, name: str, *, option: str = "--columns") -> Profile:
        """A column by its name or number, as an option says it.

        Raises:
            RecipeError: there is none.
        """
        for each in self.columns:
            if each.name == name or (name.isdecimal() and each.number == int(name) and not self.fields):
                return each
        names = [each.name for each in self.columns]
        meant = near(name, names)
        remedy = f"did you mean {meant!r}?" if meant else f"there are {', '.join(map(repr, names))}"
        raise RecipeError(f"{option}: {self.path} has no {self.called(repr(name))}; {remedy}")

    def number(self, name: str) -> int:
        """Where a column stands, counted from 0."""
        return self.column(name).number

    def values(self, name: str) -> list[str]:
        """The first values of a column."""
        if isinstance(self.shape, Objects):
            return [written(row.get(name)) for row in self.shape.sample]
        number = self.number(name)
        return [row[number] for row in self.shape.sample if number < len(row)]

    def rows(self, names: Sequence[str]) -> Iterator[Row]:
        """All rows, with the values of some columns.

        Raises:
            DataError: a row has too few columns, or a value that is no text, number or truth value.
        """
        if self.fields:
            for number, record in objects(self.path):
                values = tuple(record.scalar(name) if name in record else "" for name in names)
                yield Row(values, number, json.dumps(record.fields, ensure_ascii=False))
            return
        wanted = [self.number(name) for name in names]
        needed = max(wanted) + 1
        rows = table_rows(self.path, self.delimiter)
        if self.header:
            next(rows, None)
        for line, cells in rows:
            if len(cells) < needed:
                raise DataError(
                    f"{self.path}:{line}: {len(cells)} column{'s' * (len(cells) != 1)} where the other rows have "
                    f"{len(self.columns)}; mend the line"
                )
            raw = "\t".join(cells) if self.delimiter == "\t" else cells
            yield Row(tuple(cells[number] for number in wanted), line, raw)

    def saver(self, folder: Path, part: Part, *, zipped: bool, head: bool = True) -> Saver:
        """What writes such rows; `head` where a header is to stand above them again."""
        gz = ".gz" * zipped
        names = [column.name for column in self.columns] if self.header and head else None
        if self.fields:
            return LineSaver(folder / f"{part}.jsonl{gz}")
        if self.delimiter == "\t":
            return LineSaver(folder / f"{part}.tsv{gz}", head=None if names is None else "\t".join(names))
        return CsvSaver(folder / f"{part}.csv{gz}", head=names)


def chosen(files: Sequence[Glance]) -> dict[Part, Table] | None:
    """The table of each part; None where files are none, or several belong to one part.

    Files whose columns are others than those for training are left out, which the first table says.
    """
    parts = by_part(files)
    if any(len(each) != 1 or not isinstance(each[0].shape, Rows | Objects) for each in parts.values()):
        return None
    first = parts.get("train") or next(iter(parts.values()))
    named = first[0].named
    found: dict[Part, Table] = {}
    odd = []
    for part in sorted(parts, key=PARTS.index):
        (file,) = parts[part]
        assert isinstance(file.shape, Rows | Objects)
        if _alike(file.shape, first[0].shape):
            found[part] = Table(file.path, file.shape, named.pair)
        else:
            odd.append(f"{file.path} has other columns than {first[0].path} and is left out")
    if odd:
        part = next(iter(found))
        found[part] = Table(found[part].path, found[part].shape, named.pair, "; ".join(odd))
    return found


def _alike(one: Rows | Objects, other: object) -> bool:
    """Whether two files have the same columns."""
    if isinstance(one, Objects):
        return isinstance(other, Objects) and bool(_names(one) & _names(other) or one.nested & other.nested)
    if not isinstance(other, Rows) or one.delimiter != other.delimiter or one.header != other.header:
        return False
    return _names(one) == _names(other) if one.header else len(one.columns) == len(other.columns)


def _names(shape: Rows | Objects) -> set[str]:
    return {column.name for column in shape.columns}
