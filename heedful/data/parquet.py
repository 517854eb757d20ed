"""Parallel text in columns of Parquet files, row group by row group: https://parquet.apache.org/docs/file-format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
        document_field: name of the column that says of which document a pair is, by texts or numbers, if one does.

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
        require_pyarrow()
        self._fields = (source_field, target_field)
        self._document = document_field

    def __iter__(self) -> Iterator[Pair]:
        (path,) = self.paths
        with opened(path) as file:
            self._require_texts(file.schema_arrow)
            further = [] if self._document is None else [self._document]
            names, number = list(dict.fromkeys([*self._fields, *further])), 0
            for batch in file.iter_batches(_ROWS, columns=names):
                values = [batch.column(name).to_pylist() for name in (*self._fields, *further)]
                for source, target, *document in zip(*values, strict=True):
                    number += 1
                    name = "" if not document or document[0] is None else str(document[0])
                    yield Pair(_side(source), _side(target), f"{path}:{number}", document=name)

    def _require_texts(self, schema: Any) -> None:
        if self._document is not None and self._document not in schema.names:
            raise DataError(f"{self.paths[0]}: has no column {self._document!r}; there: {', '.join(schema.names)}")
        for name in self._fields:
            kinds = [str(field.type) for field in schema if field.name == name]
            if not kinds:
                raise DataError(f"{self.paths[0]}: has no column {name!r}; there: {', '.join(schema.names)}")
            if len(kinds) > 1:
                raise DataError(f"{self.paths[0]}: has {len(kinds)} columns {name!r}; give each a name of its own")
            if not _is_text(kinds[0]):
                raise DataError(f"{self.paths[0]}: column {name!r} holds {kinds[0]}, and text is needed")


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A file of pyarrow's; what it finds damaged is a `DataError`."""
    arrow = require_pyarrow()
    try:
        with arrow.parquet.ParquetFile(path) as file:
            yield file
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: no Parquet file, or a damaged one ({error}); fetch or write it again") from None


def first_texts(path: Path, *, most: int) -> dict[str, list[str]]:
    """The first values of each column of text, by its name; NULL is an empty text."""
    with opened(path) as file:
        names = [field.name for field in file.schema_arrow if _is_text(str(field.type))]
        batch = next(file.iter_batches(most, columns=names), None) if names else None
        return {name: [] if batch is None else list(map(_side, batch.column(name).to_pylist())) for name in names}


def _is_text(kind: str) -> bool:
    """Whether a type of pyarrow's is text, or numbers that stand for texts."""
    return kind in _TEXTS or any(f"values={text}," in kind for text in _TEXTS)


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
