"""Plain text and documents, and how text is cut into tokens, as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from heedful.recipes.config import Config, InputPath, add_default_kind, add_inferred_kind
from heedful.registry import load_object

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader
    from heedful.data.tokenizers import Tokenizer

ColumnIndex = Annotated[int, Field(ge=0)]
NonEmptyName = Annotated[str, Field(min_length=1)]


class FileConfig(Config):
    """One file of examples; abstract.

    Attributes:
        read_by: what reads it, as "module:NAME"; it takes the path, and the other keys of the table by their names.
    """

    read_by: ClassVar[str]

    kind: str
    path: InputPath
    """the file"""

    def reader(self) -> ExampleReader[Any]:
        """The examples, to be read as often as one likes; `DataError` where the file is missing."""
        reader_class = load_object(self.read_by, context=f"kind = {self.kind!r}")
        reader: ExampleReader[Any] = reader_class(self.path, **self.model_dump(exclude={"kind", "path"}))
        return reader


class PlainTextConfig(FileConfig):
    """One file that is one text, plain or gzipped."""

    read_by = "heedful.data.documents:PlainTextReader"

    kind: Literal["text"] = "text"


class DocumentLinesConfig(FileConfig):
    """One file with a document on each line, plain or gzipped."""

    read_by = "heedful.data.documents:LineDocuments"

    kind: Literal["lines"] = "lines"


class DocumentJsonlConfig(FileConfig):
    """One file with a JSON object on each line, plain or gzipped."""

    read_by = "heedful.data.documents:JsonlDocuments"

    kind: Literal["jsonl"] = "jsonl"
    field: NonEmptyName
    """name of the field that holds the document"""


class BlocksConfig(FileConfig):
    """One file of documents with empty lines between them, plain or gzipped."""

    read_by = "heedful.data.documents:BlankSeparatedDocuments"

    kind: Literal["blocks"] = "blocks"


def _infer_kind_from_field(kind: str) -> BeforeValidator:
    """JSONL where a field is named; lines must be asked for, since a text has lines too."""
    return add_inferred_kind(lambda table: "jsonl" if "field" in table else kind)


TextConfig = Annotated[
    PlainTextConfig | DocumentLinesConfig | DocumentJsonlConfig,
    Field(discriminator="kind"),
    _infer_kind_from_field("text"),
]
DocumentsConfig = Annotated[
    BlocksConfig | DocumentLinesConfig | DocumentJsonlConfig,
    Field(discriminator="kind"),
    _infer_kind_from_field("blocks"),
]

_DEFAULT_SIZES = {"bpe": 8000, "unigram": 8000}


class TokenizerConfig(Config):
    """How text is cut into tokens; learned from the training text, always the same way."""

    kind: Literal["bpe", "unigram", "characters", "words"] = "bpe"
    """byte-pair encoding, a unigram language model, single characters, or words between spaces"""
    size: Annotated[int, Field(ge=8)] | None = Field(default_factory=lambda given: _DEFAULT_SIZES.get(given["kind"]))
    """entries of each vocabulary at most, special ones included; else 8000 pieces, or all characters or words"""
    lowercase: bool = False
    """whether everything is lowercased first"""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """share of the characters in the training text that must be in the vocabulary"""

    @property
    def allows_nfc(self) -> bool:
        """Whether text that a model writes can be read in NFC; what is lowercased or taken as it is has other rules."""
        return not self.lowercase and not getattr(self, "verbatim", False)

    @field_validator("size")
    @classmethod
    def _require_size(cls, size: int | None, info: ValidationInfo) -> int | None:
        if size is None and info.data.get("kind") in _DEFAULT_SIZES:
            raise ValueError(f'must be a number for tokenizer.kind = "{info.data["kind"]}", as in size = 8000')
        return size

    @field_validator("character_coverage")
    @classmethod
    def _check_coverage(cls, character_coverage: float, info: ValidationInfo) -> float:
        kind = info.data.get("kind", "bpe")
        if kind not in _DEFAULT_SIZES and character_coverage != 1:
            raise ValueError(f'has no meaning for tokenizer.kind = "{kind}"; limit its size instead')
        return character_coverage

    def learn_tokenizer(
        self, texts: Iterable[str], *, add_mask: bool = False, tags: Sequence[str] = (), nfc: bool = False
    ) -> Tokenizer:
        """The tokenizer of some texts; `add_mask` where tokens will be hidden; `tags` may stand before texts; `nfc`
        where text is read in NFC, as what is written should be, and not in NFKC.
        """
        from heedful.data.tokenizers import learn_characters, learn_sentencepiece, learn_words

        lowercase, size = self.lowercase, self.size
        match self.kind:
            case "bpe" | "unigram":
                assert size is not None
                return learn_sentencepiece(
                    texts,
                    kind=self.kind,
                    size=size,
                    lowercase=lowercase,
                    character_coverage=self.character_coverage,
                    masked=add_mask,
                    tags=tags,
                    uses_nfc=nfc,
                )
            case "characters":
                verbatim = isinstance(self, TextTokenizerConfig) and self.verbatim
                return learn_characters(
                    texts,
                    size=size,
                    lowercase=lowercase,
                    verbatim=verbatim,
                    masked=add_mask,
                    tags=tags,
                    uses_nfc=nfc,
                )
            case "words":
                return learn_words(texts, size=size, lowercase=lowercase, masked=add_mask, tags=tags, uses_nfc=nfc)


class TextTokenizerConfig(TokenizerConfig):
    """How text is cut into tokens; learned from the training text, always the same way."""

    verbatim: bool = Field(default_factory=lambda given: given["kind"] == "characters")
    """whether line ends and every space are part of the text; true for characters if not given, else no choice"""

    @field_validator("verbatim")
    @classmethod
    def _check_verbatim(cls, verbatim: bool, info: ValidationInfo) -> bool:
        kind = info.data.get("kind", "characters")
        if verbatim and kind != "characters":
            raise ValueError(f'must be false for tokenizer.kind = "{kind}", whose pieces know no line ends')
        return verbatim


class GivenTokenizerConfig(Config):
    """The vocabulary of the trained model that `init` names."""

    kind: Literal["given"] = "given"


class GivenPairConfig(GivenTokenizerConfig):
    """The vocabularies of the trained model that `init` names; what is said of them is filled in."""

    joint: bool = True
    """one vocabulary for both languages, or one for each; as that model has it"""
    lowercase: bool = False
    """whether everything is lowercased first; as that model has it"""

    @property
    def target(self) -> None:
        """None: how the target is cut is given too."""

    @property
    def target_config(self) -> Self:
        """How the target is cut."""
        return self


WordsTokenizerConfig = Annotated[
    TokenizerConfig | GivenTokenizerConfig, Field(discriminator="kind"), add_default_kind("bpe")
]
TextVocabularyConfig = Annotated[
    TextTokenizerConfig | GivenTokenizerConfig, Field(discriminator="kind"), add_default_kind("bpe")
]
