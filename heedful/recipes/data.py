"""What a model learns from, as data: parallel text, plain text, tagged text, and how it is cut into tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.recipes.labelled import ClassificationDataConfig, LabelledTextConfig, QuestionsConfig, SpansDataConfig
from heedful.recipes.section import Count, InputPath, Section, default_kind, kind_from

Column = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]


class LinesConfig(Section):
    """Two files whose lines translate each other, plain or gzipped."""

    kind: Literal["lines"] = "lines"
    source: InputPath
    """the file of source sentences, one a line"""
    target: InputPath
    """the file of their translations, one a line"""

    @field_validator("target")
    @classmethod
    def _differs(cls, target: InputPath, info: ValidationInfo) -> InputPath:
        if target == info.data.get("source"):
            raise ValueError("must be another file than source")
        return target


class TsvConfig(Section):
    """One file of tab-separated columns, plain or gzipped."""

    kind: Literal["tsv"] = "tsv"
    path: InputPath
    """the file"""
    source_column: Column = 0
    """column of the source sentences, counted from 0"""
    target_column: Column = 1
    """column of their translations, counted from 0"""

    @field_validator("target_column")
    @classmethod
    def _differs(cls, target_column: int, info: ValidationInfo) -> int:
        if target_column == info.data.get("source_column"):
            raise ValueError("must be another column than source_column")
        return target_column


class JsonlConfig(Section):
    """One file with a JSON object on each line, plain or gzipped."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    source_field: Name
    """name of the field that holds the source sentence"""
    target_field: Name
    """name of the field that holds its translation"""

    @field_validator("target_field")
    @classmethod
    def _differs(cls, target_field: str, info: ValidationInfo) -> str:
        if target_field == info.data.get("source_field"):
            raise ValueError("must be another field than source_field")
        return target_field


def _kind_of_text(table: Mapping[str, Any]) -> str | None:
    """The kind that the keys belong to; a file's name tells JSONL from TSV where only `path` is given."""
    if "source" in table or "target" in table:
        return "lines"
    if "source_field" in table or "target_field" in table:
        return "jsonl"
    if "path" not in table:
        return None
    name = str(table["path"]).removesuffix(".gz")
    return "jsonl" if name.endswith((".jsonl", ".ndjson")) and "source_column" not in table else "tsv"


ParallelTextConfig = Annotated[
    LinesConfig | TsvConfig | JsonlConfig, Field(discriminator="kind"), kind_from(_kind_of_text)
]


class TranslationDataConfig(Section):
    """Parallel text to train on, to choose the best checkpoint by, and to report a score of."""

    train: ParallelTextConfig
    """the parallel text to learn from"""
    validation: ParallelTextConfig
    """the parallel text that checkpoints are compared on"""
    test: ParallelTextConfig | None = None
    """the parallel text that `heedful evaluate` takes unless it is given another"""
    max_length: Annotated[int, Field(ge=1)] = 256
    """longest sentence, in tokens with the one that ends it; pairs with a longer side are left out of training"""


class PlainTextConfig(Section):
    """One file that is one text, plain or gzipped."""

    kind: Literal["text"] = "text"
    path: InputPath
    """the file"""


class DocumentLinesConfig(Section):
    """One file with a document on each line, plain or gzipped."""

    kind: Literal["lines"] = "lines"
    path: InputPath
    """the file"""


class DocumentJsonlConfig(Section):
    """One file with a JSON object on each line, plain or gzipped."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    field: Name
    """name of the field that holds the document"""


def _kind_of_documents(table: Mapping[str, Any]) -> str:
    """JSONL where a field is named; lines must be asked for, since a text has lines too."""
    return "jsonl" if "field" in table else "text"


TextConfig = Annotated[
    PlainTextConfig | DocumentLinesConfig | DocumentJsonlConfig,
    Field(discriminator="kind"),
    kind_from(_kind_of_documents),
]


class BlocksConfig(Section):
    """One file of documents with empty lines between them, plain or gzipped."""

    kind: Literal["blocks"] = "blocks"
    path: InputPath
    """the file"""


def _kind_of_blocks(table: Mapping[str, Any]) -> str:
    """JSONL where a field is named."""
    return "jsonl" if "field" in table else "blocks"


DocumentsConfig = Annotated[
    BlocksConfig | DocumentLinesConfig | DocumentJsonlConfig,
    Field(discriminator="kind"),
    kind_from(_kind_of_blocks),
]


class PretrainingDataConfig(Section):
    """Documents to train on, to choose the best checkpoint by, and to report losses of."""

    train: DocumentsConfig
    """the documents to learn from"""
    validation: DocumentsConfig
    """the documents that checkpoints are compared on"""
    test: DocumentsConfig | None = None
    """the documents that `heedful evaluate` takes unless it is given others"""
    max_length: Annotated[int, Field(ge=8)] = 128
    """longest passage, in tokens with its begin and ends; documents are cut into passages at sentences"""


class LanguageDataConfig(Section):
    """Text to train on, to choose the best checkpoint by, and to report a perplexity of."""

    train: TextConfig
    """the text to learn from"""
    validation: TextConfig
    """the text that checkpoints are compared on"""
    test: TextConfig | None = None
    """the text that `heedful evaluate` takes unless it is given another"""
    length: Count = 256
    """tokens that are learned in one piece, at most"""
    documents: Literal["packed", "apart"] = "packed"
    """whether pieces are cut anywhere in the stream of all documents, or never hold tokens of two"""


class ColumnsConfig(Section):
    """One word a line with its tag in another column, an empty line between sentences; plain or gzipped."""

    kind: Literal["columns"] = "columns"
    path: InputPath
    """the file; columns are separated by tabs, or by spaces where a line has no tab"""
    word_column: Column = 0
    """column of the words, counted from 0"""
    tag_column: Column = 1
    """column of their tags, counted from 0"""

    @field_validator("tag_column")
    @classmethod
    def _differs(cls, tag_column: int, info: ValidationInfo) -> int:
        if tag_column == info.data.get("word_column"):
            raise ValueError("must be another column than word_column")
        return tag_column


class ConlluConfig(Section):
    """Universal Dependencies' CoNLL-U, plain or gzipped; ranges and empty nodes are left out."""

    kind: Literal["conllu"] = "conllu"
    path: InputPath
    """the file"""
    tag: Literal["upos", "xpos", "deprel"] = "upos"
    """which annotation is the tag"""


