"""Configs of parallel text in several file formats."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from heedful.recipes.config import Config, InputPath, add_inferred_kind
from heedful.recipes.text import ColumnIndex, NonEmptyName

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader, SentencePair


def require_different_from(key: str, what: str) -> AfterValidator:
    """Build a validator that rejects a value equal to that of another key; `what` names the value in the message."""

    def check(value: Any, info: ValidationInfo) -> Any:
        """Raise `ValueError` if both values are equal."""
        if value is not None and value == info.data.get(key):
            raise ValueError(f"must be another {what} than {key}")
        return value

    return AfterValidator(check)


class LinesConfig(Config):
    """Two files whose lines are translations of each other, plain or gzipped; names with * match several files."""

    kind: Literal["lines"] = "lines"
    source: InputPath
    """the file of source sentences, one a line"""
    target: Annotated[InputPath, require_different_from("source", "file")]
    """the file of their translations, one a line"""

    def reader(self) -> ExampleReader[SentencePair]:
        """Return the reader of the pairs, line by line."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.readers import LineAlignedReader

        return open_matching_files(LineAlignedReader, self.source, self.target)


class TsvConfig(Config):
    """One file of tab-separated columns, plain or gzipped; a name with * matches several files."""

    kind: Literal["tsv"] = "tsv"
    path: InputPath
    """the file"""
    source_column: ColumnIndex = 0
    """column of the source sentences, counted from 0"""
    target_column: Annotated[ColumnIndex, require_different_from("source_column", "column")] = 1
    """column of their translations, counted from 0"""

    def reader(self, **documents: Any) -> ExampleReader[SentencePair]:
        """Return the reader of a pair for each line; `document_column` may name its document."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.readers import TsvPairReader

        open_file = partial(
            TsvPairReader, source_column=self.source_column, target_column=self.target_column, **documents
        )
        return open_matching_files(open_file, self.path)


class JsonlConfig(Config):
    """One file with a JSON object on each line, plain or gzipped; a name with * matches several files."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    source_field: NonEmptyName
    """name of the field that holds the source sentence"""
    target_field: Annotated[NonEmptyName, require_different_from("source_field", "field")]
    """name of the field that holds its translation"""

    def reader(self, **documents: Any) -> ExampleReader[SentencePair]:
        """Return the reader of a pair for each line; `document_field` may name its document."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.readers import JsonlPairReader

        open_file = partial(
            JsonlPairReader, source_field=self.source_field, target_field=self.target_field, **documents
        )
        return open_matching_files(open_file, self.path)


class ParquetConfig(Config):
    """Two columns of a Parquet file, read by pyarrow (`pip install "heedful[parquet]"`); a name with * matches
    several files.
    """

    kind: Literal["parquet"] = "parquet"
    path: InputPath
    """the file"""
    source_field: NonEmptyName
    """name of the column that holds the source sentence"""
    target_field: Annotated[NonEmptyName, require_different_from("source_field", "column")]
    """name of the column that holds its translation"""

    def reader(self, **documents: Any) -> ExampleReader[SentencePair]:
        """Return the reader of a pair for each row; `document_field` may name its document."""
        from heedful.data.parquet import ParquetPairReader
        from heedful.data.reader_transforms import open_matching_files

        open_file = partial(
            ParquetPairReader, source_field=self.source_field, target_field=self.target_field, **documents
        )
        return open_matching_files(open_file, self.path)


class TmxConfig(Config):
    """A translation memory in TMX, plain or gzipped; a name with * matches several files."""

    kind: Literal["tmx"] = "tmx"
    path: InputPath
    """the file"""
    source_language: NonEmptyName
    """the source language, as the file names it; `en` also matches `en-GB`"""
    target_language: Annotated[NonEmptyName, require_different_from("source_language", "language")]
    """the target language, likewise"""

    def reader(self) -> ExampleReader[SentencePair]:
        """Return the reader of the units that have both languages."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.translation_files import ConfirmedTranslations

        open_file = partial(
            ConfirmedTranslations, source_language=self.source_language, target_language=self.target_language
        )
        return open_matching_files(open_file, self.path)


class PoConfig(Config):
    """Messages with translations in a gettext PO file, plain or gzipped; a name with * matches several files."""

    kind: Literal["po"] = "po"
    path: InputPath
    """the file; fuzzy, obsolete and untranslated messages are left out"""

    def reader(self) -> ExampleReader[SentencePair]:
        """Return the reader of a pair for each message and plural form."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.translation_files import ConfirmedTranslations

        return open_matching_files(ConfirmedTranslations, self.path)


class XliffConfig(Config):
    """Segments with translations in an XLIFF file, 1.2 or 2.0, plain or gzipped; a name with * matches several
    files.
    """

    kind: Literal["xliff"] = "xliff"
    path: InputPath
    """the file; segments without a target, or with one that needs review, are left out"""

    def reader(self) -> ExampleReader[SentencePair]:
        """Return the reader of a pair for each segment."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.translation_files import ConfirmedTranslations

        return open_matching_files(ConfirmedTranslations, self.path)


_KIND_BY_SUFFIX = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".tmx": "tmx",
    ".xml": "tmx",
    ".po": "po",
    ".xlf": "xliff",
    ".xliff": "xliff",
}


def infer_text_kind(table: Mapping[str, Any]) -> str | None:
    """Infer the kind of parallel text from the keys of its table; if only `path` is given, from the file name, TSV
    by default.
    """
    if "source" in table or "target" in table:
        return "lines"
    if "source_field" in table or "target_field" in table:
        return "parquet" if str(table.get("path")).lower().endswith(".parquet") else "jsonl"
    if "source_language" in table or "target_language" in table:
        return "tmx"
    if "path" not in table:
        return None
    if "source_column" in table:
        return "tsv"
    return _KIND_BY_SUFFIX.get(Path(str(table["path"]).lower().removesuffix(".gz")).suffix, "tsv")


ParallelTextConfig = Annotated[
    LinesConfig | TsvConfig | JsonlConfig | ParquetConfig | TmxConfig | PoConfig | XliffConfig,
    Field(discriminator="kind"),
    add_inferred_kind(infer_text_kind),
]
