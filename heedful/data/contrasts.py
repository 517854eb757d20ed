"""Sentences with a right translation and wrong ones that differ from it in one thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, final

from heedful.data.readers import Reader, Record, columns, placed_lines
from heedful.errors import DataError


class Contrast(NamedTuple):
    """A sentence, its right translation, wrong ones, in what they differ (empty where nobody says so), where it stands,
    and the tags that stand before the sentence.
    """

    source: str
    right: str
    wrong: tuple[str, ...]
    kind: str
    place: str
    tags: tuple[str, ...] = ()


@final
class Contrasts(Reader[Contrast]):
    """One contrast a line: TSV (source, right, wrong and, if wanted, kind), or JSON objects with fields of these names.

    In JSON `wrong` may be a list. Lines of nothing but white space are left out.

    Args:
        path: plain or gzipped; a name that ends with .jsonl or .ndjson is one of JSON.
        tags: that stand before all sources.
    """

    def __init__(self, path: Path, tags: Sequence[str] = ()) -> None:
        super().__init__(path)
        self._tags = tuple(tags)

    def __iter__(self) -> Iterator[Contrast]:
        read = _object if self.paths[0].name.removesuffix(".gz").endswith((".jsonl", ".ndjson")) else _row
        for _, place, line in placed_lines(self.paths[0]):
            source, right, wrong, kind = read(line, place)
            if not source or not right or not wrong or not all(wrong):
                raise DataError(f"{place}: source, right or wrong is empty; give all three")
            if right in wrong:
                raise DataError(f"{place}: right and wrong are the same text; they must differ")
            yield Contrast(source, right, wrong, kind, place, self._tags)


def _row(line: str, place: str) -> tuple[str, str, tuple[str, ...], str]:
    source, right, wrong, *kind = map(str.strip, columns(line, 3, place=place))
    return source, right, (wrong,), kind[0] if kind else ""


def _object(line: str, place: str) -> tuple[str, str, tuple[str, ...], str]:
    record = Record.read(line, place=place)
    several = isinstance(record.fields.get("wrong"), list)
    wrong = record.texts("wrong") if several else (record.text("wrong"),)
    return record.text("source"), record.text("right"), wrong, record.text("kind") if "kind" in record else ""
