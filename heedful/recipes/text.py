"""Plain text and documents, and how text is cut into tokens, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.recipes.section import InputPath, Section, default_kind, kind_from

if TYPE_CHECKING:
    from heedful.data.documents import Document
    from heedful.data.readers import Reader
    from heedful.data.tokenizers import Tokenizer

Column = Annotated[int, Field(ge=0)]


Name = Annotated[str, Field(min_length=1)]


class PlainTextConfig(Section):
    """One file that is one text, plain or gzipped."""

    kind: Literal["text"] = "text"
    path: InputPath
    """the file"""

    def reader(self) -> Reader[Document]:
        """The one document."""
        from heedful.data.documents import PlainText

        return PlainText(self.path)


class DocumentLinesConfig(Section):
    """One file with a document on each line, plain or gzipped."""

    kind: Literal["lines"] = "lines"
    path: InputPath
    """the file"""

    def reader(self) -> Reader[Document]:
        """A document for each line."""
        from heedful.data.documents import Lines

        return Lines(self.path)


class DocumentJsonlConfig(Section):
    """One file with a JSON object on each line, plain or gzipped."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    field: Name
    """name of the field that holds the document"""

    def reader(self) -> Reader[Document]:
        """A document for each line."""
        from heedful.data.documents import JsonlDocuments

        return JsonlDocuments(self.path, field=self.field)


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

    def reader(self) -> Reader[Document]:
        """A document for each block."""
        from heedful.data.documents import BlankSeparated

        return BlankSeparated(self.path)


def _kind_of_blocks(table: Mapping[str, Any]) -> str:
    """JSONL where a field is named."""
    return "jsonl" if "field" in table else "blocks"


DocumentsConfig = Annotated[
    BlocksConfig | DocumentLinesConfig | DocumentJsonlConfig,
    Field(discriminator="kind"),
    kind_from(_kind_of_blocks),
]


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

    def learn(self, texts: Iterable[str], *, masked: bool = False) -> Tokenizer:
        """The tokenizer of some texts; `masked` where tokens will be hidden."""
        from heedful.data.tokenizers import learn_characters, learn_sentencepiece, learn_words

        match self.kind:
            case "bpe" | "unigram":
                assert self.size is not None
                return learn_sentencepiece(
                    texts,
                    kind=self.kind,
                    size=self.size,
                    lowercase=self.lowercase,
                    character_coverage=self.character_coverage,
                    masked=masked,
                )
            case "characters":
                verbatim = isinstance(self, TextTokenizerConfig) and self.verbatim
                return learn_characters(
                    texts, size=self.size, lowercase=self.lowercase, verbatim=verbatim, masked=masked
                )
            case "words":
                return learn_words(texts, size=self.size, lowercase=self.lowercase, masked=masked)


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
