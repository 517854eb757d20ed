"""Detect Parquet files with two text columns as parallel text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import DataFormat, DatasetExample, DetectedDataset, group_by_part
from heedful.data.detect.languages import LanguageInfo, guess_language, parse_column_language
from heedful.data.detect.parallel import DetectedParallelText
from heedful.data.detect.part_writers import JsonlPartWriter, PartWriter
from heedful.data.detect.sniff import FileSniff, ParquetShape
from heedful.data.parquet import ParquetPairReader
from heedful.errors import RecipeError


@final
@dataclass(frozen=True, kw_only=True)
class DetectedParquet(DetectedParallelText):
    """Parallel text in one Parquet file for each part; parts that are split off become JSON lines.

    Attributes:
        columns: the source column and the target column.
        document_column: name of the column with the document of a row; each document stays in one part.
    """

    columns: tuple[str, str]
    document_column: str | None = None

    def get_side_names(self, part: DatasetPart) -> Sequence[str]:
        """Return the file and the column of each side."""
        return [f"{self.get_first_file(part)} ({column})" for column in self.columns]

    @property
    def format_description(self) -> str:
        """Description of the format."""
        return "a Parquet table"

    @property
    def learning_description(self) -> str:
        """Description of source and target; the first column is the source."""
        first, second = self.languages
        languages_text = f" ({first} to {second})" if first and second else ""
        return f"column {self.columns[0]} becomes {self.columns[1]}{languages_text}"

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read one example for each row."""
        source_field, target_field = self.columns
        reader = ParquetPairReader(
            self.get_first_file(part),
            source_field=source_field,
            target_field=target_field,
            document_field=self.document_column,
        )
        for row_number, pair in enumerate(reader, 1):
            source, target = pair.source, pair.target
            raw = {source_field: source, target_field: target}
            if self.document_column is not None:
                raw[self.document_column] = pair.document
            yield DatasetExample(
                (source, target), (), row_number, raw, (source if self.document_column is None else pair.document,)
            )

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the path and the names of the columns, which written parts keep."""
        document_entry = {} if self.document_column is None else {"document_field": self.document_column}
        return {"path": files[0], "source_field": self.columns[0], "target_field": self.columns[1], **document_entry}

    def swap_sides(self) -> Self:
        """Return the dataset with the columns in the other order."""
        return replace(self, columns=self.columns[::-1], languages=self.languages[::-1])

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build a writer of JSON lines."""
        return JsonlPartWriter(folder / f"{part}.jsonl{'.gz' * compress}")


@final
@dataclass(frozen=True)
class ParquetFormat(DataFormat):
    """Format of Parquet tables, one for each part, that have two text columns or of which two are named."""

    confidence: float = 0.9
    low_confidence: float = 0.6
    """confidence if both columns seem to be in one language"""

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Detect the two text columns, in their order unless they are named."""
        parts = group_by_part(files)
        shapes = [file.shape for file in files if isinstance(file.shape, ParquetShape)]
        if (
            len(shapes) < len(files)
            or any(len(part_files) > 1 for part_files in parts.values())
            or len(columns) not in (0, 2)
        ):
            return
        for shape, file in zip(shapes, files, strict=True):
            for name in columns:
                if name not in shape.texts:
                    present_names = ", ".join(shape.texts) or "none"
                    raise RecipeError(f"--columns: {file.path} has no column of text {name!r}; there: {present_names}")
        names = tuple(columns or shapes[0].texts)
        if len(names) != 2 or any(not {*names} <= {*shape.texts} for shape in shapes):
            return
        first, second = (_detect_language(name, shapes[0].texts[name]) for name in names)
        yield DetectedParquet(
            files={part: [part_files[0].path] for part, part_files in parts.items()},
            confidence=self.confidence if columns or (first and second and first != second) else self.low_confidence,
            languages=[first, second],
            columns=(names[0], names[1]),
        )

    def get_hint(self, files: Sequence[FileSniff]) -> str:
        """Return how to select two of several text columns."""
        shapes = {file.path: file.shape for file in files if isinstance(file.shape, ParquetShape)}
        wrong_file = next(((path, shape) for path, shape in shapes.items() if len(shape.texts) != 2), None)
        if wrong_file is None:
            return ""
        path, shape = wrong_file
        present_names = ", ".join(shape.texts) or "none"
        return (
            f"{path}: is a Parquet table, its columns of text: {present_names}; name the source and the target, as in "
            "--columns en de; for other tasks save it as CSV or JSONL"
        )


def _detect_language(name: str, texts: Sequence[str]) -> LanguageInfo:
    """Return the language of a column by its name, or else by its texts."""
    return parse_column_language(name) or guess_language(texts)
