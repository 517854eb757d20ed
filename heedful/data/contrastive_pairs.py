"""Sentences with a correct translation and wrong ones that differ from it in one respect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, final

from heedful.data.readers import ExampleReader, JsonRecord, read_numbered_lines, split_columns
from heedful.errors import DataError


class ContrastiveExample(NamedTuple):
    """A source sentence with its correct translation `right` and wrong ones `wrong`.

    `kind` names the difference (empty if not given), `location` the line (`file:line`), and `tags` the tags put before
    the source.
    """

    source: str
    right: str
    wrong: tuple[str, ...]
    kind: str
    location: str
    tags: tuple[str, ...] = ()


@final
class ContrastiveReader(ExampleReader[ContrastiveExample]):
    """Read one contrastive example from each line: TSV (source, right, wrong and optionally kind), or JSON objects
    with fields of these names.

    In JSON `wrong` may be a list. Lines of white space are skipped.

    Args:
        path: plain or gzipped; a name that ends with .jsonl or .ndjson is read as JSON.
        tags: tags put before all sources.
    """

    def __init__(self, path: Path, tags: Sequence[str] = ()) -> None:
        super().__init__(path)
        self._tags = tuple(tags)

    def __iter__(self) -> Iterator[ContrastiveExample]:
        parse_line = (
            _parse_object if self.paths[0].name.removesuffix(".gz").endswith((".jsonl", ".ndjson")) else _parse_row
        )
        for _, location, line in read_numbered_lines(self.paths[0]):
            source, right, wrong, kind = parse_line(line, location)
            if not source or not right or not wrong or not all(wrong):
                raise DataError(f"{location}: source, right or wrong is empty; give all three")
            if right in wrong:
                raise DataError(f"{location}: right and wrong are the same text; they must differ")
            yield ContrastiveExample(source, right, wrong, kind, location, self._tags)


def _parse_row(line: str, location: str) -> tuple[str, str, tuple[str, ...], str]:
    """Parse a TSV line into source, right, wrong and kind."""
    source, right, wrong, *kind = map(str.strip, split_columns(line, 3, location=location))
    return source, right, (wrong,), kind[0] if kind else ""


def _parse_object(line: str, location: str) -> tuple[str, str, tuple[str, ...], str]:
    """Parse a JSON line into source, right, wrong translations and kind; kind is empty if there is none, and `location`
    is named in errors.
    """
    record = JsonRecord.from_line(line, location=location)
    is_list = isinstance(record.fields.get("wrong"), list)
    wrong = record.get_texts("wrong") if is_list else (record.get_text("wrong"),)
    return (
        record.get_text("source"),
        record.get_text("right"),
        wrong,
        record.get_text("kind") if "kind" in record else "",
    )
