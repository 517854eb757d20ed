"""Detect the shape of a text file from its beginning, whatever task it is used for."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from heedful.compression import find_compression, open_decompressed, strip_compression_suffix
from heedful.data.detect.column_profiles import (
    ColumnProfile,
    TooManyColumnsError,
    build_profiles,
    has_header,
    profile_columns,
)
from heedful.data.detect.file_names import FileNameInfo, get_suffix, parse_file_name
from heedful.data.readers import JsonRecord, parse_separator_line, read_lines, read_quoted_rows, read_records
from heedful.errors import DataError
from heedful.files import parse_data

_MAX_LINES: Final = 20_000
"""Largest number of lines that are read."""
_MAX_CHARACTERS: Final = 2**24
_BLOCK_BYTES: Final = 2**20
"""Size of a block in bytes."""
_OBJECT_START: Final = re.compile(r"\{")
"""Start of an object; in a list of objects, only a comma and white space stand between two of them."""
LABEL_FIRST: Final = " "
"""The delimiter of lines with a label, white space and a text."""
_FASTTEXT_LABEL: Final = re.compile(r"(?<!\S)__label__(\S+)")
"""A label of fastText, which may stand anywhere in its line."""
_LEADING_CLASS: Final = re.compile(
    r"[+-]?\d{1,2}|[A-Z]+:[a-z]+|(?i:pos|neg|positive|negative|neutral|ham|spam)", re.ASCII
)
"""What counts as a label at the beginning of all lines: a small integer, a class of TREC, a usual word."""
_MAX_SHOWN_NAMES, _MAX_NAME_CHARACTERS = 20, 60
"""Largest number of names of fields, and of their characters, in a message."""
_MAX_LEADING_CLASSES: Final = 100
"""Largest number of different labels at the beginning of lines."""
_WESTERN_ENCODING: Final = "CP1252"
_MAGIC_BYTES: Final[Mapping[bytes, str]] = {
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"RIFF": "a sound or a film",
    b"fLaC": "a sound",
    b"ID3": "a sound",
    b"OggS": "a sound",
    b"PK\x03\x04": "a zip archive or an office document; unpack it, or save it as CSV",
    b"%PDF": "a PDF",
    b"PAR1": "a Parquet table; let its name end in .parquet",
    b"SQLite": "a database",
    b"ARROW1": "an Arrow table",
}


class FileShape(ABC):
    """Base of the shapes that a file may have.

    Abstract: its subclasses hold what is known of each shape.
    """

    @property
    @abstractmethod
    def description(self) -> str:
        """Description of the shape in words."""

    def has_columns(self, names: Sequence[str]) -> bool:
        """Return whether there are columns of all these names."""
        return False


@dataclass(frozen=True)
class PlainLinesShape(FileShape):
    """Lines of text.

    Attributes:
        lines: the first lines.
    """

    lines: Sequence[str]

    @property
    def description(self) -> str:
        """Description of the shape in words."""
        return "lines of text"


@dataclass(frozen=True)
class TableShape(FileShape):
    """A table with delimited columns.

    Attributes:
        delimiter: what stands between columns.
        has_header: whether the first row names the columns.
        columns: profiles of the columns.
        sample: the first rows after the header.
        declares_delimiter: whether the first line of the file states the delimiter.
    """

    delimiter: str
    has_header: bool
    columns: Sequence[ColumnProfile]
    sample: Sequence[Sequence[str]]
    declares_delimiter: bool = False

    @property
    def description(self) -> str:
        """Description of the shape in words."""
        return f"a table of {len(self.columns)} columns"

    def find_column(self, name: str) -> ColumnProfile | None:
        """Return the column with a name or an index, counted from 0; None if there is none."""
        return next(
            (item for item in self.columns if item.name == name or (name.isdecimal() and item.index == int(name))), None
        )

    def has_columns(self, names: Sequence[str]) -> bool:
        """Return whether there are columns of all these names or indices."""
        return None not in map(self.find_column, names)


@dataclass(frozen=True)
class JsonObjectsShape(FileShape):
    """A JSON object on each line, or one list of objects.

    Attributes:
        columns: profiles of the fields of text, numbers and booleans.
        nested: names of the fields that hold lists or objects.
        sample: the first objects.
        is_list: whether the objects are in one list.
    """

    columns: Sequence[ColumnProfile]
    nested: frozenset[str]
    sample: Sequence[Mapping[str, object]]
    is_list: bool = False

    @property
    def description(self) -> str:
        """Description of the shape in words."""
        names = [*(column.name for column in self.columns), *sorted(self.nested)]
        shown = ", ".join(name[:_MAX_NAME_CHARACTERS] for name in names[:_MAX_SHOWN_NAMES])
        others = f" and {len(names) - _MAX_SHOWN_NAMES:,} others" if len(names) > _MAX_SHOWN_NAMES else ""
        fields = f"with {shown}{others}" if names else "without fields"
        return f"{'a list of JSON objects' if self.is_list else 'lines of JSON'} {fields}"

    def find_column(self, name: str) -> ColumnProfile | None:
        """Return the field with a name; None if there is none."""
        return next((item for item in self.columns if item.name == name), None)

    def has_columns(self, names: Sequence[str]) -> bool:
        """Return whether there are fields of all these names."""
        return None not in map(self.find_column, names)


@dataclass(frozen=True)
class JsonValueShape(FileShape):
    """One JSON value; `value` is all of it."""

    value: object

    @property
    def description(self) -> str:
        """Description of the shape in words."""
        return "one JSON value; save the training data as JSONL, with an object on each line"


@dataclass(frozen=True)
class WordLinesShape(FileShape):
    """A word on each line, in columns, with empty lines between sentences.

    Attributes:
        is_conllu: whether it is CoNLL-U, which has ten columns and comments.
        columns: profiles of the columns.
    """

    is_conllu: bool
    columns: Sequence[ColumnProfile]

    @property
    def description(self) -> str:
        """Description of the shape in words."""
        return f"words in {len(self.columns)} columns"


@dataclass(frozen=True)
class FolderShape(FileShape):
    """A folder; `ending_counts` counts the suffixes of the names in it."""

    ending_counts: Mapping[str, int]

    @property
    def description(self) -> str:
        """Description of the shape in words."""
        return "a folder; name the files in it, as in heedful new FOLDER/*"


@dataclass(frozen=True)
class BinaryShape(FileShape):
    """A binary file; `kind` describes it in words."""

    kind: str

    @property
    def description(self) -> str:
        """Description of the shape in words."""
        return f"not text but {self.kind}"


@dataclass(frozen=True)
class FileSniff:
    """A file and the shape detected from its beginning."""

    path: Path
    shape: FileShape

    @cached_property
    def name_info(self) -> FileNameInfo:
        """Part and language in the name of the file."""
        return parse_file_name(self.path)

    @property
    def description(self) -> str:
        """Description of the file in words."""
        return f"{self.shape.description}{f', for {self.name_info.part} by its name' if self.name_info.part else ''}"


def sniff_folder(path: Path) -> FolderShape:
    """Return the shape of a folder: how often each suffix of a file name occurs in it."""
    members = islice(path.rglob("*"), _MAX_LINES)
    return FolderShape(Counter(member.suffix.lower() for member in members if member.is_file()))


def sniff_binary(path: Path) -> BinaryShape | None:
    """Detect a binary file by its first bytes; return None for text."""
    head = _read_beginning(path)
    kind = next((kind for magic, kind in _MAGIC_BYTES.items() if head.startswith(magic)), None)
    if kind is None and head[257:262] == b"ustar":
        kind = "a tar archive; unpack it"
    return None if kind is None else BinaryShape(kind)


def sniff_text(path: Path) -> FileShape:
    """Detect the shape of a text file.

    Raises:
        DataError: the file is empty, holds text that is not UTF-8, or has too many columns.
    """
    require_utf8(path)
    lines = _read_first_lines(path)
    if not any(line.strip() for line in lines):
        raise DataError(f"{path}: the file is empty; is it the right one?")
    try:
        return _detect_shape(path, lines)
    except TooManyColumnsError as error:
        raise DataError(f"{path}: {error}; is it a table?") from None


def has_file_names(shape: FileShape, endings: Sequence[str]) -> bool:
    """Return whether a column of a table, or a field of JSON, holds names of files with these endings."""
    if not isinstance(shape, TableShape | JsonObjectsShape):
        return False
    return any(_has_endings(column.value_counts, endings) for column in shape.columns)


def _has_endings(values: Mapping[str, int], endings: Sequence[str]) -> bool:
    """Return whether nearly all values have one of the endings."""
    names = [re.sub(r"#\d+$", "", value.lower()) for value in values if value]
    return bool(names) and sum(value.endswith(tuple(endings)) for value in names) > 0.9 * len(names)


def _read_beginning(path: Path) -> bytes:
    """Read the first bytes of a file, decompressed."""
    next(read_lines(path), None) if not path.exists() else None  # which raises the error for a missing file
    return next(_read_blocks(path, 512), b"")


def _read_blocks(path: Path, size: int) -> Iterator[bytes]:
    """Read a file, decompressed, in blocks of `size` bytes; raise `DataError` if it is damaged or cannot be read."""
    with open_decompressed(path) as file:
        while block := file.read(size):
            yield block


def require_utf8(path: Path) -> None:
    """Raise `DataError` if a file is not UTF-8, with the first wrong line, the number of others, and a remedy."""
    wrong_lines: list[int] = []
    count, line_number, partial_line = 0, 1, b""
    for block in _read_blocks(path, _BLOCK_BYTES):
        if line_number == 1 and not partial_line and block[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise DataError(f"{path}: is UTF-16 and must be UTF-8; {_suggest_conversion(path, 'UTF-16')}")
        *lines, partial_line = (partial_line + block).split(b"\n") if partial_line else block.split(b"\n")
        for line in [] if _is_utf8(b"\n".join(lines)) else lines:
            if not _is_utf8(line):
                count += 1
                wrong_lines = wrong_lines or [line_number + lines.index(line)]
        line_number += len(lines)
    if not _is_utf8(partial_line):
        count, wrong_lines = count + 1, wrong_lines or [line_number]
    if wrong_lines:
        others = f" (and {count - 1:,} more line{'s' * (count > 2)})" if count > 1 else ""
        raise DataError(
            f"{path}:{wrong_lines[0]}: this line is not UTF-8{others}; {_suggest_conversion(path, _WESTERN_ENCODING)}"
        )


def _suggest_conversion(path: Path, encoding: str) -> str:
    """Return advice with a command that converts a file from `encoding` to UTF-8."""
    plain_name, compression = strip_compression_suffix(path.name), find_compression(path)
    command = (
        f"iconv -f {encoding} -t UTF-8 {plain_name}"
        if compression is None
        else f"{compression.print_command} {path.name} | iconv -f {encoding} -t UTF-8"
    )
    assumption = "" if encoding == "UTF-16" else f"probably it is {encoding} (Western Europe): "
    return f"{assumption}convert it, as with: {command} > utf8-{plain_name}"


def _is_utf8(data: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _read_first_lines(path: Path) -> list[str]:
    """Read the first lines, up to a limit of lines and characters."""
    lines, size = [], 0
    for line in islice(read_lines(path), _MAX_LINES):
        lines.append(line)
        size += len(line)
        if size > _MAX_CHARACTERS:
            break
    return lines


def _detect_shape(path: Path, lines: Sequence[str]) -> FileShape:
    """Detect the shape of a text file from its suffix and its first lines: JSON, CSV, words on lines, texts after
    labels, tabs, or else plain lines.
    """
    suffix = get_suffix(path)
    first = next(line for line in lines if line.strip()).lstrip()
    if suffix in (".json", ".jsonl", ".ndjson") or first[0] in "{[":
        json_shape = _detect_json(path, lines, must_be_json=suffix in (".json", ".jsonl", ".ndjson"))
        if json_shape is not None:
            return json_shape
    if suffix == ".csv" and not _FASTTEXT_LABEL.match(first):
        return _detect_delimited(path)
    words = _detect_word_lines(suffix, lines)
    if words is not None:
        return words
    labelled = _detect_leading_labels(path, lines)
    if labelled is not None:
        return labelled
    return _detect_tsv(lines, has_tsv_suffix=suffix == ".tsv") or PlainLinesShape(lines)


def _detect_json(path: Path, lines: Sequence[str], *, must_be_json: bool) -> FileShape | None:
    """Detect JSON lines, a list of objects, or one value. If it is not JSON, raise `DataError` if `must_be_json`, else
    return None.
    """
    filled = [line for line in lines if line.strip() and not line.startswith("#")]
    objects = [value for value in (_parse_or_none(line) for line in filled) if isinstance(value, dict)]
    if len(objects) == len(filled) and (len(objects) > 1 or get_suffix(path) != ".json"):
        return _build_objects_shape(objects)
    if not must_be_json and len(filled) > 1 and filled[0].strip() not in "{[":
        return None
    try:
        value = parse_data(_read_without_comments(path))
    except ValueError as error:
        if not must_be_json:
            return None
        others = [(n, line) for n, line in enumerate(lines, 1) if line.strip() and not _is_json_object(line)]
        if others and len(objects) > len(others):
            number, line = others[0]
            raise DataError(
                f"{path}:{number}: not a JSON object like the other lines: {line[:60]!r}; correct it"
            ) from None
        raise DataError(f"{path}: not valid JSON ({error}); fetch the file again") from None
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return _build_objects_shape(value[:_MAX_LINES], is_list=True)
    return JsonValueShape(value)


def _read_without_comments(path: Path) -> str:
    """Read a whole file, with empty lines in place of comments."""
    return "\n".join("" if line.startswith("#") else line for line in read_lines(path))


def read_json_objects(path: Path) -> Iterator[tuple[int, JsonRecord]]:
    """Yield the JSON objects of a file, on lines or in one list, with the number of the line where each begins."""
    first = next((line for line in read_lines(path) if line.strip() and not line.startswith("#")), "")
    if not first.lstrip().startswith("["):
        yield from read_records(path)
        return
    text = _read_without_comments(path)
    decoder, line_number, position = json.JSONDecoder(), 1, 0
    match = _OBJECT_START.search(text)
    while match:
        line_number += text.count("\n", position, match.start())
        position = match.start()
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path}:{line_number}: not valid JSON ({error}); correct it, or fetch the file again"
            ) from None
        yield line_number, JsonRecord(value, location=f"{path}:{line_number}")
        match = _OBJECT_START.search(text, end)


def _is_json_object(line: str) -> bool:
    """Return whether a line is a JSON object, or a comment."""
    return line.startswith("#") or isinstance(_parse_or_none(line), dict)


def _parse_or_none(line: str) -> object:
    """Parse a line as JSON; return None if it is not valid."""
    try:
        value: object = parse_data(line)
    except ValueError:
        return None
    return value


def _build_objects_shape(objects: Sequence[Mapping[str, object]], *, is_list: bool = False) -> JsonObjectsShape:
    """Build the shape of JSON objects; `is_list` says whether they are in one list."""
    values_by_name = defaultdict[str, list[object]](list)
    for fields in objects:
        for name, value in fields.items():
            values_by_name[name].append(value)
    nested = frozenset(
        name for name, values in values_by_name.items() if any(isinstance(v, list | dict) for v in values)
    )
    flat = [name for name in values_by_name if name not in nested]
    columns = ([format_value(value) for value in values_by_name[name]] for name in flat)
    return JsonObjectsShape(profile_columns(flat, columns, num_rows=len(objects)), nested, objects[:100], is_list)


def format_value(value: object) -> str:
    """Format a JSON value as `JsonRecord.get_scalar` does; empty for null."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def read_table_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table and the line where each begins; only tab-separated tables are without quoting.
    `delimiter` is a character, or `LABEL_FIRST` for lines that begin with a label.

    Raises:
        DataError: quotes do not match.
    """
    if delimiter == LABEL_FIRST:
        for line_number, line in enumerate(read_lines(path), 1):
            if line.strip():
                yield line_number, _split_label_and_text(line)
        return
    if delimiter == "\t":
        for line_number, line in enumerate(read_lines(path), 1):
            if line.strip() and not (line_number == 1 and parse_separator_line(line) is not None):
                yield line_number, line.split("\t")
        return
    yield from read_quoted_rows(path, delimiter=delimiter)


def _detect_delimited(path: Path) -> FileShape:
    """Detect a table with the declared delimiter, or else the one that gives most rows the same number of columns, more
    than one.
    """
    declared_delimiter = parse_separator_line(next(read_lines(path)))
    best_delimiter, best_score = declared_delimiter or ",", (0.0, 0)
    for delimiter in declared_delimiter or ",;\t|":
        try:
            sizes = [len(row) for _, row in islice(read_table_rows(path, delimiter), 1000)]
        except DataError:
            continue  # the chosen one is read again, and says what is wrong
        if not sizes:
            raise DataError(f"{path}: has no row below the line that names the separator; is it the right file?")
        width = max(set(sizes), key=sizes.count)
        score = (sizes.count(width) / len(sizes), width)
        if width > 1 and score > best_score:
            best_delimiter, best_score = delimiter, score
    rows = [row for _, row in islice(read_table_rows(path, best_delimiter), _MAX_LINES)]
    return _build_table_shape(best_delimiter, rows, declares_delimiter=declared_delimiter is not None)


def _build_table_shape(
    delimiter: str, rows: Sequence[Sequence[str]], *, declares_delimiter: bool = False
) -> TableShape:
    """Build the shape of a table with this delimiter from its first rows; `declares_delimiter` says whether the file
    states it.
    """
    is_header = delimiter != LABEL_FIRST and has_header(rows)
    width = max(map(len, rows[:1] if is_header else rows))
    names = [cell.strip() or str(number) for number, cell in enumerate(rows[0])] if is_header else []
    names += [str(number) for number in range(len(names), width)]
    body = rows[1:] if is_header else rows
    return TableShape(delimiter, is_header, build_profiles(names, body), body, declares_delimiter)


def _detect_leading_labels(path: Path, lines: Sequence[str]) -> TableShape | None:
    """Detect lines that begin with a label and a space: fastText's, a few different integers, or classes of TREC;
    return None if they do not.

    Raises:
        DataError: a line has several labels of fastText.
    """
    filled = [(line_number, line) for line_number, line in enumerate(lines, 1) if line.strip()]
    labels = [len(_FASTTEXT_LABEL.findall(line)) for _, line in filled]
    if all(labels):
        wrong_line = next(
            (line_number for (line_number, _), count in zip(filled, labels, strict=True) if count > 1), None
        )
        if wrong_line is not None:
            raise DataError(
                f"{path}:{wrong_line}: has several labels (__label__...), but each text must have one class; keep one "
                "label in each line, or write a file for each label"
            )
    elif not _has_leading_classes([line for _, line in filled]):
        return None
    return _build_table_shape(LABEL_FIRST, [row for _, row in islice(read_table_rows(path, LABEL_FIRST), _MAX_LINES)])


def _has_leading_classes(lines: Sequence[str]) -> bool:
    """Return whether each line begins with one of a few frequent classes, followed by words."""
    rows = [line.split(maxsplit=1) for line in lines]
    if any("\t" in line for line in lines) or not all(len(row) == 2 for row in rows):
        return False
    counts = Counter(label for label, _ in rows)
    has_few_classes = (
        2 <= len(counts) <= _MAX_LEADING_CLASSES and min(counts.values()) > 1 and len(rows) >= 5 * len(counts)
    )
    num_with_words = sum(any(map(str.isalpha, text)) for _, text in rows)
    return (
        has_few_classes
        and num_with_words >= 0.9 * len(rows)
        and all(_LEADING_CLASS.fullmatch(label) for label in counts)
    )


def _split_label_and_text(line: str) -> list[str]:
    """Split a line into its label and its text; fastText's label may stand anywhere."""
    match = _FASTTEXT_LABEL.search(line)
    if match is None:
        return line.split(maxsplit=1)
    return [match[1], f"{line[: match.start()]}{line[match.end() :]}".strip()]


