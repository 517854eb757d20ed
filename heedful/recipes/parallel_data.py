"""Parallel texts: file formats, and for translation languages, directions, tags, and mixtures of several texts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, Union

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, create_model, field_validator

from heedful.compression import strip_compression_suffix
from heedful.recipes.config import AnyPath, Config, InputPath, RecipeRelative, add_inferred_kind, get_kind
from heedful.recipes.recipe import MixInConfig
from heedful.recipes.text import ColumnIndex, NonEmptyName
from heedful.registry import load_object

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader, SentencePair

_TAG: Final = re.compile(r"<[^\s<>]+>")
_RESERVED_PIECES: Final = frozenset({"<pad>", "<s>", "</s>", "<unk>", "<mask>", "<raw>"})


def require_different_from(key: str, what: str) -> AfterValidator:
    """Build a validator that rejects a value equal to that of the key `key` of the same table; `what` names the value
    in the message.
    """

    def check(value: Any, info: ValidationInfo) -> Any:
        if value is not None and value == info.data.get(key):
            raise ValueError(f"must be another {what} than {key}")
        return value

    return AfterValidator(check)


def format_language_tag(language: str) -> str:
    """Return the tag that stands before a source to select the target language of a multilingual model (Johnson et
    al. 2017).
    """
    return f"<2{language}>"


def format_source_tag(language: str) -> str:
    """Return the tag that names the language of a source, for models that read it, such as NLLB-200."""
    return f"<src:{language}>"


def _check_tag(text: str) -> str:
    """Raise `ValueError` if a tag is not one word in angle brackets or is a reserved token; otherwise return it."""
    if not _TAG.fullmatch(text) or text in _RESERVED_PIECES:
        raise ValueError(
            f"{text!r} must be one word in angle brackets, as in <captions>, and not one of the model's own tokens"
        )
    return text


def _check_language(text: str) -> str:
    if not _TAG.fullmatch(f"<{text}>"):
        raise ValueError("must be one word without angle brackets, as in de or pt-BR")
    return text


def _reject_both_ways(path: Path | None, info: ValidationInfo) -> Path | None:
    """Raise `ValueError` if the path of a file of factors is given for a text that is read in both directions;
    otherwise return it.
    """
    if path is not None and info.data.get("both_ways"):
        raise ValueError("describes the words of one language; leave both_ways out")
    return path


def _list_paths(value: Any) -> Any:
    """Return one path as a tuple of one, and all other values unchanged."""
    return (value,) if isinstance(value, str | Path) else value


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
    """file of word alignments, `0-0 1-2`, one line for each pair, plain or compressed; see `training.guided`"""
    factors: Annotated[InputPath | None, AfterValidator(_reject_both_ways)] = None
    """file with a label for each word of a source, a line for each pair, plain or compressed; see table [factors]"""
    sentence_weights: InputPath | None = None
    """file with the weight of each pair in the loss, a number on each line, plain or compressed; 0 leaves a pair out"""
    references: Annotated[tuple[AnyPath, ...], Field(strict=False), BeforeValidator(_list_paths), RecipeRelative()] = ()
    """files of further reference translations, one line for each pair, plain or compressed; for validation and test"""

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return the values that the newer keys have for older runs: no languages, tags, alignments, factors, weights,
        documents and further references, and one direction.
        """
        document_keys = [key for key in ("document_column", "document_field") if key in cls.model_fields]
        file_keys = ("alignments", "factors", "sentence_weights")
        unset = dict.fromkeys(("source_language", "target_language", *file_keys, *document_keys))
        return {**unset, "both_ways": False, "tags": (), "references": ()}

    @field_validator("both_ways")
    @classmethod
    def _check_both_ways(cls, both_ways: bool, info: ValidationInfo) -> bool:
        if both_ways and not (info.data.get("source_language") and info.data.get("target_language")):
            raise ValueError("needs source_language and target_language, so that each of them can be requested")
        return both_ways

    if TYPE_CHECKING:  # each file format has its own

        def reader(self) -> ExampleReader[SentencePair]:
            """Return the reader of the pairs."""

    @field_validator("references")
    @classmethod
    def _check_references(cls, references: tuple[Path, ...], info: ValidationInfo) -> tuple[Path, ...]:
        if references and info.data.get("both_ways"):
            raise ValueError("translate into one language; leave both_ways out")
        return references

    @property
    def directions(self) -> tuple[TranslationDirection, ...]:
        """The directions in which the text is translated."""
        forward = TranslationDirection(self.source_language, self.target_language)
        return (forward, TranslationDirection(forward.target, forward.source)) if self.both_ways else (forward,)

    def build_readers(
        self, key: str, *, add_language_tag: bool, context: int = 0
    ) -> Mapping[str, ExampleReader[SentencePair]]:
        """Build a reader for each direction, by the key of the table and, with two directions, their languages. Each
        source is read with `context` previous sentences, and with a tag for the target language if
        `add_language_tag`.

        Args:
            key: key of this table.
            add_language_tag: whether a tag before each source selects the target language.
            context: number of previous source sentences to read with each sentence.
        """
        from heedful.data.readers import ReversedPairs, TaggedPairs

        labelled = self._read_labelled()
        readers: dict[str, ExampleReader[SentencePair]] = {}
        for number, (source, target) in enumerate(self.directions):
            reader = ReversedPairs(labelled) if number else labelled
            reader = _add_context(reader, context) if context else reader
            reader = reader if self.sentence_weights is None else _drop_unused(reader)
            tags = [*([format_language_tag(target)] if add_language_tag and target else []), *self.tags]
            name = f"{key} ({source} to {target})" if self.both_ways else key
            readers[name] = TaggedPairs(reader, tags) if tags else reader
        return readers

    def _read_labelled(self) -> ExampleReader[SentencePair]:
        """Build the reader of the pairs with word alignments, factors, weights and further references, if files of
        these are given.
        """
        reader = self.reader()
        if self.alignments is not None:
            from heedful.data.word_alignments import AlignedPairs

            reader = AlignedPairs(reader, self.alignments)
        if self.factors is not None:
            from heedful.data.factors import FactoredPairs

            reader = FactoredPairs(reader, self.factors)
        if self.sentence_weights is not None:
            from heedful.data.sentence_weights import WeightedPairs

            reader = WeightedPairs(reader, self.sentence_weights)
        if self.references:
            from heedful.data.readers import ReferencedPairs

            reader = ReferencedPairs(reader, self.references)
        return reader


