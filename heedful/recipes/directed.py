"""Parallel text to translate: from which language into which, with tags, and several texts as one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from heedful.recipes.parallel import (
    JsonlConfig,
    LinesConfig,
    ParquetConfig,
    PoConfig,
    TmxConfig,
    TsvConfig,
    XliffConfig,
    kind_of_text,
    other_than,
)
from heedful.recipes.recipe import Mixed
from heedful.recipes.section import InputPath, Section, kind_from
from heedful.recipes.text import Column, Name

if TYPE_CHECKING:
    from heedful.data.readers import Pair, Reader

_TAG: Final = re.compile(r"<[^\s<>]+>")
_DOCUMENTS: Final = ("document_column", "document_field")
_RESERVED: Final = frozenset({"<pad>", "<s>", "</s>", "<unk>", "<mask>"})


def language_tag(language: str) -> str:
    """What stands before a source to ask for a language, where a model writes several (Johnson et al. 2017)."""
    return f"<2{language}>"


def _tag(text: str) -> str:
    if not _TAG.fullmatch(text) or text in _RESERVED:
        raise ValueError(f"{text!r} must be one word in angle brackets, as in <captions>, and none of a model's own")
    return text


def _language(text: str) -> str:
    if not _TAG.fullmatch(f"<{text}>"):
        raise ValueError("must be one word without angle brackets, as in de or pt-BR")
    return text


def _one_way(path: Path | None, info: ValidationInfo) -> Path | None:
    if path is not None and info.data.get("both_ways"):
        raise ValueError("knows the words of one language; leave both_ways away")
    return path


Tag = Annotated[str, AfterValidator(_tag)]
Language = Annotated[str, AfterValidator(_language)]


class Direction(NamedTuple):
    """From which language into which; None where a recipe does not say."""

    source: str | None
    target: str | None


class Directed(Section):
    """What is said of a text that is translated.

    Abstract: a form of text says where it lies.
    """

    source_language: Language | None = None
    """the language of the source sentences, such as en"""
    target_language: Annotated[Language | None, other_than("source_language", "language")] = None
    """the language of their translations; where the texts of a run have several, a tag such as <2de> before each source
    asks for it"""
    both_ways: bool = False
    """whether translations are turned back into their sources too; needs both languages"""
    tags: Annotated[tuple[Tag, ...], Field(strict=False)] = ()
    """pieces that stand before each source, as in ["<captions>"]: what words do not say of a text, such as what it is
    about, or that a machine wrote its sources"""

    alignments: InputPath | None = None
    """file of links between its words, `0-0 1-2`, a line for each pair, plain or gzipped; see `training.guided`"""
    factors: Annotated[InputPath | None, AfterValidator(_one_way)] = None
    """file with a label for each word of a source, a line for each pair, plain or gzipped; see the table [factors]"""

    @classmethod
    def formerly(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Nothing was said of languages, directions and tags."""
        languages = dict.fromkeys(("source_language", "target_language"))
        return {**languages, "both_ways": False, "tags": (), "alignments": None, "factors": None}

    @field_validator("both_ways")
    @classmethod
    def _knows_both(cls, both_ways: bool, info: ValidationInfo) -> bool:
        if both_ways and not (info.data.get("source_language") and info.data.get("target_language")):
            raise ValueError("needs source_language and target_language, so that each of them can be asked for")
        return both_ways

    if TYPE_CHECKING:  # each form of text has its own

        def reader(self, **documents: Any) -> Reader[Pair]:
            """The pairs as they stand; `documents` are the keys of the table that say of which document each is."""

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The ways in which it is translated."""
        there = Direction(self.source_language, self.target_language)
        return (there, Direction(there.target, there.source)) if self.both_ways else (there,)

    def pairs(self, key: str, *, asked: bool, context: int = 0) -> Mapping[str, Reader[Pair]]:
        """The pairs of each direction, by the table's key and the direction where there are both.

        Args:
            key: of this table.
            asked: whether a tag asks for the language.
            context: sentences before a source that are read with it.
        """
        from heedful.data.composed import Tagged, Turned

        there = self._labelled()
        found: dict[str, Reader[Pair]] = {}
        for number, (source, target) in enumerate(self.directions):
            reader = Turned(there) if number else there
            reader = _in_context(reader, context) if context else reader
            tags = [*([language_tag(target)] if asked and target else []), *self.tags]
            name = f"{key} ({source} to {target})" if self.both_ways else key
            found[name] = Tagged(reader, tags) if tags else reader
        return found

    @property
    def documents(self) -> Mapping[str, int | str]:
        """What says in this form of which document a pair is, where it was given: its key, and the value of that."""
        found = {key: getattr(self, key, None) for key in _DOCUMENTS}
        return {key: value for key, value in found.items() if value is not None}

    def _labelled(self) -> Reader[Pair]:
        if self.factors is None:
            return self._linked()
        from heedful.data.factors import Beside

        return Beside(self._linked(), self.factors)

    def _linked(self) -> Reader[Pair]:
        reader = self.reader(**self.documents)
        if self.alignments is None:
            return reader
        from heedful.data.links import Linked

        return Linked(reader, self.alignments)


class DirectedLinesConfig(Directed, LinesConfig):
    """Two files whose lines translate each other, plain or gzipped; names with stars stand for several."""


class DirectedTsvConfig(Directed, TsvConfig):
    """One file of tab-separated columns, plain or gzipped; a name with stars stands for several."""

    document_column: Column | None = None
    """column that names the document of each pair, counted from 0; for `data.context`"""

    @classmethod
    def formerly(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Nothing was said of documents."""
        return {**super().formerly(table), "document_column": None}