def _kind_of_tagged(table: Mapping[str, Any]) -> str:
    """CoNLL-U by the file's name."""
    return "conllu" if str(table.get("path", "")).removesuffix(".gz").endswith(".conllu") else "columns"


TaggedTextConfig = Annotated[ColumnsConfig | ConlluConfig, Field(discriminator="kind"), kind_from(_kind_of_tagged)]


class TaggingDataConfig(Section):
    """Tagged text to train on, to choose the best checkpoint by, and to report an accuracy of."""

    train: TaggedTextConfig
    """the tagged text to learn from"""
    validation: TaggedTextConfig
    """the tagged text that checkpoints are compared on"""
    test: TaggedTextConfig | None = None
    """the tagged text that `heedful evaluate` takes unless it is given another"""
    examples: Count | None = None
    """how many of the sentences in train are learned from, drawn by the seed, a smaller number among a larger one's;
    all if not given"""
    max_length: Annotated[int, Field(ge=1)] = 256
    """longest sentence, in tokens with the begin and end that an encoder of kind "transformer" reads around it; longer
    ones are left out of training"""


AnyTextConfig = (
    ParallelTextConfig | TextConfig | DocumentsConfig | TaggedTextConfig | LabelledTextConfig | QuestionsConfig
)
FineTuningDataConfig = TaggingDataConfig | ClassificationDataConfig | SpansDataConfig
AnyDataConfig = TranslationDataConfig | LanguageDataConfig | PretrainingDataConfig | FineTuningDataConfig

_SIZES = {"bpe": 8000, "unigram": 8000}


class TokenizerConfig(Section):
    """How text is cut into tokens; learned from the training text, always the same way."""

    kind: Literal["bpe", "unigram", "characters", "words"] = "bpe"
    """byte-pair encoding, a unigram language model, single characters, or words between spaces"""
    size: Annotated[int, Field(ge=8)] | None = Field(default_factory=lambda given: _SIZES.get(given["kind"]))
    """entries of each vocabulary, special ones included; else 8000 pieces, or all characters or words"""
    lowercase: bool = False
    """whether everything is lowercased first"""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """share of the characters in the training text that must be in the vocabulary"""

    @field_validator("size")
    @classmethod
    def _needed(cls, size: int | None, info: ValidationInfo) -> int | None:
        if size is None and info.data.get("kind") in _SIZES:
            raise ValueError(f'must be a number for tokenizer.kind = "{info.data["kind"]}", as in size = 8000')
        return size

    @field_validator("character_coverage")
    @classmethod
    def _matters(cls, character_coverage: float, info: ValidationInfo) -> float:
        kind = info.data.get("kind", "bpe")
        if kind not in _SIZES and character_coverage != 1:
            raise ValueError(f'has no meaning for tokenizer.kind = "{kind}"; limit its size instead')
        return character_coverage


class PairTokenizerConfig(TokenizerConfig):
    """How both languages are cut into tokens; learned from the training text, always the same way."""

    joint: bool = True
    """one vocabulary for both languages, or one for each"""


class TextTokenizerConfig(TokenizerConfig):
    """How text is cut into tokens; learned from the training text, always the same way."""

    verbatim: bool = Field(default_factory=lambda given: given["kind"] == "characters")
    """whether line ends and every space are part of the text; true for characters if not given, else no choice"""

    @field_validator("verbatim")
    @classmethod
    def _only_characters(cls, verbatim: bool, info: ValidationInfo) -> bool:
        kind = info.data.get("kind", "characters")
        if verbatim and kind != "characters":
            raise ValueError(f'must be false for tokenizer.kind = "{kind}", whose pieces know no line ends')
        return verbatim


class GivenTokenizerConfig(Section):
    """The vocabulary of the trained model that `init` names."""

    kind: Literal["given"] = "given"


WordsTokenizerConfig = Annotated[
    TokenizerConfig | GivenTokenizerConfig, Field(discriminator="kind"), default_kind("bpe")
]
TextVocabularyConfig = Annotated[
    TextTokenizerConfig | GivenTokenizerConfig, Field(discriminator="kind"), default_kind("bpe")
]