class ParallelFormatConfig(Config):
    """Config of parallel text in one file format; a new format is a subclass, listed in `FORMATS`.

    Attributes:
        read_by: the reader class, as "module:NAME"; it receives the files, and the values of `reader_keys` by name.
        path_keys: keys of the files.
        reader_keys: keys that the reader needs; those that are not given are left out.
        selecting_keys: keys that select this format if `kind` is not given.
        suffixes: suffixes of file names that select it.
        translation_keys: further keys of such a text for translation.
    """

    read_by: ClassVar[str]
    path_keys: ClassVar[tuple[str, ...]] = ("path",)
    reader_keys: ClassVar[tuple[str, ...]] = ()
    selecting_keys: ClassVar[frozenset[str]] = frozenset()
    suffixes: ClassVar[tuple[str, ...]] = ()
    translation_keys: ClassVar[type[TranslationTextConfig]] = TranslationTextConfig

    kind: str

    def reader(self) -> ExampleReader[SentencePair]:
        """Return the reader of the pairs, from all files that match; raise `DataError` if none does."""
        from heedful.data.readers import open_matching_files

        reader_class = load_object(self.read_by, context=f"kind = {self.kind!r}")
        values = {key: getattr(self, key, None) for key in self.reader_keys}
        given = {key: value for key, value in values.items() if value is not None}
        return open_matching_files(partial(reader_class, **given), *(getattr(self, key) for key in self.path_keys))


class LinesConfig(ParallelFormatConfig):
    """Two files whose lines are translations of each other, plain or compressed; names with * match several files."""

    read_by = "heedful.data.readers:LineAlignedReader"
    path_keys = ("source", "target")
    selecting_keys = frozenset({"source", "target"})

    kind: Literal["lines"] = "lines"
    source: InputPath
    """the file of source sentences, one per line"""
    target: Annotated[InputPath, require_different_from("source", "file")]
    """the file of their translations, one per line"""


class TsvTranslationConfig(TranslationTextConfig):
    """Keys of a TSV file for translation; abstract."""

    document_column: ColumnIndex | None = None
    """column that names the document of each pair, counted from 0; for `data.context`"""


class TsvConfig(ParallelFormatConfig):
    """One file of tab-separated columns, plain or compressed; a name with * matches several files."""

    read_by = "heedful.data.readers:TsvPairReader"
    reader_keys = ("source_column", "target_column", "document_column")
    selecting_keys = frozenset({"source_column"})
    translation_keys = TsvTranslationConfig

    kind: Literal["tsv"] = "tsv"
    path: InputPath
    """the file"""
    source_column: ColumnIndex = 0
    """column of the source sentences, counted from 0"""
    target_column: Annotated[ColumnIndex, require_different_from("source_column", "column")] = 1
    """column of their translations, counted from 0"""


class JsonlTranslationConfig(TranslationTextConfig):
    """Keys of a JSON Lines file for translation; abstract."""

    document_field: NonEmptyName | None = None
    """name of the field that names the document of each pair; for `data.context`"""


