"""Parallel text in columns of Parquet files: the reader, row group by row group, and how such files are detected.

The format: https://parquet.apache.org/docs/file-format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, final

from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import (
    DataFormat,
    DatasetExample,
    DetectedDataset,
    JsonlPartWriter,
    PartWriter,
    find_single_files,
)
from heedful.data.detect.languages import LanguageInfo, guess_language, parse_column_language
from heedful.data.detect.parallel import DetectedColumns
from heedful.data.detect.sniff import FileShape, FileSniff
from heedful.data.readers import ExampleReader, SentencePair
from heedful.errors import DataError, MissingExtraError, RecipeError

_BATCH_ROWS: Final = 4096
"""Largest number of rows held in memory at a time."""
_MAX_SNIFFED_ROWS: Final = 20_000
"""Largest number of rows from which languages are detected."""
_TEXT_TYPES: Final = frozenset(("string", "large_string", "string_view"))


@final
class ParquetPairReader(ExampleReader[SentencePair]):
    """Read pairs from two text columns of one Parquet file; NULL is an empty side.

    Args:
        path: the file.
        source_field: name of the column with the source sentence.
        target_field: name of the column with its translation.
        document_field: name of the column with the document of a pair, as text or number, if there is one.

    Raises:
        MissingExtraError: pyarrow is not installed.
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
        import_pyarrow()
        self._fields = (source_field, target_field)
        self._document = document_field

    def __iter__(self) -> Iterator[SentencePair]:
        (path,) = self.paths
        with open_parquet(path) as file:
            self._require_text_columns(file.schema_arrow)
            document_columns = [] if self._document is None else [self._document]
            names, row_number = list(dict.fromkeys([*self._fields, *document_columns])), 0
            for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                values = [batch.column(name).to_pylist() for name in (*self._fields, *document_columns)]
                for source, target, *document in zip(*values, strict=True):
                    row_number += 1
                    name = "" if not document or document[0] is None else str(document[0])
                    yield SentencePair(_clean_text(source), _clean_text(target), f"{path}:{row_number}", document=name)

    def _require_text_columns(self, schema: Any) -> None:
        """Raise `DataError` if, by the Arrow schema of the file, a column is missing, occurs twice, or does not hold
        text.
        """
        if self._document is not None and self._document not in schema.names:
            raise DataError(
                f"{self.paths[0]}: has no column {self._document!r}; choose one of {', '.join(schema.names)}"
            )
        for name in self._fields:
            types = [str(field.type) for field in schema if field.name == name]
            if not types:
                raise DataError(f"{self.paths[0]}: has no column {name!r}; choose one of {', '.join(schema.names)}")
            if len(types) > 1:
                raise DataError(f"{self.paths[0]}: has {len(types)} columns {name!r}; give each its own name")
            if not _is_text_type(types[0]):
                raise DataError(
                    f"{self.paths[0]}: column {name!r} holds {types[0]}, but text is needed; choose another column"
                )


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file with pyarrow; raise `DataError` if it is damaged."""
    arrow = import_pyarrow()
    try:
        with arrow.parquet.ParquetFile(path) as file:
            yield file
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: is not a Parquet file, or is damaged ({error}); fetch or write it again") from None


def read_first_texts(path: Path, *, max_rows: int) -> dict[str, list[str]]:
    """Read the first `max_rows` values of each text column, by name; NULL becomes an empty text."""
    with open_parquet(path) as file:
        names = [field.name for field in file.schema_arrow if _is_text_type(str(field.type))]
        batch = next(file.iter_batches(max_rows, columns=names), None) if names else None
        return {name: [] if batch is None else list(map(_clean_text, batch.column(name).to_pylist())) for name in names}


def _is_text_type(type_name: str) -> bool:
    """Return whether a pyarrow type is text, or dictionary-encoded text."""
    return type_name in _TEXT_TYPES or any(f"values={text}," in type_name for text in _TEXT_TYPES)


def _clean_text(text: str | None) -> str:
    """Return the text; empty for None and for white space alone."""
    return text if text is not None and text.strip() else ""


def import_pyarrow() -> ModuleType:
    """Import pyarrow; raise `MissingExtraError` if it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet  # a submodule that must be imported by itself
    except ImportError as error:
        raise MissingExtraError('Parquet is read by pyarrow: pip install "heedful[parquet]"') from error
    module: ModuleType = pyarrow
    return module


@dataclass(frozen=True)
class ParquetShape(FileShape):
    """A Parquet table; `texts` holds the first values of each text column, by name."""

    texts: Mapping[str, Sequence[str]]

    @property
    def description(self) -> str:
        """Description of the shape in words."""
        return f"a Parquet table with texts in {', '.join(self.texts) or 'no column'}"

    def has_columns(self, names: Sequence[str]) -> bool:
        """Return whether there are text columns of all these names."""
        return {*names} <= {*self.texts}


def sniff_parquet(path: Path) -> ParquetShape:
    """Read the beginning of a Parquet file."""
    return ParquetShape(read_first_texts(path, max_rows=_MAX_SNIFFED_ROWS))


@final
@dataclass(frozen=True, kw_only=True)
class DetectedParquet(DetectedColumns):
    """Parallel text in one Parquet file for each part; parts that are split off become JSON lines."""

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
        return f"column {self.columns[0]} becomes {self.columns[1]}{self.direction_note}"

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read one example for each row in the file of a part."""
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
        """Return the recipe table of one part: its path in `files`, and the names of the columns, which written parts
        keep.
        """
        document_entry = {} if self.document_column is None else {"document_field": self.document_column}
        return {"path": files[0], "source_field": self.columns[0], "target_field": self.columns[1], **document_entry}

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
        """Yield a dataset with the two text columns that `columns` names, or else the only two of the files; nothing if
        there are not two. Raise `RecipeError` if a named column is missing.
        """
        parts = find_single_files(files)
        shapes = [file.shape for file in files if isinstance(file.shape, ParquetShape)]
        if parts is None or len(shapes) < len(files) or len(columns) not in (0, 2):
            return
        for shape, file in zip(shapes, files, strict=True):
            for name in columns:
                if name not in shape.texts:
                    present_names = ", ".join(shape.texts) or "none"
                    raise RecipeError(
                        f"--columns: {file.path} has no column of text {name!r}; choose one of {present_names}"
                    )
        names = tuple(columns or shapes[0].texts)
        if len(names) != 2 or any(not {*names} <= {*shape.texts} for shape in shapes):
            return
        first, second = (_detect_language(name, shapes[0].texts[name]) for name in names)
        yield DetectedParquet(
            files={part: [file.path] for part, file in parts.items()},
            confidence=self.confidence if columns or (first and second and first != second) else self.low_confidence,
            languages=[first, second],
            columns=(names[0], names[1]),
        )

    def get_hint(self, files: Sequence[FileSniff]) -> str:
        """Return how to select two text columns if a Parquet file does not have exactly two; empty if all have."""
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
