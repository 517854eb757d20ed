r"""Text files as lines and parallel text as pairs, one at a time, plain or gzip.

One policy for every file: UTF-8; a byte order mark at the start is dropped; only `\n` ends a line (as for
`wc -l`, so U+2028 and its kin stay inside theirs) and one `\r` before it goes with it. Bytes that are not
UTF-8, NUL, and lines of more than 64 MiB are errors that name file and line. Sides without anything to read
are yielded as empty strings: whoever uses the pairs counts them.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar, final

from heedful.errors import DataError, RecipeError
from heedful.files import NestedTooDeeplyError, parse_data

LONGEST_LINE = 64 * 2**20
"""Bytes; a file that needs more for one line is not a text of sentences, and may not fill the memory."""

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_STANDARD_INPUT = Path("-")
_CONTROL = re.compile(r"[\x07\x08\t\n\f\r]")
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
"""What JSON can spell and UTF-8 cannot: an escape for NUL or for half of a surrogate pair."""


class Pair(NamedTuple):
    """A sentence, its translation, where they stand (`file:line`), the tags that stand before the sentence, which of
    their words are known to belong together, counted from 0, the document that they are of, as its text calls it, and
    the sentences before this one that are read with it.
    """

    source: str
    target: str
    place: str
    tags: tuple[str, ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    document: str = ""
    before: tuple[str, ...] = ()


T_co = TypeVar("T_co", covariant=True)


class Reader(ABC, Generic[T_co]):
    """Examples that can be read again and again, each time from the start, without holding them in memory.

    Iterating raises `DataError` where the policy of this module or the form of a file is broken; files that are missing
    are reported when the reader is made.

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
class LineAligned(Reader[Pair]):
    """Two files of which line n of one translates line n of the other."""

    def __init__(self, source: Path, target: Path) -> None:
        super().__init__(source, target)

    def __iter__(self) -> Iterator[Pair]:
        source, target = self.paths
        lines = zip_longest(read_lines(source), read_lines(target))
        for number, (left, right) in enumerate(lines, 1):
            if left is None or right is None:
                longer = number + sum(1 for _ in lines)
                counts = (number - 1, longer) if left is None else (longer, number - 1)
                raise DataError(
                    f"{source} has {counts[0]} lines and {target} has {counts[1]}; line-aligned files must "
                    "have equally many, so find where they part"
                )
            yield Pair(_side(left), _side(right), f"{source}:{number}")


@final
class TabSeparated(Reader[Pair]):
    """One file with a pair on each line, in two of its tab-separated columns, counted from 0.

    A further column may say of which document a pair is. Other columns are ignored. A line of nothing but whitespace
    is a pair of empty sides. There is no quoting.
    """

    def __init__(
        self, path: Path, *, source_column: int = 0, target_column: int = 1, document_column: int | None = None
    ) -> None:
        self._columns = (source_column, target_column, *([] if document_column is None else [document_column]))
        if min(self._columns) < 0:
            raise RecipeError(f"columns are counted from 0, so {min(self._columns)} is none")
        super().__init__(path)

    def __iter__(self) -> Iterator[Pair]:
        source, target, *document = self._columns
        needed = max(self._columns) + 1
        for number, line in enumerate(read_lines(self.paths[0]), 1):
            place = f"{self.paths[0]}:{number}"
            fields = columns(line, needed, place=place) if line.strip() else [""] * needed
            name = fields[document[0]] if document else ""
            yield Pair(_side(fields[source]), _side(fields[target]), place, document=name)


@final
class JsonLines(Reader[Pair]):
    """One file with a JSON object on each line, of which two fields are the pair; other fields are ignored.

    A further field may say of which document a pair is, as a text or a number. A line of nothing but whitespace is a
    pair of empty sides.
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

    def __iter__(self) -> Iterator[Pair]:
        source, target = self._fields
        for number, line in enumerate(read_lines(self.paths[0]), 1):
            place = f"{self.paths[0]}:{number}"
            record = Record.read(line, place=place) if line.strip() else None
            if record is None:
                yield Pair("", "", place)
                continue
            name = "" if self._document is None else record.scalar(self._document)
            yield Pair(record.text(source), record.text(target), place, document=name)


@final
@dataclass(frozen=True)
class Record:
    """A JSON object and where it stands; what is missing or of another type is a `DataError` that says so."""

    fields: Mapping[str, object]
    place: str

    @classmethod
    def read(cls, text: str, *, place: str) -> Record:
        """The object that a line is; `DataError` for anything else."""
        try:
            value: object = parse_data(text)
        except NestedTooDeeplyError:
            raise DataError(f"{place}: JSON nested too deeply; each line must be one flat object") from None
        except ValueError as error:
            raise DataError(f"{place}: not valid JSON ({error}); each line must be one object") from None
        if not isinstance(value, dict):
            raise DataError(f"{place}: a JSON {type(value).__name__} where an object is needed")
        return cls(value, place=place)

    def __contains__(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def text(self, name: str) -> str:
        """A text; one of nothing but white space is empty."""
        value: str = self._value(name, "text", str)
        if _UNWRITABLE.search(value):
            raise DataError(f"{self.place}: field {name!r} holds NUL or half a surrogate pair; mend the line")
        return _side(value)

    def integer(self, name: str) -> int:
        """A whole number."""
        return int(self._value(name, "a whole number", int))

    def flag(self, name: str) -> bool:
        """True or false, which may be written 1 and 0."""
        value = self._value(name, "true or false", bool, int)
        if value not in (0, 1):
            raise self._wrong(name, "true or false")
        return bool(value)

    def scalar(self, name: str) -> str:
        """A text, a number, or `true` and `false`, as it is written in JSON without quotes."""
        value = self._value(name, "a text, a number or a truth value", str, bool, int, float)
        return self.text(name) if isinstance(value, str) else json.dumps(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        items = self._list(name, "a list of texts", of=str)
        return tuple(Record({name: item}, place=self.place).text(name) for item in items)

    def integers(self, name: str) -> list[int]:
        """A list of whole numbers."""
        return self._list(name, "a list of whole numbers", of=int)

    def inner(self, name: str) -> Record:
        """An object."""
        return Record(self._value(name, "an object", dict), place=self.place)

    def inners(self, name: str) -> list[Record]:
        """A list of objects; the place of each names the field and its number, from 0."""
        items = self._list(name, "a list of objects", of=dict)
        return [Record(item, place=f"{self.place} {name}[{number}]") for number, item in enumerate(items)]

    def _value(self, name: str, wanted: str, *kinds: type) -> Any:
        if name not in self.fields:
            present = ", ".join(map(repr, list(self.fields)[:8])) or "none"
            raise DataError(f"{self.place}: no field {name!r} (there: {present}); mend the line or choose other fields")
        value = self.fields[name]
        if type(value) not in kinds:
            raise self._wrong(name, wanted)
        return value

    def _list(self, name: str, wanted: str, *, of: type) -> list[Any]:
        items: list[Any] = self._value(name, wanted, list)
        if not all(type(item) is of for item in items):
            raise self._wrong(name, wanted)
        return items

    def _wrong(self, name: str, wanted: str) -> DataError:
        kind = type(self.fields[name]).__name__
        return DataError(f"{self.place}: field {name!r} is {kind} where {wanted} is needed; mend the line")


@final
class JsonRecords(Reader[T_co]):
    """What `convert` makes of the JSON object on each line; lines of nothing but white space are left out."""

    def __init__(self, path: Path, convert: Callable[[Record], Iterable[T_co]]) -> None:
        super().__init__(path)
        self._convert = convert

    def __iter__(self) -> Iterator[T_co]:
        for _, record in records(self.paths[0]):
            yield from self._convert(record)


def records(path: Path) -> Iterator[tuple[int, Record]]:
    """The JSON object on each line, behind the line's number."""
    for number, place, line in placed_lines(path):
        yield number, Record.read(line, place=place)


