"""Read text files, plain or compressed, as lines or as pairs of parallel text, one at a time, and change them."""

from __future__ import annotations

import csv
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, NamedTuple, TypeVar, final

from heedful.compression import open_decompressed
from heedful.errors import DataError, RecipeError
from heedful.files import NestedTooDeeplyError, parse_data, walk_folder

MAX_LINE_BYTES = 64 * 2**20
"""Largest size of a line in bytes; a file with a longer line is not a text of sentences, and must not fill the
memory."""

_BOM = b"\xef\xbb\xbf"
_STANDARD_INPUT = Path("-")
_SEPARATOR_LINE = re.compile(r'"?sep=(\\t|[^\w"])?"?[,;\t|]*', re.IGNORECASE)
_MAX_FIELD_CHARACTERS = 2**31 - 1
"""Characters of a field of CSV, at most: as many as the module takes on every platform."""
_CONTROL_CHARACTERS = re.compile(r"[\x07\x08\t\n\f\r]")
_UNENCODABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that JSON escapes can express and UTF-8 text cannot: NUL and halves of surrogate pairs."""


class SentencePair(NamedTuple):
    """A source sentence and its translation.

    `location` is the line (`file:line`), `tags` are put before the source, `links` are the word links counted from 0,
    `document` is the document's name in its file, `context` holds the source sentences before this one that are read
    with it, `weight` is that of the pair in the loss, and `references` are further translations that a system's
    translation may be compared with.
    """

    source: str
    target: str
    location: str
    tags: tuple[str, ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    document: str = ""
    context: tuple[str, ...] = ()
    weight: float = 1.0
    references: tuple[str, ...] = ()


T_co = TypeVar("T_co", covariant=True)


class ExampleReader(ABC, Generic[T_co]):
    """Base of readers: iterables of examples that can be read repeatedly, each time from the start, without holding
    them in memory.

    Iterating raises `DataError` if the policy of this module or the format of a file is violated; missing files are
    reported when the reader is created.

    Attributes:
        paths: the files, so that their contents can be hashed.
    """

    def __init__(self, *paths: Path) -> None:
        for path in paths:
            _require_file(path)
        self.paths = paths

    @abstractmethod
    def __iter__(self) -> Iterator[T_co]: ...


@final
class LineAlignedReader(ExampleReader[SentencePair]):
    """Read pairs from two files in which line n of one translates line n of the other."""

    def __init__(self, source: Path, target: Path) -> None:
        super().__init__(source, target)

    def __iter__(self) -> Iterator[SentencePair]:
        source, target = self.paths
        lines = zip_longest(read_lines(source), read_lines(target))
        for line_number, (source_line, target_line) in enumerate(lines, 1):
            if source_line is None or target_line is None:
                longer_count = line_number + sum(1 for _ in lines)
                counts = (line_number - 1, longer_count) if source_line is None else (longer_count, line_number - 1)
                raise DataError(
                    f"{source} has {counts[0]} lines and {target} has {counts[1]}; line-aligned files must have the "
                    "same number, so find where they stop matching"
                )
            yield SentencePair(_clean_text(source_line), _clean_text(target_line), f"{source}:{line_number}")


@final
class TsvPairReader(ExampleReader[SentencePair]):
    """Read a pair from each line of one file, in two of its tab-separated columns, counted from 0.

    A further column may name the document of a pair. Other columns are ignored. A line of white space
    is a pair of empty sides. There is no quoting.
    """

    def __init__(
        self, path: Path, *, source_column: int = 0, target_column: int = 1, document_column: int | None = None
    ) -> None:
        self._columns = (source_column, target_column, *([] if document_column is None else [document_column]))
        if min(self._columns) < 0:
            raise RecipeError(f"columns are counted from 0, so {min(self._columns)} is not a column")
        super().__init__(path)

    def __iter__(self) -> Iterator[SentencePair]:
        source, target, *document = self._columns
        num_columns = max(self._columns) + 1
        for line_number, line in enumerate(read_lines(self.paths[0]), 1):
            location = f"{self.paths[0]}:{line_number}"
            fields = split_columns(line, num_columns, location=location) if line.strip() else [""] * num_columns
            document_name = fields[document[0]] if document else ""
            yield SentencePair(
                _clean_text(fields[source]), _clean_text(fields[target]), location, document=document_name
            )


@final
class JsonlPairReader(ExampleReader[SentencePair]):
    """Read a pair from two fields of the JSON object on each line of one file; other fields are ignored.

    A further field may name the document of a pair, as a text or a number. A line of white space is a pair of empty
    sides.
    """

    def __init__(
        self,
        path: Path,
        *,
        source_field: str = "source",
        target_field: str = "target",
        document_field: str | None = None,
    ) -> None:
        super().__init__(path)
        self._fields = (source_field, target_field)
        self._document = document_field

    def __iter__(self) -> Iterator[SentencePair]:
        source, target = self._fields
        for line_number, line in enumerate(read_lines(self.paths[0]), 1):
            location = f"{self.paths[0]}:{line_number}"
            record = JsonRecord.from_line(line, location=location) if line.strip() else None
            if record is None:
                yield SentencePair("", "", location)
                continue
            document_name = "" if self._document is None else record.get_scalar(self._document)
            yield SentencePair(record.get_text(source), record.get_text(target), location, document=document_name)


@final
@dataclass(frozen=True)
class JsonRecord:
    """A JSON object and its location in a file; a field that is missing or of another type raises `DataError` with
    the location.
    """

    fields: Mapping[str, object]
    location: str

    @classmethod
    def from_line(cls, line: str, *, location: str) -> JsonRecord:
        """Parse a line as a JSON object; raise `DataError` at `location` for anything else."""
        try:
            value: object = parse_data(line)
        except NestedTooDeeplyError:
            raise DataError(f"{location}: JSON nested too deeply; each line must be one flat object") from None
        except ValueError as error:
            raise DataError(f"{location}: not valid JSON ({error}); each line must be one object") from None
        if not isinstance(value, dict):
            raise DataError(f"{location}: a JSON {type(value).__name__} where an object is needed")
        return cls(value, location=location)

    def __contains__(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def get_text(self, name: str) -> str:
        """Return the text field `name`; empty if it is only white space. Raise `DataError` if it is missing, not a
        text, or holds NUL or half a surrogate pair.
        """
        value: str = self._get_value(name, "text", str)
        if _UNENCODABLE.search(value):
            raise DataError(f"{self.location}: field {name!r} holds NUL or half a surrogate pair; correct the line")
        return _clean_text(value)

    def get_int(self, name: str) -> int:
        """Return an integer field."""
        return int(self._get_value(name, "a whole number", int))

    def get_bool(self, name: str) -> bool:
        """Return the boolean field `name`, which may also be written as 1 or 0; raise `DataError` for anything else."""
        value = self._get_value(name, "true or false", bool, int)
        if value not in (0, 1):
            raise self._build_type_error(name, "true or false")
        return bool(value)

    def get_scalar(self, name: str) -> str:
        """Return a text, number or boolean field as it is written in JSON, without quotes."""
        value = self._get_value(name, "a text, a number or a truth value", str, bool, int, float)
        return self.get_text(name) if isinstance(value, str) else json.dumps(value)

    def get_texts(self, name: str) -> tuple[str, ...]:
        """Return a field that is a list of texts."""
        items = self._get_list(name, "a list of texts", item_type=str)
        return tuple(JsonRecord({name: item}, location=self.location).get_text(name) for item in items)

    def get_ints(self, name: str) -> list[int]:
        """Return a field that is a list of integers."""
        return self._get_list(name, "a list of whole numbers", item_type=int)

    def get_object(self, name: str) -> JsonRecord:
        """Return a field that is an object."""
        return JsonRecord(self._get_value(name, "an object", dict), location=self.location)

    def get_objects(self, name: str) -> list[JsonRecord]:
        """Return a field that is a list of objects; the location of each includes the field and its index."""
        items = self._get_list(name, "a list of objects", item_type=dict)
        return [JsonRecord(item, location=f"{self.location} {name}[{index}]") for index, item in enumerate(items)]

    def _get_value(self, name: str, expected: str, *types: type) -> Any:
        """Return the field `name`; raise `DataError` if it is missing or not of one of the types, which `expected`
        describes in the message.
        """
        if name not in self.fields:
            present_names = ", ".join(map(repr, list(self.fields)[:8])) or "none"
            raise DataError(
                f"{self.location}: no field {name!r} (available: {present_names}); correct the line or choose other "
                "fields"
            )
        value = self.fields[name]
        if type(value) not in types:
            raise self._build_type_error(name, expected)
        return value

    def _get_list(self, name: str, expected: str, *, item_type: type) -> list[Any]:
        """Return the list field `name`; raise `DataError` if it is not a list or an item is not of `item_type`.
        `expected` describes such a list in the message.
        """
        items: list[Any] = self._get_value(name, expected, list)
        if not all(type(item) is item_type for item in items):
            raise self._build_type_error(name, expected)
        return items

    def _build_type_error(self, name: str, expected: str) -> DataError:
        """Build the error for a field of the wrong type."""
        type_name = type(self.fields[name]).__name__
        return DataError(f"{self.location}: field {name!r} is {type_name} where {expected} is needed; correct the line")


@final
class JsonRecordReader(ExampleReader[T_co]):
    """Read the examples that `convert` returns for the JSON object on each line; lines of white space are skipped."""

    def __init__(self, path: Path, convert: Callable[[JsonRecord], Iterable[T_co]]) -> None:
        super().__init__(path)
        self._convert = convert

    def __iter__(self) -> Iterator[T_co]:
        for _, record in read_records(self.paths[0]):
            yield from self._convert(record)


def read_records(path: Path) -> Iterator[tuple[int, JsonRecord]]:
    """Yield the line number and the JSON object of each line of a file; lines of white space are skipped."""
    for line_number, location, line in read_numbered_lines(path):
        yield line_number, JsonRecord.from_line(line, location=location)


def read_json_object(path: Path) -> JsonRecord:
    """Read a whole file, plain or compressed, as one JSON object; raise `DataError` if it is not one."""
    text = "\n".join(read_lines(path))
    try:
        value: object = parse_data(text)
    except NestedTooDeeplyError:
        raise DataError(f"{path}: JSON nested too deeply; is this the right file?") from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{error.lineno}: not valid JSON ({error.msg}); fetch the file again, or name a .jsonl file if "
            "each line is an object"
        ) from None
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error}); is this the right file?") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: a JSON {type(value).__name__} where an object is needed; is this the right file?")
    return JsonRecord(value, location=str(path))


def split_columns(line: str, min_columns: int, *, location: str) -> list[str]:
    """Split a line at tabs; raise `DataError` at `location` if there are fewer than `min_columns` columns."""
    fields = line.split("\t")
    if len(fields) < min_columns:
        raise DataError(
            f"{location}: {len(fields)} tab-separated column{'s' * (len(fields) > 1)} where {min_columns} are needed; "
            "correct the line or choose other columns"
        )
    return fields


def parse_separator_line(line: str) -> str | None:
    """Return the column separator from a first line such as `sep=;`, which Excel writes; None for any other line.

    The result is empty if the line has this form and names no separator.
    """
    match = _SEPARATOR_LINE.fullmatch(line)
    return None if match is None else (match[1] or "").replace("\\t", "\t")


def read_csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Read the rows of a CSV file (RFC 4180) with the location where each begins; raise `DataError` if quotes do not
    match.

    Fields may be of any length. A first line such as `sep=;` sets the separator and is not a row.
    """
    return ((f"{path}:{start_line}", row) for start_line, row in read_quoted_rows(path))