class JsonlConfig(ParallelFormatConfig):
    """One file with a JSON object on each line, plain or compressed; a name with * matches several files."""

    read_by = "heedful.data.readers:JsonlPairReader"
    reader_keys = ("source_field", "target_field", "document_field")
    selecting_keys = frozenset({"source_field", "target_field"})
    suffixes = (".jsonl", ".ndjson")
    translation_keys = JsonlTranslationConfig

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    source_field: NonEmptyName
    """name of the field that holds the source sentence"""
    target_field: Annotated[NonEmptyName, require_different_from("source_field", "field")]
    """name of the field that holds its translation"""


class ParquetTranslationConfig(TranslationTextConfig):
    """Keys of a Parquet file for translation; abstract."""

    document_field: NonEmptyName | None = None
    """name of the column that names the document of each pair; for `data.context`"""


class ParquetConfig(ParallelFormatConfig):
    """Two columns of a Parquet file, read by pyarrow (`pip install "heedful[parquet]"`); a name with * matches
    several files.
    """

    read_by = "heedful.data.parquet:ParquetPairReader"
    reader_keys = ("source_field", "target_field", "document_field")
    selecting_keys = frozenset({"source_field", "target_field"})
    suffixes = (".parquet",)
    translation_keys = ParquetTranslationConfig

    kind: Literal["parquet"] = "parquet"
    path: InputPath
    """the file"""
    source_field: NonEmptyName
    """name of the column that holds the source sentence"""
    target_field: Annotated[NonEmptyName, require_different_from("source_field", "column")]
    """name of the column that holds its translation"""


class TmxTranslationConfig(TranslationTextConfig):
    """Keys of a translation memory for translation, whose languages must be given; abstract."""

    source_language: LanguageCode
    """the source language, as the file names it; `en` also matches `en-GB`"""
    target_language: Annotated[LanguageCode, require_different_from("source_language", "language")]
    """the target language, likewise; if the texts of a run have several, a tag such as <2de> before each source selects
    it"""


class TmxConfig(ParallelFormatConfig):
    """A translation memory in TMX, plain or compressed; a name with * matches several files."""

    read_by = "heedful.data.translation_files:ConfirmedTranslations"
    reader_keys = ("source_language", "target_language")
    selecting_keys = frozenset({"source_language", "target_language"})
    suffixes = (".tmx", ".xml")
    translation_keys = TmxTranslationConfig

    kind: Literal["tmx"] = "tmx"
    path: InputPath
    """the file"""
    source_language: NonEmptyName
    """the source language, as the file names it; `en` also matches `en-GB`"""
    target_language: Annotated[NonEmptyName, require_different_from("source_language", "language")]
    """the target language, likewise"""


class PoConfig(ParallelFormatConfig):
    """Messages with translations in a gettext PO file, plain or compressed; a name with * matches several files."""

    read_by = "heedful.data.translation_files:ConfirmedTranslations"
    suffixes = (".po",)

    kind: Literal["po"] = "po"
    path: InputPath
    """the file; fuzzy, obsolete and untranslated messages are left out"""


class XliffConfig(ParallelFormatConfig):
    """Segments with translations in an XLIFF file, 1.2 or 2.0, plain or compressed; a name with * matches several
    files.
    """

    read_by = "heedful.data.translation_files:ConfirmedTranslations"
    suffixes = (".xlf", ".xliff")

    kind: Literal["xliff"] = "xliff"
    path: InputPath
    """the file; segments without a target, or with one that needs review, are left out"""


FORMATS: Final[tuple[type[ParallelFormatConfig], ...]] = (
    LinesConfig,
    TsvConfig,
    JsonlConfig,
    ParquetConfig,
    TmxConfig,
    PoConfig,
    XliffConfig,
)


def infer_text_kind(table: Mapping[str, Any]) -> str | None:
    """Infer the kind of parallel text from the keys of its table and the suffix of its path, TSV by default; None if
    there is no path and no key that selects a kind.
    """
    suffix = Path(strip_compression_suffix(str(table.get("path")).lower())).suffix
    by_suffix = next((text_format for text_format in FORMATS if suffix in text_format.suffixes), TsvConfig)
    by_keys = [text_format for text_format in FORMATS if not text_format.selecting_keys.isdisjoint(table)]
    if not by_keys and "path" not in table:
        return None
    return get_kind(by_keys[0] if by_keys and by_suffix not in by_keys else by_suffix)


def _infer_translation_kind(table: Mapping[str, Any]) -> str | None:
    """Infer the kind of a text for translation; its language keys do not count, since every kind may have them."""
    return infer_text_kind({key: value for key, value in table.items() if not key.endswith("_language")})


_BUILT_CONFIGS: Final[dict[str, type[Config]]] = {}


