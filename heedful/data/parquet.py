"""Read parallel text from columns of Parquet files, row group by row group:
https://parquet.apache.org/docs/file-format.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final, final

from heedful.data.readers import ExampleReader, SentencePair
from heedful.errors import DataError, MissingExtraError

_BATCH_ROWS: Final = 4096
"""Largest number of rows held in memory at a time."""
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
        """Raise `DataError` if a column is missing, occurs twice, or does not hold text."""
        if self._document is not None and self._document not in schema.names:
            raise DataError(f"{self.paths[0]}: has no column {self._document!r}; there: {', '.join(schema.names)}")
        for name in self._fields:
            types = [str(field.type) for field in schema if field.name == name]
            if not types:
                raise DataError(f"{self.paths[0]}: has no column {name!r}; there: {', '.join(schema.names)}")
            if len(types) > 1:
                raise DataError(f"{self.paths[0]}: has {len(types)} columns {name!r}; give each its own name")
            if not _is_text_type(types[0]):
                raise DataError(f"{self.paths[0]}: column {name!r} holds {types[0]}, but text is needed")


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