def read_quoted_rows(path: Path, *, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a table with quoted fields between delimiters, with the line number where each begins; raise
    `DataError` if quotes do not match. A first line such as `sep=;` sets another delimiter.
    """
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)  # of the whole process; 131,072 characters by default
    lines = read_lines(path)
    first = next(lines, "")
    declared_delimiter = parse_separator_line(first)
    num_skipped = int(declared_delimiter is not None)
    table_lines = lines if num_skipped else chain([first], lines)
    rows = csv.reader((f"{line}\n" for line in table_lines), delimiter=declared_delimiter or delimiter, strict=True)
    while True:
        start_line = rows.line_num + 1 + num_skipped
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise DataError(f"{path}:{start_line}: not valid CSV ({error}); correct the quotes of this row") from None
        if row is None:
            return
        if row:
            yield start_line, row


def read_numbered_lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield number, location (`file:line`) and text of each line of a file; lines of white space are skipped."""
    for line_number, line in enumerate(read_lines(path), 1):
        if line.strip():
            yield line_number, f"{path}:{line_number}", line


def read_blocks(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line and the lines of each block between lines of white space."""
    lines: list[str] = []
    line_number = 0
    for line_number, line in enumerate(read_lines(path), 1):
        if line.strip():
            lines.append(line)
        elif lines:
            yield line_number - len(lines), lines
            lines = []
    if lines:
        yield line_number - len(lines) + 1, lines


def list_folder_files(folder: Path, ending: str) -> list[Path]:
    """Return the files with this ending at any depth of a folder, sorted.

    Raises:
        DataError: a folder in it cannot be listed.
    """
    try:
        return sorted(path for path in walk_folder(folder) if path.name.endswith(ending))
    except OSError as error:
        raise DataError(
            f"{error.filename or folder}: cannot be listed ({error.strerror or error}); check the permissions"
        ) from None


def read_lines(source: Path | BinaryIO) -> Iterator[str]:
    """Yield the lines of a file, or of a binary stream such as `sys.stdin.buffer`, as they arrive.

    Unlike the sides of a pair, lines keep their white space. The path `-` is standard input. A missing file is
    reported at once, other errors (see the module) when their line is reached. Streams are read as they are;
    compression is only for files.
    """
    if source == _STANDARD_INPUT:
        source = sys.stdin.buffer
    if isinstance(source, Path):
        _require_file(source)
        return _decode_lines(_read_raw_lines(source), name=str(source))
    stream_name = getattr(source, "name", None)
    name = stream_name if isinstance(stream_name, str) and stream_name != "<stdin>" else "standard input"
    return _decode_lines(_split_lines(source.readline, name=name), name=name)


def _decode_lines(lines: Iterator[bytes], *, name: str) -> Iterator[str]:
    """Decode lines as UTF-8; raise `DataError` with the name of the file for other bytes and for NUL."""
    for line_number, raw in enumerate(lines, 1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}:{line_number}: byte {error.start + 1} of the line (0x{raw[error.start]:02x}) is not UTF-8; "
                "convert the file to UTF-8"
            ) from None
        if "\0" in text:
            raise DataError(
                f"{name}:{line_number}: a NUL character; convert the file to UTF-8 text or correct the line"
            )
        yield text


def _require_file(path: Path) -> None:
    """Raise `DataError` if a path does not exist or is a folder; standard input is accepted."""
    if path == _STANDARD_INPUT:
        return
    if not path.exists():
        raise DataError(f"{path}: there is no such file; check the path{_explain_escapes(path)}")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder where a file is needed; name a file in it")


def _explain_escapes(path: Path) -> str:
    r"""Return a hint for a path that contains the characters of `\n` or `\t`; empty for other paths."""
    if not _CONTROL_CHARACTERS.search(str(path)):
        return ""
    escapes = r"as \n and \t are in double quotes"
    return f"; it holds a line end or a tab, {escapes}: write it in single quotes, or with forward slashes"


def _read_raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file as bytes, decompressed if it is compressed."""
    with open_decompressed(path) as stream:
        yield from _split_lines(stream.readline, name=str(path))


def _split_lines(readline: Callable[[int], bytes], *, name: str) -> Iterator[bytes]:
    """Yield the lines that `readline` returns, without their line ends and the byte order mark; raise `DataError` with
    the name of the file if one is too long.
    """
    line = readline(MAX_LINE_BYTES + 1)
    line_number = 1
    if line.startswith(_BOM):
        line = line[len(_BOM) :] or readline(MAX_LINE_BYTES + 1)
    while line:
        if len(line) > MAX_LINE_BYTES:
            raise DataError(f"{name}:{line_number}: a line of more than {MAX_LINE_BYTES} bytes; is this a text file?")
        yield line.removesuffix(b"\n").removesuffix(b"\r")
        line = readline(MAX_LINE_BYTES + 1)
        line_number += 1


def _clean_text(text: str) -> str:
    """Return the text; empty if it is only white space."""
    return text if text.strip() else ""


_WILDCARDS: Final = re.compile(r"[*?\[]")


@final
class ConcatenatedReader(ExampleReader[T_co]):
    """Read the examples of several readers, one reader after the other."""

    def __init__(self, readers: Sequence[ExampleReader[T_co]]) -> None:
        super().__init__(*chain.from_iterable(reader.paths for reader in readers))
        self._readers = readers

    def __iter__(self) -> Iterator[T_co]:
        return chain.from_iterable(self._readers)


def zip_with_lines(
    pairs: ExampleReader[SentencePair], path: Path, *, remedy: str
) -> Iterator[tuple[SentencePair, str, str]]:
    """Yield each pair with its line of a file that lies beside the text, and the location of that line.

    Args:
        pairs: reader of the parallel text.
        path: a file with one line for each pair.
        remedy: what the user should write, for the message about too many or too few lines.

    Raises:
        DataError: the text or the file cannot be read, or there are more or fewer lines than pairs.
    """
    rows = zip_longest(pairs, read_lines(path))
    for line_number, (pair, line) in enumerate(rows, 1):
        if pair is None or line is None:
            longer = line_number + sum(1 for _ in rows)
            counts = (line_number - 1, longer) if pair is None else (longer, line_number - 1)
            text = " and ".join(map(str, pairs.paths))
            raise DataError(f"{text}: {counts[0]:,} pairs, but {path} has {counts[1]:,} lines; {remedy}")
        yield pair, line, f"{path}:{line_number}"


@final
class ReversedPairs(ExampleReader[SentencePair]):
    """Swap source and target of every pair, and the direction of its word links."""

    def __init__(self, reader: ExampleReader[SentencePair]) -> None:
        super().__init__(*reader.paths)
        self._reader = reader

    def __iter__(self) -> Iterator[SentencePair]:
        for pair in self._reader:
            links = tuple((target, source) for source, target in pair.links)
            yield pair._replace(source=pair.target, target=pair.source, links=links)


@final
class TaggedPairs(ExampleReader[SentencePair]):
    """Add tags to every pair; a tokenizer puts them before the source."""

    def __init__(self, reader: ExampleReader[SentencePair], tags: Sequence[str]) -> None:
        super().__init__(*reader.paths)
        self._reader, self._tags = reader, tuple(tags)

    def __iter__(self) -> Iterator[SentencePair]:
        return (pair._replace(tags=self._tags) for pair in self._reader)


@final
class ReferencedPairs(ExampleReader[SentencePair]):
    """Add further references to every pair, from files with one line for each pair; an empty line stands for none.

    Raises:
        DataError: the text cannot be read, or a file has more or fewer lines than there are pairs.
    """

    def __init__(self, reader: ExampleReader[SentencePair], files: Sequence[Path]) -> None:
        super().__init__(*reader.paths, *files)
        self._reader, self._files = reader, files

    def __iter__(self) -> Iterator[SentencePair]:
        rows: Iterator[tuple[Any, ...]] = zip_longest(self._reader, *map(read_lines, self._files))
        for number, (pair, *lines) in enumerate(rows, 1):
            for path, line in zip(self._files, lines, strict=True):
                if (pair is None) != (line is None):
                    text = " and ".join(map(str, self._reader.paths))
                    raise DataError(
                        f"{path}:{number}: there are {'more' if pair is None else 'fewer'} lines than pairs in {text}; "
                        "write one line for each pair, an empty line if it has no such reference"
                    )
            if pair is not None:
                yield pair._replace(references=tuple(filter(None, map(_clean_text, lines))))


@final
class _SingleFilePairs(ExampleReader[SentencePair]):
    """Pairs of one of several files; the file's name is added to the document name, so that no document continues
    in the next file.
    """

    def __init__(self, reader: ExampleReader[SentencePair], name: str) -> None:
        super().__init__(*reader.paths)
        self._reader, self._name = reader, name

    def __iter__(self) -> Iterator[SentencePair]:
        return (pair._replace(document=f"{self._name}\t{pair.document}") for pair in self._reader)


def open_matching_files(
    create_reader: Callable[..., ExampleReader[SentencePair]], *patterns: Path
) -> ExampleReader[SentencePair]:
    """Create one reader for all files that match patterns such as `part-*.gz`, in the order of their names;
    `create_reader` is called with one file for each pattern.

    Args:
        create_reader: called with one file for each pattern.
        patterns: paths or patterns; the n-th match of each pattern is read together with the n-th matches of the
            others.

    Raises:
        DataError: nothing matches, or the patterns match different numbers of files.
    """
    matches = [_expand_pattern(pattern) for pattern in patterns]
    counts = list(map(len, matches))
    if len(set(counts)) > 1:
        counts_text = " and ".join(f"{count} files {pattern}" for count, pattern in zip(counts, patterns, strict=True))
        raise DataError(f"there are {counts_text}; each file needs its partner, so give the same number of both")
    readers = [create_reader(*paths) for paths in zip(*matches, strict=True)]
    if len(readers) == 1:
        return readers[0]
    return ConcatenatedReader([_SingleFilePairs(reader, str(index)) for index, reader in enumerate(readers)])


def _expand_pattern(pattern: Path) -> Sequence[Path]:
    """Return the files that match a pattern, sorted; a path without wildcards is returned as it is."""
    if pattern.exists() or not _WILDCARDS.search(str(pattern)):
        return [pattern]
    paths = sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
    if not paths:
        raise DataError(f"{pattern}: no file matches; check the path")
    return paths