def _add_translation_keys(prefix: str, *further: type[Config]) -> tuple[type[Config], ...]:
    """Build a config of each file format with the keys for translation, followed by the keys of the classes `further`.
    The names of the classes begin with `prefix`.
    """
    configs = tuple(
        create_model(
            f"{prefix}{text_format.__name__}",
            __base__=(*further, text_format.translation_keys, text_format),
            __doc__=text_format.__doc__,
            __module__=__name__,
        )
        for text_format in FORMATS
    )
    _BUILT_CONFIGS.update({config.__name__: config for config in configs})
    return configs


if TYPE_CHECKING:
    ParallelTextConfig: TypeAlias = ParallelFormatConfig
    DirectedFormatConfig: TypeAlias = TranslationTextConfig

    class MixedTextConfig(MixInConfig, TranslationTextConfig):
        """A text for translation that is mixed into another one."""
else:

    def __getattr__(name: str) -> type[Config]:
        """Return a config that `_add_translation_keys` built: pickle looks here for the class of a recipe."""
        if name not in _BUILT_CONFIGS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _BUILT_CONFIGS[name]

    _DIRECTED_CONFIGS = _add_translation_keys("Directed")
    _MIXED_CONFIGS = _add_translation_keys("Mixed", MixInConfig)
    _KIND: Final = Field(discriminator="kind")
    ParallelTextConfig = Annotated[Union[FORMATS], _KIND, add_inferred_kind(infer_text_kind)]  # noqa: UP007 - of a tuple
    DirectedFormatConfig = Annotated[
        Union[_DIRECTED_CONFIGS], _KIND, add_inferred_kind(_infer_translation_kind)  # noqa: UP007 - of a tuple
    ]
    MixedTextConfig = Annotated[
        Union[_MIXED_CONFIGS], _KIND, add_inferred_kind(_infer_translation_kind)  # noqa: UP007 - of a tuple
    ]


class SeveralTextsConfig(Config):
    """Several texts, read one after the other; in training they are mixed."""

    kind: Literal["several"] = "several"
    texts: Annotated[dict[str, DirectedFormatConfig], Field(min_length=1)]
    """a table for each text, such as [data.train.texts.captions]; the names are free"""
    weights: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """relative frequency of each text, by its name; 1 if not given"""
    temperature: Annotated[float, Field(ge=1)] = 1.0
    """T: texts are read in proportion to their tokens to the power of 1 / T, so that with T above 1 small texts are
    read more often than their size would give; an epoch has as many tokens as all texts together"""

    @field_validator("weights")
    @classmethod
    def _check_weight_names(cls, weights: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        """Raise `ValueError` if a weight belongs to none of the texts."""
        texts = info.data.get("texts", weights)
        if unknown := sorted(set(weights) - set(texts)):
            raise ValueError(f"names {', '.join(unknown)}, but the texts are {', '.join(texts)}")
        return weights


if TYPE_CHECKING:
    DirectedTextConfig: TypeAlias = TranslationTextConfig | SeveralTextsConfig
else:
    DirectedTextConfig = Annotated[
        Union[(*_DIRECTED_CONFIGS, SeveralTextsConfig)],
        _KIND,
        add_inferred_kind(lambda table: "several" if "texts" in table else _infer_translation_kind(table)),
    ]


def list_texts(
    table: TranslationTextConfig | SeveralTextsConfig | None, key: str
) -> Mapping[str, TranslationTextConfig]:
    """Return the texts of a table by their full keys; empty if there is no table."""
    if isinstance(table, SeveralTextsConfig):
        return {f"{key}.texts.{name}": text for name, text in table.texts.items()}
    return {} if table is None else {key: table}


def compute_epoch_tokens(table: TranslationTextConfig | SeveralTextsConfig, tokens: Sequence[int]) -> Sequence[float]:
    """Return the number of tokens per epoch of each direction of each text in a table: proportional to w n^(1/T), with
    the same total. `tokens` holds n, the tokens that each has.

    Temperature as in Arivazhagan et al. 2019, section 4.2.
    """
    if not isinstance(table, SeveralTextsConfig):
        return tokens
    weights = [table.weights.get(name, 1.0) for name, text in table.texts.items() for _ in text.directions]
    scaled = [weight * count ** (1 / table.temperature) for weight, count in zip(weights, tokens, strict=True)]
    return [sum(tokens) * tokens_of_text / math.fsum(scaled) for tokens_of_text in scaled]


def _add_context(reader: ExampleReader[SentencePair], sentences: int) -> ExampleReader[SentencePair]:
    """Wrap a reader so that each source is read with the given number of previous sentences."""
    from heedful.data.context import ContextReader  # it waits for torch, which recipes without documents need not

    return ContextReader(reader, max_sentences=sentences)


def _drop_unused(reader: ExampleReader[SentencePair]) -> ExampleReader[SentencePair]:
    """Leave out the pairs of weight 0, which were read as the context of others."""
    from heedful.data.sentence_weights import UsedPairs

    return UsedPairs(reader)
