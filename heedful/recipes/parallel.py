"""Parallel text as data: sentences and what they become or belong to, in files of several kinds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from heedful.recipes.recipe import Mixed
from heedful.recipes.section import InputPath, Section, kind_from
from heedful.recipes.text import Column, Name

if TYPE_CHECKING:
    from heedful.data.readers import Pair, Reader


def _other_than(key: str, what: str) -> AfterValidator:
    """Both languages do not stand in one place."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if value == info.data.get(key):
            raise ValueError(f"must be another {what} than {key}")
        return value

    return AfterValidator(check)


class LinesConfig(Section):
    """Two files whose lines translate each other, plain or gzipped."""

    kind: Literal["lines"] = "lines"
    source: InputPath
    """the file of source sentences, one a line"""
    target: Annotated[InputPath, _other_than("source", "file")]
    """the file of their translations, one a line"""

    def reader(self) -> Reader[Pair]:
        """Line by line."""
        from heedful.data.readers import LineAligned

        return LineAligned(self.source, self.target)


class TsvConfig(Section):
    """One file of tab-separated columns, plain or gzipped."""

    kind: Literal["tsv"] = "tsv"
    path: InputPath
    """the file"""
    source_column: Column = 0
    """column of the source sentences, counted from 0"""
    target_column: Annotated[Column, _other_than("source_column", "column")] = 1
    """column of their translations, counted from 0"""

    def reader(self) -> Reader[Pair]:
        """A pair for each line."""
        from heedful.data.readers import TabSeparated

        return TabSeparated(self.path, source_column=self.source_column, target_column=self.target_column)


class JsonlConfig(Section):
    """One file with a JSON object on each line, plain or gzipped."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    source_field: Name
    """name of the field that holds the source sentence"""
    target_field: Annotated[Name, _other_than("source_field", "field")]
    """name of the field that holds its translation"""

    def reader(self) -> Reader[Pair]:
        """A pair for each line."""
        from heedful.data.readers import JsonLines

        return JsonLines(self.path, source_field=self.source_field, target_field=self.target_field)


class TmxConfig(Section):
    """A translation memory in TMX, plain or gzipped."""

    kind: Literal["tmx"] = "tmx"
    path: InputPath
    """the file"""
    source_language: Name
    """the language that is read, as the file calls it; `en` also finds `en-GB`"""
    target_language: Annotated[Name, _other_than("source_language", "language")]
    """the language that is written, likewise"""

    def reader(self) -> Reader[Pair]:
        """Units that both languages have."""
        from heedful.data.translated import Confirmed

        return Confirmed(self.path, source_language=self.source_language, target_language=self.target_language)


class PoConfig(Section):
    """Messages with their translations in a PO file of gettext, plain or gzipped."""

    kind: Literal["po"] = "po"
    path: InputPath
    """the file; what is fuzzy, obsolete or not translated is left out"""

    def reader(self) -> Reader[Pair]:
        """A pair for each message and plural form."""
        from heedful.data.translated import Confirmed

        return Confirmed(self.path)


class XliffConfig(Section):
    """Segments with their translations in an XLIFF, 1.2 or 2.0, plain or gzipped."""

    kind: Literal["xliff"] = "xliff"
    path: InputPath
    """the file; what has no target, or one that needs review, is left out"""

    def reader(self) -> Reader[Pair]:
        """A pair for each segment."""
        from heedful.data.translated import Confirmed

        return Confirmed(self.path)


_BY_ENDING = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tmx": "tmx",
    ".po": "po",
    ".xlf": "xliff",
    ".xliff": "xliff",
}


def _kind_of_text(table: Mapping[str, Any]) -> str | None:
    """The kind that the keys belong to; a file's name tells it where only `path` is given, TSV if nothing else."""
    if "source" in table or "target" in table:
        return "lines"
    if "source_field" in table or "target_field" in table:
        return "jsonl"
    if "source_language" in table or "target_language" in table:
        return "tmx"
    if "path" not in table:
        return None
    if "source_column" in table:
        return "tsv"
    return _BY_ENDING.get(Path(str(table["path"]).lower().removesuffix(".gz")).suffix, "tsv")


class Aligned(Section):
    """Abstract: parallel text of which somebody may know which words belong together."""

    alignments: InputPath | None = None
    """file of links between its words, `0-0 1-2`, a line for each pair, plain or gzipped; see `training.guided`"""

    def reader(self) -> Reader[Pair]:
        """Pairs, with their links where there are some."""
        pairs: Reader[Pair] = super().reader()  # type: ignore[misc]  # each kind of text has one
        if self.alignments is None:
            return pairs
        from heedful.data.links import Linked

        return Linked(pairs, self.alignments)


class AlignedLinesConfig(Aligned, LinesConfig):
    """Two files whose lines translate each other, plain or gzipped."""


class AlignedTsvConfig(Aligned, TsvConfig):
    """One file of tab-separated columns, plain or gzipped."""


class AlignedJsonlConfig(Aligned, JsonlConfig):
    """One file with a JSON object on each line, plain or gzipped."""


class AlignedTmxConfig(Aligned, TmxConfig):
    """A translation memory in TMX, plain or gzipped."""


class AlignedPoConfig(Aligned, PoConfig):
    """Messages with their translations in a PO file of gettext, plain or gzipped."""


class AlignedXliffConfig(Aligned, XliffConfig):
    """Segments with their translations in an XLIFF, 1.2 or 2.0, plain or gzipped."""


class MixedLinesConfig(Mixed, AlignedLinesConfig):
    """Two files whose lines translate each other, plain or gzipped."""


class MixedTsvConfig(Mixed, AlignedTsvConfig):
    """One file of tab-separated columns, plain or gzipped."""


class MixedJsonlConfig(Mixed, AlignedJsonlConfig):
    """One file with a JSON object on each line, plain or gzipped."""


class MixedTmxConfig(Mixed, AlignedTmxConfig):
    """A translation memory in TMX, plain or gzipped."""


class MixedPoConfig(Mixed, AlignedPoConfig):
    """Messages with their translations in a PO file of gettext, plain or gzipped."""


class MixedXliffConfig(Mixed, AlignedXliffConfig):
    """Segments with their translations in an XLIFF, 1.2 or 2.0, plain or gzipped."""


ParallelTextConfig = Annotated[
    LinesConfig | TsvConfig | JsonlConfig | TmxConfig | PoConfig | XliffConfig,
    Field(discriminator="kind"),
    kind_from(_kind_of_text),
]
AlignedTextConfig = Annotated[
    AlignedLinesConfig
    | AlignedTsvConfig
    | AlignedJsonlConfig
    | AlignedTmxConfig
    | AlignedPoConfig
    | AlignedXliffConfig,
    Field(discriminator="kind"),
    kind_from(_kind_of_text),
]
MixedTextConfig = Annotated[
    MixedLinesConfig | MixedTsvConfig | MixedJsonlConfig | MixedTmxConfig | MixedPoConfig | MixedXliffConfig,
    Field(discriminator="kind"),
    kind_from(_kind_of_text),
]
