"""Parallel text in columns of Parquet files, row group by row group: https://parquet.apache.org/docs/file-format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, final

from heedful.data.readers import Pair, Reader
from heedful.errors import DataError, MissingExtraError

_ROWS: Final = 4096
"""Rows that are held at a time, at most."""
_TEXTS: Final = frozenset(("string", "large_string", "string_view"))


@final
class ParquetColumns(Reader[Pair]):
    """One Parquet file, of which two columns of text are the pair; NULL is an empty side.

    Args:
        path: the file.
        source_field: name of the column that holds the source sentence.
        target_field: name of the column that holds its translation.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """

    def __init__(self, path: Path, *, source_field: str = "source", target_field: str = "target") -> None:
        super().__init__(path)
        require_pyarrow()
        self._fields = (source_field, target_field)

    def __iter__(self) -> Iterator[Pair]:
        arrow, (path,) = require_pyarrow(), self.paths
        try:
            with arrow.parquet.ParquetFile(path) as file:
                self._require_texts(file.schema_arrow)
                number = 0
                for batch in file.iter_batches(_ROWS, columns=list(self._fields)):
                    for source, target in zip(*(batch.column(name).to_pylist() for name in self._fields), strict=True):
                        number += 1
                        yield Pair(_side(source), _side(target), f"{path}:{number}")
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: no Parquet file, or a damaged one ({error}); fetch or write it again") from None

    def _require_texts(self, schema: Any) -> None:
        for name in self._fields:
            kinds = [str(field.type) for field in schema if field.name == name]
            if not kinds:
                raise DataError(f"{self.paths[0]}: has no column {name!r}; there: {', '.join(schema.names)}")
            if len(kinds) > 1:
                raise DataError(f"{self.paths[0]}: has {len(kinds)} columns {name!r}; give each a name of its own")
            if kinds[0] not in _TEXTS and not any(f"values={text}," in kinds[0] for text in _TEXTS):
                raise DataError(f"{self.paths[0]}: column {name!r} holds {kinds[0]}, and text is needed")


def _side(text: str | None) -> str:
    return text if text is not None and text.strip() else ""


def require_pyarrow() -> ModuleType:
    """What reads Parquet; `MissingExtraError` where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet  # a part that is not there before it is asked for
    except ImportError as error:
        raise MissingExtraError('Parquet is read by pyarrow: pip install "heedful[parquet]"') from error
    found: ModuleType = pyarrow
    return found
