"""Parallel text as data: sentences and what they become or belong to, in files of several forms."""

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
    """Both languages do not stand in one place."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if value is not None and value == info.data.get(key):
            raise ValueError(f"must be another {what} than {key}")
        return value

    return AfterValidator(check)


class LinesConfig(Config):
    """Two files whose lines translate each other, plain or gzipped; names with stars stand for several."""

    kind: Literal["lines"] = "lines"
    source: InputPath
    """the file of source sentences, one a line"""
    target: Annotated[InputPath, require_different_from("source", "file")]
    """the file of their translations, one a line"""

    def reader(self) -> ExampleReader[SentencePair]:
        """Line by line."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.readers import LineAlignedReader

        return open_matching_files(LineAlignedReader, self.source, self.target)


class TsvConfig(Config):
    """One file of tab-separated columns, plain or gzipped; a name with stars stands for several."""

    kind: Literal["tsv"] = "tsv"
    path: InputPath
    """the file"""
    source_column: ColumnIndex = 0
    """column of the source sentences, counted from 0"""
    target_column: Annotated[ColumnIndex, require_different_from("source_column", "column")] = 1
    """column of their translations, counted from 0"""

    def reader(self, **documents: Any) -> ExampleReader[SentencePair]:
        """A pair for each line; `document_column` may say of which document it is."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.readers import TsvPairReader

        open_file = partial(
            TsvPairReader, source_column=self.source_column, target_column=self.target_column, **documents
        )
        return open_matching_files(open_file, self.path)


class JsonlConfig(Config):
    """One file with a JSON object on each line, plain or gzipped; a name with stars stands for several."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    source_field: NonEmptyName
    """name of the field that holds the source sentence"""
    target_field: Annotated[NonEmptyName, require_different_from("source_field", "field")]
    """name of the field that holds its translation"""

    def reader(self, **documents: Any) -> ExampleReader[SentencePair]:
        """A pair for each line; `document_field` may say of which document it is."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.readers import JsonlPairReader

        open_file = partial(
            JsonlPairReader, source_field=self.source_field, target_field=self.target_field, **documents
        )
        return open_matching_files(open_file, self.path)


class ParquetConfig(Config):
    """Two columns of a Parquet file, read by pyarrow (`pip install "heedful[parquet]"`); stars stand for several."""

    kind: Literal["parquet"] = "parquet"
    path: InputPath
    """the file"""
    source_field: NonEmptyName
    """name of the column that holds the source sentence"""
    target_field: Annotated[NonEmptyName, require_different_from("source_field", "column")]
    """name of the column that holds its translation"""

    def reader(self, **documents: Any) -> ExampleReader[SentencePair]:
        """A pair for each row; `document_field` may say of which document it is."""
        from heedful.data.parquet import ParquetPairReader
        from heedful.data.reader_transforms import open_matching_files

        open_file = partial(
            ParquetPairReader, source_field=self.source_field, target_field=self.target_field, **documents
        )
        return open_matching_files(open_file, self.path)


class TmxConfig(Config):
    """A translation memory in TMX, plain or gzipped; a name with stars stands for several."""

    kind: Literal["tmx"] = "tmx"
    path: InputPath
    """the file"""
    source_language: NonEmptyName
    """the language that is read, as the file calls it; `en` also finds `en-GB`"""
    target_language: Annotated[NonEmptyName, require_different_from("source_language", "language")]
    """the language that is written, likewise"""

    def reader(self) -> ExampleReader[SentencePair]:
        """Units that both languages have."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.translation_files import ConfirmedTranslations

        open_file = partial(
            ConfirmedTranslations, source_language=self.source_language, target_language=self.target_language
        )
        return open_matching_files(open_file, self.path)


class PoConfig(Config):
    """Messages with translations in a PO file of gettext, plain or gzipped; a name with stars stands for several."""

    kind: Literal["po"] = "po"
    path: InputPath
    """the file; what is fuzzy, obsolete or not translated is left out"""

    def reader(self) -> ExampleReader[SentencePair]:
        """A pair for each message and plural form."""
        from heedful.data.reader_transforms import open_matching_files
        from heedful.data.translation_files import ConfirmedTranslations

        return open_matching_files(ConfirmedTranslations, self.path)


class XliffConfig(Config):
    """Segments with translations in an XLIFF, 1.2 or 2.0, plain or gzipped; a name with stars stands for several."""

    kind: Literal["xliff"] = "xliff"
    path: InputPath
    """the file; what has no target, or one that needs review, is left out"""

    def reader(self) -> ExampleReader[SentencePair]:
        """A pair for each segment."""
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
    """The kind that the keys belong to; a file's name tells it where only `path` is given, TSV if nothing else."""
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