def _detect_tsv(lines: Sequence[str], *, has_tsv_suffix: bool) -> TableShape | None:
    """Detect a tab-separated table from the first lines of a file; return None if it is not one. Without the suffix
    .tsv, nearly all lines must have the same number of columns.
    """
    declares_delimiter = parse_separator_line(lines[0]) is not None
    rows = [line.split("\t") for line in lines[declares_delimiter:] if line.strip()]
    if not rows:
        return None
    sizes = [len(row) for row in rows]
    width = max(set(sizes), key=sizes.count)
    if width > 1 and (has_tsv_suffix or sizes.count(width) >= 0.9 * len(sizes)):
        return _build_table_shape("\t", rows, declares_delimiter=declares_delimiter)
    return None


def _detect_word_lines(suffix: str, lines: Sequence[str]) -> WordLinesShape | None:
    """Detect a word on each line from the suffix of a file and its first lines; return None if it is not CoNLL-U and
    has no equal columns, or mostly single lines between empty ones.
    """
    comments = suffix == ".conllu" or lines[0].startswith("# ")
    content_lines = [line for line in lines if not (comments and line.startswith("#"))]
    rows = [line.split("\t") if "\t" in line else line.split() for line in content_lines if line.strip()]
    if not rows:
        return None
    if suffix == ".conllu" or _is_conllu(content_lines):
        body = [row for row in rows if row[0].isdecimal()]
        return WordLinesShape(True, build_profiles([str(number) for number in range(10)], body))
    num_blocks = sum(
        1
        for previous, line in zip(["", *content_lines], content_lines, strict=False)
        if line.strip() and not previous.strip()
    )
    sizes = [len(row) for row in rows]
    width = max(set(sizes), key=sizes.count)
    has_equal_widths = sizes.count(width) >= 0.97 * len(sizes) and 2 <= width <= 12
    has_single_words = sum(" " not in row[0].strip() for row in rows) >= 0.97 * len(rows)
    if not has_equal_widths or not has_single_words or num_blocks < 2 or len(rows) < 3 * num_blocks:
        return None
    return WordLinesShape(False, build_profiles([str(number) for number in range(width)], rows))


def _is_conllu(lines: Sequence[str]) -> bool:
    """Return whether all lines have the ten columns of CoNLL-U."""
    rows = [line.split("\t") for line in lines if line.strip()]
    return all(len(row) == 10 and re.fullmatch(r"[\d.-]+", row[0]) is not None for row in rows)
