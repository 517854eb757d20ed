"""Parquet files that translations can be learned from: two columns of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

from heedful.data.forms.form import Example, Form, Found, by_part
from heedful.data.forms.glance import Columnar, Glance
from heedful.data.forms.languages import Language, guessed, language_called
from heedful.data.forms.naming import Part
from heedful.data.forms.parallel import ParallelFound
from heedful.data.forms.saving import JsonlSaver, Saver
from heedful.data.parquet import ParquetColumns
from heedful.errors import RecipeError


@final
@dataclass(frozen=True, kw_only=True)
class ParquetFound(ParallelFound):
    """One file for each part; parts that are split off become lines of JSON.

    Attributes:
        columns: the one that is read, and the one that is written.
        document: name of the column that says of which document a row is, each of which is in one part.
    """

    columns: tuple[str, str]
    document: str | None = None

    def sides(self, part: Part) -> Sequence[str]:
        """A file and a column."""
        return [f"{self.first(part)} ({column})" for column in self.columns]

    @property
    def seen(self) -> str:
        """The format."""
        return "a Parquet table"

    @property
    def taken(self) -> str:
        """The first is the source."""
        first, second = self.languages
        known = f" ({first} to {second})" if first and second else ""
        return f"column {self.columns[0]} becomes {self.columns[1]}{known}"

    def examples(self, part: Part) -> Iterator[Example]:
        """Row by row."""
        source_field, target_field = self.columns
        reader = ParquetColumns(
            self.first(part), source_field=source_field, target_field=target_field, document_field=self.document
        )
        for number, pair in enumerate(reader, 1):
            source, target = pair.source, pair.target
            raw = {source_field: source, target_field: target}
            if self.document is not None:
                raw[self.document] = pair.document
            yield Example((source, target), (), number, raw, (source if self.document is None else pair.document,))

    def table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """The file, and the names of both columns, which its parts keep."""
        own = {} if self.document is None else {"document_field": self.document}
        return {"path": files[0], "source_field": self.columns[0], "target_field": self.columns[1], **own}

    def turned(self) -> Self:
        """The columns in the other order."""
        return replace(self, columns=self.columns[::-1], languages=self.languages[::-1])

    def saver(self, folder: Path, part: Part, *, zipped: bool) -> Saver:
        """Lines of JSON."""
        return JsonlSaver(folder / f"{part}.jsonl{'.gz' * zipped}")


@final
@dataclass(frozen=True)
class ParquetFiles(Form):
    """Tables that have two columns of text, or of which two are named, one for each part."""

    certainty: float = 0.9
    unsure: float = 0.6
    """where both columns seem to be in one language"""

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """The columns in their order, unless they are named."""
        parts = by_part(files)
        shapes = [file.shape for file in files if isinstance(file.shape, Columnar)]
        if len(shapes) < len(files) or any(len(each) > 1 for each in parts.values()) or len(columns) not in (0, 2):
            return
        for shape, file in zip(shapes, files, strict=True):
            for name in columns:
                if name not in shape.texts:
                    there = ", ".join(shape.texts) or "none"
                    raise RecipeError(f"--columns: {file.path} has no column of text {name!r}; there: {there}")
        names = tuple(columns or shapes[0].texts)
        if len(names) != 2 or any(not {*names} <= {*shape.texts} for shape in shapes):
            return
        first, second = (_language(name, shapes[0].texts[name]) for name in names)
        yield ParquetFound(
            files={part: [each[0].path] for part, each in parts.items()},
            certainty=self.certainty if columns or (first and second and first != second) else self.unsure,
            languages=[first, second],
            columns=(names[0], names[1]),
        )

    def hint(self, files: Sequence[Glance]) -> str:
        """How to say which of many columns are meant."""
        shapes = {file.path: file.shape for file in files if isinstance(file.shape, Columnar)}
        odd = next(((path, shape) for path, shape in shapes.items() if len(shape.texts) != 2), None)
        if odd is None:
            return ""
        path, shape = odd
        there = ", ".join(shape.texts) or "none"
        return (
            f"{path}: is a Parquet table, its columns of text: {there}; say which is read and which is written, "
            "as in --columns en de; for other tasks save it as CSV or JSONL"
        )


def _language(name: str, texts: Sequence[str]) -> Language:
    """By the name of its column, or by what stands there."""
    return language_called(name) or guessed(texts)
