"""What the beginning of a file shows: its form, whatever is learned from it."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from heedful.data.forms.columns import Profile, has_header, profiles
from heedful.data.forms.naming import Named, named, plain_suffix
from heedful.data.labelled import declared_separator, quoted_rows
from heedful.data.parquet import first_texts
from heedful.data.readers import Record, read_lines, records
from heedful.errors import DataError
from heedful.files import parse_data
from heedful.localisation.tags import read_xml
from heedful.localisation.tmx import languages

_LINES: Final = 20_000
"""Lines that are looked at, at most."""
_CHARACTERS: Final = 2**24
_AT_ONCE: Final = 2**20
"""Bytes."""
_OBJECT: Final = re.compile(r"\{")
"""Behind an object of a list nothing stands before the next one but a comma and white space."""
LABEL_FIRST: Final = " "
"""The delimiter of lines that have a label and a text, and nothing but white space between these."""
_FASTTEXT: Final = re.compile(r"(?<!\S)__label__(\S+)")
"""A label of fastText, which may stand anywhere in its line."""
_CLASS_FIRST: Final = re.compile(
    r"[+-]?\d{1,2}|[A-Z]+:[a-z]+|(?i:pos|neg|positive|negative|neutral|ham|spam)", re.ASCII
)
"""What is taken for a label at the beginning of all lines: a small whole number, a class of TREC, a usual word."""
_CLASSES_FIRST: Final = 100
"""Different labels at the beginning of lines, at most."""
_WESTERN: Final = "CP1252"
_MAGIC: Final[Mapping[bytes, str]] = {
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
    b"BZh": "a bzip2 archive; unpack it",
    b"\xfd7zXZ": "an xz archive; unpack it",
    b"\x28\xb5\x2f\xfd": "a zstd archive; unpack it",
    b"SQLite": "a database",
    b"ARROW1": "an Arrow table",
}


class Shape(ABC):
    """The form of a file.

    Abstract: its children say what is known of each.
    """

    @property
    @abstractmethod
    def told(self) -> str:
        """What it is, in words."""


@dataclass(frozen=True)
class Plain(Shape):
    """Lines of text.

    Attributes:
        lines: the first ones.
    """

    lines: Sequence[str]

    @property
    def told(self) -> str:
        """What it is, in words."""
        return "lines of text"


@dataclass(frozen=True)
class Rows(Shape):
    """A table.

    Attributes:
        delimiter: what stands between columns.
        header: whether the first row names the columns.
        columns: what they are like.
        sample: the first rows behind the header.
        declared: whether the first line of the file says what stands between columns.
    """

    delimiter: str
    header: bool
    columns: Sequence[Profile]
    sample: Sequence[Sequence[str]]
    declared: bool = False

    @property
    def told(self) -> str:
        """What it is, in words."""
        return f"a table of {len(self.columns)} columns"


@dataclass(frozen=True)
class Objects(Shape):
    """A JSON object on each line, or one list of them.

    Attributes:
        columns: what fields of text, numbers and truth values are like.
        nested: names of the fields that hold lists or objects.
        sample: the first objects.
        listed: whether they are one list.
    """

    columns: Sequence[Profile]
    nested: frozenset[str]
    sample: Sequence[Mapping[str, object]]
    listed: bool = False

    @property
    def told(self) -> str:
        """What it is, in words."""
        names = ", ".join([*(each.name for each in self.columns), *sorted(self.nested)])
        return f"{'a list of JSON objects' if self.listed else 'lines of JSON'} with {names}"


@dataclass(frozen=True)
class Document(Shape):
    """One JSON value; `value` is all of it."""

    value: object

    @property
    def told(self) -> str:
        """What it is, in words."""
        return "one JSON value; save what is to be learned from as JSONL, with an object on each line"


@dataclass(frozen=True)
class Words(Shape):
    """A word on each line, in columns, with empty lines between sentences.

    Attributes:
        conllu: whether it is CoNLL-U, which has ten columns and comments.
        columns: what they are like.
    """

    conllu: bool
    columns: Sequence[Profile]

    @property
    def told(self) -> str:
        """What it is, in words."""
        return f"words in {len(self.columns)} columns"


@dataclass(frozen=True)
class Folder(Shape):
    """A folder; `endings` counts those of the names in it."""

    endings: Mapping[str, int]

    @property
    def told(self) -> str:
        """What it is, in words."""
        return "a folder; name the files in it, as in heedful new FOLDER/*"


@dataclass(frozen=True)
class Binary(Shape):
    """No text; `what` it is, in words."""

    what: str

    @property
    def told(self) -> str:
        """What it is, in words."""
        return f"no text but {self.what}"


@dataclass(frozen=True)
class Translated(Shape):
    """A file of translators, of which each format knows its own.

    Attributes:
        languages: that it says it has, where its format has more than two.
    """

    languages: Sequence[str] = ()

    @property
    def told(self) -> str:
        """What it is, in words."""
        return f"translations in {', '.join(self.languages)}" if self.languages else "translations"


@dataclass(frozen=True)
class Columnar(Shape):
    """A table of Parquet; `texts` holds the first values of each column of text, by its name."""

    texts: Mapping[str, Sequence[str]]

    @property
    def told(self) -> str:
        """What it is, in words."""
        return f"a Parquet table with texts in {', '.join(self.texts) or 'no column'}"


@dataclass(frozen=True)
class Glance:
    """A file as it looks at first sight."""

    path: Path
    shape: Shape

    @cached_property
    def named(self) -> Named:
        """What its name says."""
        return named(self.path)

    @property
    def told(self) -> str:
        """What it is, in words."""
        return f"{self.shape.told}{f', for {self.named.part} by its name' if self.named.part else ''}"


def glance(path: Path) -> Glance:
    """A file as it looks at first sight.

    Raises:
        DataError: there is none, or it holds text that is not UTF-8.
    """
    if path.is_dir():
        endings: dict[str, int] = {}
        for inside in islice(path.rglob("*"), _LINES):
            if inside.is_file():
                endings[inside.suffix.lower()] = endings.get(inside.suffix.lower(), 0) + 1
        return Glance(path, Folder(endings))
    if plain_suffix(path) == ".parquet":
        return Glance(path, Columnar(first_texts(path, most=_LINES)))
    beginning = _beginning(path)
    what = next((what for magic, what in _MAGIC.items() if beginning.startswith(magic)), None)
    if what is None and beginning[257:262] == b"ustar":
        what = "a tar archive; unpack it"
    if what is not None:
        return Glance(path, Binary(what))
    if plain_suffix(path) in (".po", ".tmx", ".xlf", ".xliff"):
        return Glance(path, Translated(languages(read_xml(path).text) if plain_suffix(path) == ".tmx" else ()))
    require_utf8(path)
    lines = _first_lines(path)
    if not any(line.strip() for line in lines):
        raise DataError(f"{path}: the file is empty; is it the right one?")
    return Glance(path, _shape(path, lines))


def names_files(shape: Shape, endings: Sequence[str]) -> bool:
    """Whether a column of a table, or a field of JSON, has names of files that end so."""
    if not isinstance(shape, Rows | Objects):
        return False
    return any(_all_end(column.counts, endings) for column in shape.columns)


def _all_end(values: Mapping[str, int], endings: Sequence[str]) -> bool:
    bare = [re.sub(r"#\d+$", "", value.lower()) for value in values if value]
    return bool(bare) and sum(value.endswith(tuple(endings)) for value in bare) > 0.9 * len(bare)


def is_zipped(path: Path) -> bool:
    """Whether a file is compressed by gzip, whatever its name says."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _beginning(path: Path) -> bytes:
    next(read_lines(path), None) if not path.exists() else None  # which has the words for a missing file
    try:
        return next(_blocks(path, 512), b"")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the path and its rights") from None


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") if is_zipped(path) else path.open("rb") as file:
            while block := file.read(size):
                yield block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip file ({error}); fetch or compress it again") from None


