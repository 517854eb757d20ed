"""Parallel text as data: sentences and what they become or belong to, in files of several forms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from heedful.recipes.section import InputPath, Section, kind_from
from heedful.recipes.text import Column, Name

if TYPE_CHECKING:
    from heedful.data.readers import Pair, Reader


def other_than(key: str, what: str) -> AfterValidator:
    """Both languages do not stand in one place."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if value is not None and value == info.data.get(key):
            raise ValueError(f"must be another {what} than {key}")
        return value

    return AfterValidator(check)


class LinesConfig(Section):
    """Two files whose lines translate each other, plain or gzipped; names with stars stand for several."""

    kind: Literal["lines"] = "lines"
    source: InputPath
    """the file of source sentences, one a line"""
    target: Annotated[InputPath, other_than("source", "file")]
    """the file of their translations, one a line"""

    def reader(self) -> Reader[Pair]:
        """Line by line."""
        from heedful.data.composed import matching
        from heedful.data.readers import LineAligned

        return matching(LineAligned, self.source, self.target)


class TsvConfig(Section):
    """One file of tab-separated columns, plain or gzipped; a name with stars stands for several."""

    kind: Literal["tsv"] = "tsv"
    path: InputPath
    """the file"""
    source_column: Column = 0
    """column of the source sentences, counted from 0"""
    target_column: Annotated[Column, other_than("source_column", "column")] = 1
    """column of their translations, counted from 0"""

    def reader(self, **documents: Any) -> Reader[Pair]:
        """A pair for each line; `document_column` may say of which document it is."""
        from heedful.data.composed import matching
        from heedful.data.readers import TabSeparated

        read = partial(TabSeparated, source_column=self.source_column, target_column=self.target_column, **documents)
        return matching(read, self.path)


class JsonlConfig(Section):
    """One file with a JSON object on each line, plain or gzipped; a name with stars stands for several."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    source_field: Name
    """name of the field that holds the source sentence"""
    target_field: Annotated[Name, other_than("source_field", "field")]
    """name of the field that holds its translation"""

    def reader(self, **documents: Any) -> Reader[Pair]:
        """A pair for each line; `document_field` may say of which document it is."""
        from heedful.data.composed import matching
        from heedful.data.readers import JsonLines

        read = partial(JsonLines, source_field=self.source_field, target_field=self.target_field, **documents)
        return matching(read, self.path)


class ParquetConfig(Section):
    """Two columns of a Parquet file, read by pyarrow (`pip install "heedful[parquet]"`); stars stand for several."""

    kind: Literal["parquet"] = "parquet"
    path: InputPath
    """the file"""
    source_field: Name
    """name of the column that holds the source sentence"""
    target_field: Annotated[Name, other_than("source_field", "column")]
    """name of the column that holds its translation"""

    def reader(self, **documents: Any) -> Reader[Pair]:
        """A pair for each row; `document_field` may say of which document it is."""
        from heedful.data.composed import matching
        from heedful.data.parquet import ParquetColumns

        read = partial(ParquetColumns, source_field=self.source_field, target_field=self.target_field, **documents)
        return matching(read, self.path)


class TmxConfig(Section):
    """A translation memory in TMX, plain or gzipped; a name with stars stands for several."""

    kind: Literal["tmx"] = "tmx"
    path: InputPath
    """the file"""
    source_language: Name
    """the language that is read, as the file calls it; `en` also finds `en-GB`"""
    target_language: Annotated[Name, other_than("source_language", "language")]
    """the language that is written, likewise"""

    def reader(self) -> Reader[Pair]:
        """Units that both languages have."""
        from heedful.data.composed import matching
        from heedful.data.translated import Confirmed

        read = partial(Confirmed, source_language=self.source_language, target_language=self.target_language)
        return matching(read, self.path)


class PoConfig(Section):
    """Messages with translations in a PO file of gettext, plain or gzipped; a name with stars stands for several."""

    kind: Literal["po"] = "po"
    path: InputPath
    """the file; what is fuzzy, obsolete or not translated is left out"""

    def reader(self) -> Reader[Pair]:
        """A pair for each message and plural form."""
        from heedful.data.composed import matching
        from heedful.data.translated import Confirmed

        return matching(Confirmed, self.path)


class XliffConfig(Section):
    """Segments with translations in an XLIFF, 1.2 or 2.0, plain or gzipped; a name with stars stands for several."""

    kind: Literal["xliff"] = "xliff"
    path: InputPath
    """the file; what has no target, or one that needs review, is left out"""

    def reader(self) -> Reader[Pair]:
        """A pair for each segment."""
        from heedful.data.composed import matching
        from heedful.data.translated import Confirmed

        return matching(Confirmed, self.path)


_BY_ENDING = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".tmx": "tmx",
    ".xml": "tmx",
    ".po": "po",
    ".xlf": "xliff",
    ".xliff": "xliff",
}


def kind_of_text(table: Mapping[str, Any]) -> str | None:
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
    return _BY_ENDING.get(Path(str(table["path"]).lower().removesuffix(".gz")).suffix, "tsv")


ParallelTextConfig = Annotated[
    LinesConfig | TsvConfig | JsonlConfig | ParquetConfig | TmxConfig | PoConfig | XliffConfig,
    Field(discriminator="kind"),
    kind_from(kind_of_text),
]
