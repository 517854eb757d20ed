"""Parallel texts for translation: languages, directions, tags, and mixtures of several texts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from heedful.recipes.config import Config, InputPath, add_inferred_kind
from heedful.recipes.parallel import (
    JsonlConfig,
    LinesConfig,
    ParquetConfig,
    PoConfig,
    TmxConfig,
    TsvConfig,
    XliffConfig,
    infer_text_kind,
    require_different_from,
)
from heedful.recipes.recipe import MixInConfig
from heedful.recipes.text import ColumnIndex, NonEmptyName

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader, SentencePair

_TAG: Final = re.compile(r"<[^\s<>]+>")
_DOCUMENT_KEYS: Final = ("document_column", "document_field")
_RESERVED_PIECES: Final = frozenset({"<pad>", "<s>", "</s>", "<unk>", "<mask>"})


def format_language_tag(language: str) -> str:
    """Return the tag that stands before a source to select the target language of a multilingual model (Johnson et
    al. 2017).
    """
    return f"<2{language}>"


def _check_tag(text: str) -> str:
    """Return the tag if it is valid; raise `ValueError` otherwise."""
    if not _TAG.fullmatch(text) or text in _RESERVED_PIECES:
        raise ValueError(
            f"{text!r} must be one word in angle brackets, as in <captions>, and not one of the model's own tokens"
        )
    return text


def _check_language(text: str) -> str:
    """Return the language if it is valid; raise `ValueError` otherwise."""
    if not _TAG.fullmatch(f"<{text}>"):
        raise ValueError("must be one word without angle brackets, as in de or pt-BR")
    return text


def _reject_both_ways(path: Path | None, info: ValidationInfo) -> Path | None:
    """Raise `ValueError` if a file of factors is given for a text that is read in both directions."""
    if path is not None and info.data.get("both_ways"):
        raise ValueError("describes the words of one language; leave both_ways out")
    return path


SourceTag = Annotated[str, AfterValidator(_check_tag)]
LanguageCode = Annotated[str, AfterValidator(_check_language)]


class TranslationDirection(NamedTuple):
    """Source and target language of a translation; None for a language that the recipe does not name."""

    source: str | None
    target: str | None


class TranslationTextConfig(Config):
    """Keys of a text for translation that do not depend on its file format.

    Abstract: subclasses define the file format.
    """

    source_language: LanguageCode | None = None
    """language of the source sentences, such as en"""
    target_language: Annotated[LanguageCode | None, require_different_from("source_language", "language")] = None
    """language of the translations; if the texts of a run have several, a tag such as <2de> before each source selects
    it"""
    both_ways: bool = False
    """whether the text is also read in the opposite direction; needs both languages"""
    tags: Annotated[tuple[SourceTag, ...], Field(strict=False)] = ()
    """pieces before each source, as in ["<captions>"]: properties of the text that its words do not show, such as its
    domain, or that its sources were written by a machine"""

    alignments: InputPath | None = None
    """file of word alignments, `0-0 1-2`, one line for each pair, plain or gzipped; see `training.guided`"""
    factors: Annotated[InputPath | None, AfterValidator(_reject_both_ways)] = None
    """file with a label for each word of a source, one line for each pair, plain or gzipped; see the table [factors]"""

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return the values of older runs: no languages, directions and tags."""
        languages = dict.fromkeys(("source_language", "target_language"))
        return {**languages, "both_ways": False, "tags": (), "alignments": None, "factors": None}

    @field_validator("both_ways")
    @classmethod
    def _check_both_ways(cls, both_ways: bool, info: ValidationInfo) -> bool:
        """Raise `ValueError` if `both_ways` is set and a language is missing."""
        if both_ways and not (info.data.get("source_language") and info.data.get("target_language")):
            raise ValueError("needs source_language and target_language, so that each of them can be requested")
        return both_ways

    if TYPE_CHECKING:  # each form of text has its own

        def reader(self, **documents: Any) -> ExampleReader[SentencePair]:
            """Return the reader of the pairs; `documents` are the keys that name the document of each pair."""

    @property
    def directions(self) -> tuple[TranslationDirection, ...]:
        """The directions in which the text is translated."""
        forward = TranslationDirection(self.source_language, self.target_language)
        return (forward, TranslationDirection(forward.target, forward.source)) if self.both_ways else (forward,)

    def build_readers(
        self, key: str, *, add_language_tag: bool, context: int = 0
    ) -> Mapping[str, ExampleReader[SentencePair]]:
        """Build a reader for each direction, by the key of the table and, with two directions, their languages.

        Args:
            key: key of this table.
            add_language_tag: whether a tag before each source selects the target language.
            context: number of previous source sentences to read with each sentence.
        """
        from heedful.data.reader_transforms import ReversedPairs, TaggedPairs

        labelled = self._read_with_factors()
        readers: dict[str, ExampleReader[SentencePair]] = {}
        for number, (source, target) in enumerate(self.directions):
            reader = ReversedPairs(labelled) if number else labelled
            reader = _add_context(reader, context) if context else reader
            tags = [*([format_language_tag(target)] if add_language_tag and target else []), *self.tags]
            name = f"{key} ({source} to {target})" if self.both_ways else key
            readers[name] = TaggedPairs(reader, tags) if tags else reader
        return readers

    @property
    def document_keys(self) -> Mapping[str, int | str]:
        """The given key that names the document of each pair, with its value."""
        values = {key: getattr(self, key, None) for key in _DOCUMENT_KEYS}
        return {key: value for key, value in values.items() if value is not None}

    def _read_with_factors(self) -> ExampleReader[SentencePair]:
        """Build the reader of the pairs with factors, if a file of factors is given."""
        if self.factors is None:
            return self._read_with_alignments()
        from heedful.data.factors import FactoredPairs

        return FactoredPairs(self._read_with_alignments(), self.factors)

    def _read_with_alignments(self) -> ExampleReader[SentencePair]:
        """Build the reader of the pairs with word alignments, if a file of alignments is given."""
        reader = self.reader(**self.document_keys)
        if self.alignments is None:
            return reader
        from heedful.data.word_alignments import AlignedPairs

        return AlignedPairs(reader, self.alignments)