class DirectedJsonlConfig(Directed, JsonlConfig):
    """One file with a JSON object on each line, plain or gzipped; a name with stars stands for several."""

    document_field: Name | None = None
    """name of the field that names the document of each pair; for `data.context`"""

    @classmethod
    def formerly(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Nothing was said of documents."""
        return {**super().formerly(table), "document_field": None}


class DirectedParquetConfig(Directed, ParquetConfig):
    """Two columns of a Parquet file, read by pyarrow (`pip install "heedful[parquet]"`); stars stand for several."""

    document_field: Name | None = None
    """name of the column that names the document of each pair; for `data.context`"""

    @classmethod
    def formerly(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Nothing was said of documents."""
        return {**super().formerly(table), "document_field": None}


class DirectedTmxConfig(Directed, TmxConfig):
    """A translation memory in TMX, plain or gzipped; a name with stars stands for several."""

    source_language: Language
    """the language that is read, as the file calls it; `en` also finds `en-GB`"""
    target_language: Annotated[Language, other_than("source_language", "language")]
    """the language that is written, likewise; where the texts of a run have several, a tag such as <2de> before each
    source asks for it"""


class DirectedPoConfig(Directed, PoConfig):
    """Messages with translations in a PO file of gettext, plain or gzipped; a name with stars stands for several."""


class DirectedXliffConfig(Directed, XliffConfig):
    """Segments with translations in an XLIFF, 1.2 or 2.0, plain or gzipped; a name with stars stands for several."""


_FORMS = (
    DirectedLinesConfig
    | DirectedTsvConfig
    | DirectedJsonlConfig
    | DirectedParquetConfig
    | DirectedTmxConfig
    | DirectedPoConfig
    | DirectedXliffConfig
)


def _kind_of_form(table: Mapping[str, Any]) -> str | None:
    """As of text that is not directed; languages tell nothing, since each form may have them."""
    return kind_of_text({key: value for key, value in table.items() if not key.endswith("_language")})


DirectedFormConfig = Annotated[_FORMS, Field(discriminator="kind"), kind_from(_kind_of_form)]


class SeveralConfig(Section):
    """Several texts, one after the other; in training they are mixed."""

    kind: Literal["several"] = "several"
    texts: Annotated[dict[str, DirectedFormConfig], Field(min_length=1)]
    """a table for each text, such as [data.train.texts.captions]; the names are free"""
    weights: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """how many times as often as others a text is read, by its name; 1 where none is given"""
    temperature: Annotated[float, Field(ge=1)] = 1.0
    """T: texts are read as often as their tokens to the power of 1 / T say, so that above 1 small ones come more often
    than there is of them; an epoch has as many tokens as all texts together"""

    @field_validator("weights")
    @classmethod
    def _of_texts(cls, weights: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        texts = info.data.get("texts", weights)
        if unknown := sorted(set(weights) - set(texts)):
            raise ValueError(f"names {', '.join(unknown)}, but the texts are {', '.join(texts)}")
        return weights


class MixedLinesConfig(Mixed, DirectedLinesConfig):
    """Two files whose lines translate each other, plain or gzipped; names with stars stand for several."""


class MixedTsvConfig(Mixed, DirectedTsvConfig):
    """One file of tab-separated columns, plain or gzipped; a name with stars stands for several."""


class MixedJsonlConfig(Mixed, DirectedJsonlConfig):
    """One file with a JSON object on each line, plain or gzipped; a name with stars stands for several."""


class MixedParquetConfig(Mixed, DirectedParquetConfig):
    """Two columns of a Parquet file, read by pyarrow (`pip install "heedful[parquet]"`); stars stand for several."""


class MixedTmxConfig(Mixed, DirectedTmxConfig):
    """A translation memory in TMX, plain or gzipped; a name with stars stands for several."""


class MixedPoConfig(Mixed, DirectedPoConfig):
    """Messages with translations in a PO file of gettext, plain or gzipped; a name with stars stands for several."""


class MixedXliffConfig(Mixed, DirectedXliffConfig):
    """Segments with translations in an XLIFF, 1.2 or 2.0, plain or gzipped; a name with stars stands for several."""


DirectedTextConfig = Annotated[
    _FORMS | SeveralConfig,
    Field(discriminator="kind"),
    kind_from(lambda table: "several" if "texts" in table else _kind_of_form(table)),
]
MixedTextConfig = Annotated[
    MixedLinesConfig
    | MixedTsvConfig
    | MixedJsonlConfig
    | MixedParquetConfig
    | MixedTmxConfig
    | MixedPoConfig
    | MixedXliffConfig,
    Field(discriminator="kind"),
    kind_from(_kind_of_form),
]


def named_texts(table: Directed | SeveralConfig | None, key: str) -> Mapping[str, Directed]:
    """The texts of a table, by their keys; none where there is no table."""
    if isinstance(table, SeveralConfig):
        return {f"{key}.texts.{name}": text for name, text in table.texts.items()}
    return {} if table is None else {key: table}


def mixed(table: Directed | SeveralConfig, tokens: Sequence[int]) -> Sequence[float]:
    """Tokens of each direction of each text in an epoch, given how many there are; by w n^(1/T), all together the same.

    Temperature as in Arivazhagan et al. 2019, section 4.2.
    """
    if not isinstance(table, SeveralConfig):
        return tokens
    weights = [table.weights.get(name, 1.0) for name, text in table.texts.items() for _ in text.directions]
    found = [weight * count ** (1 / table.temperature) for weight, count in zip(weights, tokens, strict=True)]
    return [sum(tokens) * each / math.fsum(found) for each in found]


def _in_context(reader: Reader[Pair], sentences: int) -> Reader[Pair]:
    from heedful.data.context import InContext  # it waits for torch, which recipes without documents need not

    return InContext(reader, sentences=sentences)