def require_utf8(path: Path) -> None:
    """`DataError` where a file is not UTF-8: the first line at fault, how many others there are, and the remedy."""
    faulty: list[int] = []
    count, number, begun = 0, 1, b""
    for block in _blocks(path, _AT_ONCE):
        if number == 1 and not begun and block[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise DataError(f"{path}: is UTF-16 and must be UTF-8; {_converted(path, 'UTF-16')}")
        *whole, begun = (begun + block).split(b"\n") if begun else block.split(b"\n")
        for line in [] if _is_utf8(b"\n".join(whole)) else whole:
            if not _is_utf8(line):
                count += 1
                faulty = faulty or [number + whole.index(line)]
        number += len(whole)
    if not _is_utf8(begun):
        count, faulty = count + 1, faulty or [number]
    if faulty:
        others = f" (and {count - 1:,} more line{'s' * (count > 2)})" if count > 1 else ""
        raise DataError(f"{path}:{faulty[0]}: this line is not UTF-8{others}; {_converted(path, _WESTERN)}")


def _converted(path: Path, encoding: str) -> str:
    plain = path.name.removesuffix(".gz")
    read = (
        f"zcat {path.name} | iconv -f {encoding} -t UTF-8"
        if is_zipped(path)
        else f"iconv -f {encoding} -t UTF-8 {plain}"
    )
    probably = "" if encoding == "UTF-16" else f"probably it is {encoding} (Western Europe): "
    return f"{probably}convert it, as with: {read} > utf8-{plain}"


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _first_lines(path: Path) -> list[str]:
    lines, size = [], 0
    for line in islice(read_lines(path), _LINES):
        lines.append(line)
        size += len(line)
        if size > _CHARACTERS:
            break
    return lines


def _shape(path: Path, lines: Sequence[str]) -> Shape:
    suffix = plain_suffix(path)
    first = next(line for line in lines if line.strip()).lstrip()
    if suffix in (".json", ".jsonl", ".ndjson") or first[0] in "{[":
        found = _json(path, lines, required=suffix in (".json", ".jsonl", ".ndjson"))
        if found is not None:
            return found
    if suffix == ".csv" and not _FASTTEXT.match(first):
        return _separated(path)
    words = _words(suffix, lines)
    if words is not None:
        return words
    labelled = _labels_first(path, lines)
    if labelled is not None:
        return labelled
    return _tabs(lines, named_so=suffix == ".tsv") or Plain(lines)


def _json(path: Path, lines: Sequence[str], *, required: bool) -> Shape | None:
    filled = [line for line in lines if line.strip() and not line.startswith("#")]
    objects = [value for value in (_value(line) for line in filled) if isinstance(value, dict)]
    if len(objects) == len(filled) and (len(objects) > 1 or plain_suffix(path) != ".json"):
        return _objects(objects)
    if not required and len(filled) > 1 and filled[0].strip() not in "{[":
        return None
    try:
        value = parse_data(_uncommented(path))
    except ValueError as error:
        if not required:
            return None
        if objects and len(objects) > 0.5 * len(filled):
            number, line = next((n, line) for n, line in enumerate(lines, 1) if line.strip() and _value(line) is None)
            raise DataError(
                f"{path}:{number}: not a JSON object as the other lines are: {line[:60]!r}; mend it"
            ) from None
        raise DataError(f"{path}: not valid JSON ({error}); fetch the file again") from None
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return _objects(value[:_LINES], listed=True)
    return Document(value)


def _uncommented(path: Path) -> str:
    """All of a file, with empty lines for comments."""
    return "\n".join("" if line.startswith("#") else line for line in read_lines(path))


def objects(path: Path) -> Iterator[tuple[int, Record]]:
    """The JSON objects of a file, on lines or in one list, each behind the number of the line where it begins."""
    first = next((line for line in read_lines(path) if line.strip() and not line.startswith("#")), "")
    if not first.lstrip().startswith("["):
        yield from records(path)
        return
    text = _uncommented(path)
    decoder, number, seen = json.JSONDecoder(), 1, 0
    begun = _OBJECT.search(text)
    while begun:
        number += text.count("\n", seen, begun.start())
        seen = begun.start()
        try:
            value, end = decoder.raw_decode(text, seen)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not valid JSON ({error}); mend it, or fetch the file again") from None
        yield number, Record(value, place=f"{path}:{number}")
        begun = _OBJECT.search(text, end)


def _value(line: str) -> object:
    try:
        value: object = parse_data(line)
    except ValueError:
        return None
    return value


def _objects(found: Sequence[Mapping[str, object]], *, listed: bool = False) -> Objects:
    names = list(dict.fromkeys(name for value in found for name in value))
    nested = frozenset(name for name in names if any(isinstance(value.get(name), list | dict) for value in found))
    flat = [name for name in names if name not in nested]
    rows = [[written(value.get(name)) for name in flat] for value in found]
    return Objects(profiles(flat, rows), nested, found[:100], listed)


def written(value: object) -> str:
    """A value of JSON as `Record.scalar` has it; nothing for null."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def table_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table and the line on which each begins; only tabs are without quoting.

    Raises:
        DataError: quotes do not match.
    """
    if delimiter == LABEL_FIRST:
        for number, line in enumerate(read_lines(path), 1):
            if line.strip():
                yield number, _label_and_text(line)
        return
    if delimiter == "\t":
        for number, line in enumerate(read_lines(path), 1):
            if line.strip() and not (number == 1 and declared_separator(line) is not None):
                yield number, line.split("\t")
        return
    yield from quoted_rows(path, delimiter=delimiter)


def _separated(path: Path) -> Shape:
    """A table whose columns are separated by whatever gives all rows equally many, and more than one."""
    declared = declared_separator(next(read_lines(path)))
    chosen, most = declared or ",", (0.0, 0)
    for delimiter in declared or ",;\t|":
        try:
            sizes = [len(row) for _, row in islice(table_rows(path, delimiter), 1000)]
        except DataError:
            continue  # the chosen one is read again, and says what is wrong
        if not sizes:
            raise DataError(f"{path}: there is no row below the line that names the separator; is it the right file?")
        width = max(set(sizes), key=sizes.count)
        worth = (sizes.count(width) / len(sizes), width)
        if width > 1 and worth > most:
            chosen, most = delimiter, worth
    rows = [row for _, row in islice(table_rows(path, chosen), _LINES)]
    return _rows(chosen, rows, declared=declared is not None)


def _rows(delimiter: str, rows: Sequence[Sequence[str]], *, declared: bool = False) -> Rows:
    header = delimiter != LABEL_FIRST and has_header(rows)
    width = max(map(len, rows[:1] if header else rows))
    names = [cell.strip() or str(number) for number, cell in enumerate(rows[0])] if header else []
    names += [str(number) for number in range(len(names), width)]
    body = rows[1:] if header else rows
    return Rows(delimiter, header, profiles(names, body), body, declared)


def _labels_first(path: Path, lines: Sequence[str]) -> Rows | None:
    """Lines that begin with a label and a space: fastText's, whole numbers of which there are few, or classes of TREC.

    Raises:
        DataError: lines have several labels of fastText.
    """
    filled = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    labels = [len(_FASTTEXT.findall(line)) for _, line in filled]
    if all(labels):
        several = next((number for (number, _), count in zip(filled, labels, strict=True) if count > 1), None)
        if several is not None:
            raise DataError(
                f"{path}:{several}: has several labels (__label__...), and one class of each text is learned; keep one "
                "label a line, or write a file for each label"
            )
    elif not _begin_with_classes([line for _, line in filled]):
        return None
    return _rows(LABEL_FIRST, [row for _, row in islice(table_rows(path, LABEL_FIRST), _LINES)])


def _begin_with_classes(lines: Sequence[str]) -> bool:
    """Whether each line begins with one of few classes, and words stand behind it."""
    rows = [line.split(maxsplit=1) for line in lines]
    if any("\t" in line for line in lines) or not all(len(row) == 2 for row in rows):
        return False
    counts = Counter(label for label, _ in rows)
    few = 2 <= len(counts) <= _CLASSES_FIRST and min(counts.values()) > 1 and len(rows) >= 5 * len(counts)
    worded = sum(any(map(str.isalpha, text)) for _, text in rows)
    return few and worded >= 0.9 * len(rows) and all(_CLASS_FIRST.fullmatch(label) for label in counts)


def _label_and_text(line: str) -> list[str]:
    """The columns of a line that has its label before its text, or fastText's anywhere."""
    found = _FASTTEXT.search(line)
    if found is None:
        return line.split(maxsplit=1)
    return [found[1], f"{line[: found.start()]}{line[found.end() :]}".strip()]


def _tabs(lines: Sequence[str], *, named_so: bool) -> Rows | None:
    declared = declared_separator(lines[0]) is not None
    rows = [line.split("\t") for line in lines[declared:] if line.strip()]
    if not rows:
        return None
    sizes = [len(row) for row in rows]
    width = max(set(sizes), key=sizes.count)
    if width > 1 and (named_so or sizes.count(width) >= 0.9 * len(sizes)):
        return _rows("\t", rows, declared=declared)
    return None


def _words(suffix: str, lines: Sequence[str]) -> Words | None:
    """A sentence is a block of lines; where most blocks are single lines they are no words."""
    comments = suffix == ".conllu" or lines[0].startswith("# ")
    kept = [line for line in lines if not (comments and line.startswith("#"))]
    rows = [line.split("\t") if "\t" in line else line.split() for line in kept if line.strip()]
    if not rows:
        return None
    if suffix == ".conllu" or _is_conllu(kept):
        body = [row for row in rows if row[0].isdecimal()]
        return Words(True, profiles([str(number) for number in range(10)], body))
    blocks = sum(1 for before, line in zip(["", *kept], kept, strict=False) if line.strip() and not before.strip())
    sizes = [len(row) for row in rows]
    width = max(set(sizes), key=sizes.count)
    even = sizes.count(width) >= 0.97 * len(sizes) and 2 <= width <= 12
    bare = sum(" " not in row[0].strip() for row in rows) >= 0.97 * len(rows)
    if not even or not bare or blocks < 2 or len(rows) < 3 * blocks:
        return None
    return Words(False, profiles([str(number) for number in range(width)], rows))


def _is_conllu(lines: Sequence[str]) -> bool:
    rows = [line.split("\t") for line in lines if line.strip()]
    return all(len(row) == 10 and re.fullmatch(r"[\d.-]+", row[0]) is not None for row in rows)