class DirectedLinesConfig(TranslationTextConfig, LinesConfig):
    """Two files whose lines are translations of each other, plain or gzipped; names with * match several files."""


class DirectedTsvConfig(TranslationTextConfig, TsvConfig):
    """One file of tab-separated columns, plain or gzipped; a name with * matches several files."""

    document_column: ColumnIndex | None = None
    """column that names the document of each pair, counted from 0; for `data.context`"""

    @classmethod
    def migrate(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return the values of older runs: no document names."""
        return {**super().migrate(table), "document_column": None}


class DirectedJsonlConfig(TranslationTextConfig, JsonlConfig):
    """One file with a JSON object on each line, plain or gzipped; a name with * matches several files."""

    document_field: NonEmptyName | None = None
    """name of the field that names the document of each pair; for `data.context`"""

    @classmethod
    def migrate(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return the values of older runs: no document names."""
        return {**super().migrate(table), "document_field": None}


class DirectedParquetConfig(TranslationTextConfig, ParquetConfig):
    """Two columns of a Parquet file, read by pyarrow (`pip install "heedful[parquet]"`); a name with * matches
    several files.
    """

    document_field: NonEmptyName | None = None
    """name of the column that names the document of each pair; for `data.context`"""

    @classmethod
    def migrate(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return the values of older runs: no document names."""
        return {**super().migrate(table), "document_field": None}


class DirectedTmxConfig(TranslationTextConfig, TmxConfig):
    """A translation memory in TMX, plain or gzipped; a name with * matches several files."""

    source_language: LanguageCode
    """the source language, as the file names it; `en` also matches `en-GB`"""
    target_language: Annotated[LanguageCode, require_different_from("source_language", "language")]
    """the target language, likewise; if the texts of a run have several, a tag such as <2de> before each source selects
    it"""


class DirectedPoConfig(TranslationTextConfig, PoConfig):
    """Messages with translations in a gettext PO file, plain or gzipped; a name with * matches several files."""


class DirectedXliffConfig(TranslationTextConfig, XliffConfig):
    """Segments with translations in an XLIFF file, 1.2 or 2.0, plain or gzipped; a name with * matches several
    files.
    """


_FORM_CONFIGS = (
    DirectedLinesConfig
    | DirectedTsvConfig
    | DirectedJsonlConfig
    | DirectedParquetConfig
    | DirectedTmxConfig
    | DirectedPoConfig
    | DirectedXliffConfig
)


def _infer_form(table: Mapping[str, Any]) -> str | None:
    """Infer the kind of a table as for other parallel text; the language keys do not count, since every kind may
    have them.
    """
    return infer_text_kind({key: value for key, value in table.items() if not key.endswith("_language")})


DirectedFormConfig = Annotated[_FORM_CONFIGS, Field(discriminator="kind"), add_inferred_kind(_infer_form)]


class SeveralTextsConfig(Config):
    """Several texts, read one after the other; in training they are mixed."""

    kind: Literal["several"] = "several"
    texts: Annotated[dict[str, DirectedFormConfig], Field(min_length=1)]
    """a table for each text, such as [data.train.texts.captions]; the names are free"""
    weights: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """relative frequency of each text, by its name; 1 if not given"""
    temperature: Annotated[float, Field(ge=1)] = 1.0
    """T: texts are read in proportion to their tokens to the power of 1 / T, so that with T above 1 small texts are
    read more often than their size would give; an epoch has as many tokens as all texts together"""

    @field_validator("weights")
    @classmethod
    def _check_weight_names(cls, weights: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        """Raise `ValueError` if a weight names an unknown text."""
        texts = info.data.get("texts", weights)
        if unknown := sorted(set(weights) - set(texts)):
            raise ValueError(f"names {', '.join(unknown)}, but the texts are {', '.join(texts)}")
        return weights


class MixedLinesConfig(MixInConfig, DirectedLinesConfig):
    """Two files whose lines are translations of each other, plain or gzipped; names with * match several files."""


class MixedTsvConfig(MixInConfig, DirectedTsvConfig):
    """One file of tab-separated columns, plain or gzipped; a name with * matches several files."""


class MixedJsonlConfig(MixInConfig, DirectedJsonlConfig):
    """One file with a JSON object on each line, plain or gzipped; a name with * matches several files."""


class MixedParquetConfig(MixInConfig, DirectedParquetConfig):
    """Two columns of a Parquet file, read by pyarrow (`pip install "heedful[parquet]"`); a name with * matches
    several files.
    """


class MixedTmxConfig(MixInConfig, DirectedTmxConfig):
    """A translation memory in TMX, plain or gzipped; a name with * matches several files."""


class MixedPoConfig(MixInConfig, DirectedPoConfig):
    """Messages with translations in a gettext PO file, plain or gzipped; a name with * matches several files."""


class MixedXliffConfig(MixInConfig, DirectedXliffConfig):
    """Segments with translations in an XLIFF file, 1.2 or 2.0, plain or gzipped; a name with * matches several
    files.
    """


DirectedTextConfig = Annotated[
    _FORM_CONFIGS | SeveralTextsConfig,
    Field(discriminator="kind"),
    add_inferred_kind(lambda table: "several" if "texts" in table else _infer_form(table)),
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
    add_inferred_kind(_infer_form),
]


def list_texts(
    table: TranslationTextConfig | SeveralTextsConfig | None, key: str
) -> Mapping[str, TranslationTextConfig]:
    """Return the texts of a table by their full keys; empty if there is no table."""
    if isinstance(table, SeveralTextsConfig):
        return {f"{key}.texts.{name}": text for name, text in table.texts.items()}
    return {} if table is None else {key: table}


def compute_epoch_tokens(table: TranslationTextConfig | SeveralTextsConfig, tokens: Sequence[int]) -> Sequence[float]:
    """Return the number of tokens per epoch of each direction of each text: proportional to w n^(1/T), with the same
    total.

    Temperature as in Arivazhagan et al. 2019, section 4.2.
    """
    if not isinstance(table, SeveralTextsConfig):
        return tokens
    weights = [table.weights.get(name, 1.0) for name, text in table.texts.items() for _ in text.directions]
    scaled = [weight * count ** (1 / table.temperature) for weight, count in zip(weights, tokens, strict=True)]
    return [sum(tokens) * tokens_of_text / math.fsum(scaled) for tokens_of_text in scaled]


def _add_context(reader: ExampleReader[SentencePair], sentences: int) -> ExampleReader[SentencePair]:
    """Wrap a reader so that each source is read with its previous sentences."""
    from heedful.data.context import ContextReader  # it waits for torch, which recipes without documents need not

    return ContextReader(reader, max_sentences=sentences)
