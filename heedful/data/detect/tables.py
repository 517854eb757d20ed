"""Tables and JSON lines whose rows are read by column names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from heedful.data.detect.column_profiles import ColumnProfile
from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import CsvPartWriter, LinePartWriter, PartWriter, find_single_files
from heedful.data.detect.languages import LanguageInfo
from heedful.data.detect.sniff import (
    LABEL_FIRST,
    FileSniff,
    JsonObjectsShape,
    TableShape,
    format_value,
    read_json_objects,
    read_table_rows,
)
from heedful.english_words import closest_match
from heedful.errors import DataError, RecipeError

_DELIMITER_NAMES: Final[Mapping[str, str]] = {
    "\t": "tabs",
    ",": "commas",
    ";": "semicolons",
    "|": "bars",
    LABEL_FIRST: "the first spaces of lines",
}


class TableRow(NamedTuple):
    """Selected values of a row, the line where it begins, and the whole row as it is written."""

    values: tuple[str, ...]
    line: int
    raw: Any


@final
@dataclass(frozen=True)
class DataTable:
    """A table or a file of JSON objects.

    Attributes:
        path: the file.
        shape: the detected shape of the file.
        language_pair: the languages in the file's name.
        exclusion_note: message about files that are left out because of other columns; may be empty.
    """

    path: Path
    shape: TableShape | JsonObjectsShape
    language_pair: tuple[LanguageInfo, LanguageInfo] | None = None
    exclusion_note: str = ""

    @property
    def columns(self) -> Sequence[ColumnProfile]:
        """Profiles of the columns."""
        return self.shape.columns

    @property
    def is_json(self) -> bool:
        """Whether the columns are fields of JSON objects."""
        return isinstance(self.shape, JsonObjectsShape)

    @property
    def is_list(self) -> bool:
        """Whether the JSON objects are in one list."""
        return isinstance(self.shape, JsonObjectsShape) and self.shape.is_list

    @property
    def delimiter(self) -> str:
        """What stands between columns; empty for JSON."""
        return self.shape.delimiter if isinstance(self.shape, TableShape) else ""

    @property
    def declares_delimiter(self) -> bool:
        """Whether the first line of the file states the delimiter."""
        return isinstance(self.shape, TableShape) and self.shape.declares_delimiter

    @property
    def has_header(self) -> bool:
        """Whether columns have names."""
        return isinstance(self.shape, JsonObjectsShape) or self.shape.has_header

    @property
    def description(self) -> str:
        """Description of the table in words."""
        names = [column.name for column in self.columns]
        if self.is_json:
            container = "a list of JSON objects" if self.is_list else "a JSON object on each line"
            return f"{container}, with {', '.join(names)}"
        header_text = f"with a header ({', '.join(names)})" if self.has_header else "without a header"
        if self.delimiter == LABEL_FIRST:
            return "a label at the beginning of each line, followed by a text"
        delimiter_name = _DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))
        return f"{len(names)} columns separated by {delimiter_name}, {header_text}"

    def format_column(self, name: str) -> str:
        """Return the name of a column for messages."""
        return f"{'field' if self.is_json else 'column'} {name}"

    def find_column(self, name: str, *, option: str = "--columns") -> ColumnProfile:
        """Return the column with a name or an index, as given by the command-line `option`.

        Raises:
            RecipeError: there is no such column.
        """
        column = self.shape.find_column(name)
        if column is not None:
            return column
        names = [column.name for column in self.columns]
        suggestion = closest_match(name, names)
        remedy = f"did you mean {suggestion!r}?" if suggestion else f"there are {', '.join(map(repr, names))}"
        raise RecipeError(f"{option}: {self.path} has no {self.format_column(repr(name))}; {remedy}")

    def get_column_index(self, name: str) -> int:
        """Return the index of a column, from 0."""
        return self.find_column(name).index

    def get_sample_values(self, name: str) -> list[str]:
        """Return the values of the column `name` in the first rows."""
        if isinstance(self.shape, JsonObjectsShape):
            return [format_value(row.get(name)) for row in self.shape.sample]
        index = self.get_column_index(name)
        return [row[index] for row in self.shape.sample if index < len(row)]

    def read_rows(self, names: Sequence[str]) -> Iterator[TableRow]:
        """Read all rows, with the values of the named columns.

        Raises:
            DataError: a row has too few columns, or a value is not a text, number or boolean.
        """
        if self.is_json:
            for index, record in read_json_objects(self.path):
                values = tuple(record.get_scalar(name) if name in record else "" for name in names)
                yield TableRow(values, index, json.dumps(record.fields, ensure_ascii=False))
            return
        indices = [self.get_column_index(name) for name in names]
        num_columns = max(indices) + 1
        rows = read_table_rows(self.path, self.delimiter)
        if self.has_header:
            next(rows, None)
        for line, cells in rows:
            if len(cells) < num_columns:
                raise DataError(
                    f"{self.path}:{line}: {len(cells)} column{'s' * (len(cells) != 1)} where the other rows have "
                    f"{len(self.columns)}; correct the line"
                )
            raw = "\t".join(cells) if self.delimiter == "\t" else cells
            yield TableRow(tuple(cells[index] for index in indices), line, raw)

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool, with_header: bool = True) -> PartWriter:
        """Build the writer of a part in `folder` with rows of this table; `with_header` writes the header again, and
        `compress` adds gzip.
        """
        suffix = ".gz" * compress
        names = [column.name for column in self.columns] if self.has_header and with_header else None
        if self.is_json:
            return LinePartWriter(folder / f"{part}.jsonl{suffix}")
        if self.delimiter == "\t":
            return LinePartWriter(folder / f"{part}.tsv{suffix}", header=None if names is None else "\t".join(names))
        return CsvPartWriter(folder / f"{part}.csv{suffix}", header=names)


def select_tables(files: Sequence[FileSniff]) -> dict[DatasetPart, DataTable] | None:
    """Return the table of each part; None if some files are not tables, or several belong to one part.

    Files whose columns differ from those of training are left out; the first table has a note about them.
    """
    parts = find_single_files(files)
    if parts is None:
        return None
    first = next(iter(parts.values()))
    language_pair = first.name_info.language_pair
    tables: dict[DatasetPart, DataTable] = {}
    exclusions = []
    for part, file in parts.items():
        if not isinstance(file.shape, TableShape | JsonObjectsShape):
            return None
        if file is first or _has_same_columns(file.shape, first.shape):
            tables[part] = DataTable(file.path, file.shape, language_pair)
        else:
            exclusions.append(f"{file.path} has other columns than {first.path} and is left out")
    if exclusions:
        part = next(iter(tables))
        tables[part] = replace(tables[part], exclusion_note="; ".join(exclusions))
    return tables


def _has_same_columns(first: TableShape | JsonObjectsShape, second: object) -> bool:
    """Return whether two tables have the same delimiter and columns, or two files of JSON objects a common field; False
    for other shapes.
    """
    if isinstance(first, JsonObjectsShape):
        return isinstance(second, JsonObjectsShape) and bool(
            _get_column_names(first) & _get_column_names(second) or first.nested & second.nested
        )
    if (
        not isinstance(second, TableShape)
        or first.delimiter != second.delimiter
        or first.has_header != second.has_header
    ):
        return False
    return (
        _get_column_names(first) == _get_column_names(second)
        if first.has_header
        else len(first.columns) == len(second.columns)
    )


def _get_column_names(shape: TableShape | JsonObjectsShape) -> set[str]:
    """Return the names of the columns."""
    return {column.name for column in shape.columns}
