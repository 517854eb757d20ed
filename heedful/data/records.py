"""JSON of other people: objects whose fields are asked for by type, and readers that make examples of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast, final

from heedful.data.readers import Reader, T_co, json_object, read_lines, text_field
from heedful.errors import DataError


@final
class Record:
    """A JSON object and where it stands; what is missing or of another type is a `DataError` that says so."""

    def __init__(self, fields: Mapping[str, object], *, place: str) -> None:
        self._fields = fields
        self.place = place

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def text(self, name: str) -> str:
        """A text; one of nothing but white space is empty."""
        return text_field(self._fields, name, place=self.place)

    def integer(self, name: str) -> int:
        """A whole number."""
        value = self._value(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(name, "a whole number")
        return value

    def flag(self, name: str) -> bool:
        """True or false, which may be written 1 and 0."""
        value = self._value(name)
        if value not in (0, 1) or not isinstance(value, int):
            raise self._wrong(name, "true or false")
        return bool(value)

    def scalar(self, name: str) -> str:
        """A text, a number, or `true` and `false`, as it is written in JSON without quotes."""
        value = self._value(name)
        if isinstance(value, str):
            return self.text(name)
        if not isinstance(value, bool | int | float):
            raise self._wrong(name, "a text, a number or a truth value")
        return json.dumps(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._value(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of texts")
        return tuple(text_field({name: item}, name, place=self.place) for item in value)

    def inner(self, name: str) -> Record:
        """An object."""
        value = self._value(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return Record(cast(dict[str, object], value), place=self.place)

    def inners(self, name: str) -> list[Record]:
        """A list of objects; the place of each names the field and its number, from 0."""
        value = self._value(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._wrong(name, "a list of objects")
        return [Record(item, place=f"{self.place} {name}[{number}]") for number, item in enumerate(value)]

    def _value(self, name: str) -> object:
        if name not in self._fields:
            return self.text(name)  # which says what is there instead
        return self._fields[name]

    def _wrong(self, name: str, wanted: str) -> DataError:
        kind = type(self._fields[name]).__name__
        return DataError(f"{self.place}: field {name!r} is {kind} where {wanted} is needed; mend the line")


@final
class JsonRecords(Reader[T_co]):
    """What `convert` makes of the JSON object on each line; lines of nothing but white space are left out."""

    def __init__(self, path: Path, convert: Callable[[Record], Iterable[T_co]]) -> None:
        super().__init__(path)
        self._convert = convert

    def __iter__(self) -> Iterator[T_co]:
        for number, line in enumerate(read_lines(self.paths[0]), 1):
            if line.strip():
                place = f"{self.paths[0]}:{number}"
                yield from self._convert(Record(json_object(line, place=place), place=place))


def json_file(path: Path) -> Record:
    """The one object of a whole file, plain or gzip; `DataError` where it is none."""
    text = "\n".join(read_lines(path))
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise DataError(f"{path}: JSON nested too deeply; is this the right file?") from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{error.lineno}: not valid JSON ({error.msg}); fetch the file again, or name a .jsonl file if "
            "each line is an object"
        ) from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: a JSON {type(value).__name__} where an object is needed; is this the right file?")
    return Record(cast(dict[str, object], value), place=str(path))