def json_file(path: Path) -> Record:
    """The one object of a whole file, plain or gzip; `DataError` where it is none."""
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
    return Record(value, place=str(path))


def columns(line: str, needed: int, *, place: str) -> list[str]:
    """The tab-separated columns of a line; `DataError` where there are fewer than are needed."""
    fields = line.split("\t")
    if len(fields) < needed:
        raise DataError(
            f"{place}: {len(fields)} tab-separated column{'s' * (len(fields) > 1)} where {needed} are needed; mend the "
            "line or choose other columns"
        )
    return fields


def placed_lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Number, place (`file:line`) and text of each line of a file; those of nothing but white space are left out."""
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            yield number, f"{path}:{number}", line


def read_lines(source: Path | BinaryIO) -> Iterator[str]:
    """The lines of one file, or of a stream of bytes such as `sys.stdin.buffer`, as they arrive.

    Unlike the sides of a pair, lines keep their whitespace. The path `-` is standard input. A missing file is
    reported at once, other faults (see the module) when their line is reached. Streams are read as they are;
    gzip is for files.
    """
    if source == _STANDARD_INPUT:
        source = sys.stdin.buffer
    if isinstance(source, Path):
        _require_file(source)
        return _decoded(_raw_lines(source), name=str(source))
    named = getattr(source, "name", None)
    name = named if isinstance(named, str) and named != "<stdin>" else "standard input"
    return _decoded(_cut(source.readline, name=name), name=name)


def _decoded(lines: Iterator[bytes], *, name: str) -> Iterator[str]:
    for number, raw in enumerate(lines, 1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}:{number}: byte {error.start + 1} of the line (0x{raw[error.start]:02x}) is not UTF-8; "
                "convert the file to UTF-8"
            ) from None
        if "\0" in text:
            raise DataError(f"{name}:{number}: a NUL character; convert the file to UTF-8 text or mend the line")
        yield text


def _require_file(path: Path) -> None:
    if path == _STANDARD_INPUT:
        return
    if not path.exists():
        raise DataError(f"{path}: there is no such file; check the path{_escaped(path)}")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder where a file is needed; name a file in it")


def _escaped(path: Path) -> str:
    r"""What to say of a path that holds what `\n` and `\t` mean in quotes."""
    if not _CONTROL.search(str(path)):
        return ""
    escapes = r"as \n and \t are in double quotes"
    return f"; it holds a line end or a tab, {escapes}: write it in single quotes, or with forward slashes"


def _raw_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as plain:
            zipped = plain.peek(2)[:2] == _GZIP
            if path.suffix == ".gz" and not zipped:
                raise DataError(f"{path}: not a gzip file in spite of its name; compress it again or drop the .gz")
            stream = gzip.GzipFile(fileobj=plain) if zipped else plain
            yield from _cut(stream.readline, name=str(path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip file ({error}); fetch or compress it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the path and its rights") from None


def _cut(readline: Callable[[int], bytes], *, name: str) -> Iterator[bytes]:
    line = readline(LONGEST_LINE + 1)
    number = 1
    if line.startswith(_BOM):
        line = line[len(_BOM) :] or readline(LONGEST_LINE + 1)
    while line:
        if len(line) > LONGEST_LINE:
            raise DataError(f"{name}:{number}: a line of more than {LONGEST_LINE} bytes; is this a text file?")
        yield line.removesuffix(b"\n").removesuffix(b"\r")
        line = readline(LONGEST_LINE + 1)
        number += 1


def _side(text: str) -> str:
    return text if text.strip() else ""
