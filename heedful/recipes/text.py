"""Configs of plain text, documents and tokenizers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from heedful.recipes.config import Config, InputPath, add_inferred_kind
from heedful.registry import load_object

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader
    from heedful.data.tokenizers import Tokenizer

ColumnIndex = Annotated[int, Field(ge=0)]
NonEmptyName = Annotated[str, Field(min_length=1)]


class FileConfig(Config):
    """Config of one file of examples; abstract.

    Attributes:
        read_by: the reader class, as "module:NAME"; it receives the path, and the other keys of the table by name.
    """

    read_by: ClassVar[str]

    kind: str
    path: InputPath
    """the file"""

    def reader(self) -> ExampleReader[Any]:
        """Return the reader of the examples, which can be iterated repeatedly; raise `DataError` if the file is
        missing.
        """
        reader_class = load_object(self.read_by, context=f"kind = {self.kind!r}")
        reader: ExampleReader[Any] = reader_class(self.path, **self.model_dump(exclude={"kind", "path"}))
        return reader


class PlainTextConfig(FileConfig):
    """One file that contains a single text, plain or compressed."""

    read_by = "heedful.data.documents:PlainTextReader"

    kind: Literal["text"] = "text"


class DocumentLinesConfig(FileConfig):
    """One file with a document on each line, plain or compressed."""

    read_by = "heedful.data.documents:LineDocuments"

    kind: Literal["lines"] = "lines"


class DocumentJsonlConfig(FileConfig):
    """One file with a JSON object on each line, plain or compressed."""

    read_by = "heedful.data.documents:JsonlDocuments"

    kind: Literal["jsonl"] = "jsonl"
    field: NonEmptyName
    """name of the field that holds the document"""


class BlocksConfig(FileConfig):
    """One file of documents separated by empty lines, plain or compressed."""

    read_by = "heedful.data.documents:BlankSeparatedDocuments"

    kind: Literal["blocks"] = "blocks"


def _infer_kind_from_field(kind: str) -> BeforeValidator:
    """Build a validator that adds a missing `kind` to a table: "jsonl" if the table has the key `field`, otherwise
    `kind`.
    """
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
    """Config of a tokenizer that is learned from the training text, deterministically, or read from a file."""

    kind: Literal["bpe", "unigram", "characters", "words", "file"] = "bpe"
    """byte-pair encoding, a unigram language model, single characters, words between spaces, or the vocabulary in a
    file"""
    path: InputPath | None = None
    """the file of a vocabulary: a SentencePiece model, a tokenizer.json of Hugging Face, or the codes of subword-nmt;
    its pieces follow heedful's special ones"""
    size: Annotated[int, Field(ge=8)] | None = Field(default_factory=lambda given: _DEFAULT_SIZES.get(given["kind"]))
    """maximum number of entries of each vocabulary, special tokens included; if not given, 8000 pieces, or all
    characters or words"""
    lowercase: bool = False
    """whether the text is lowercased first"""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """share of the characters in the training text that the vocabulary must cover"""
    sample: Annotated[int, Field(ge=1000)] = 5_000_000
    """largest number of texts that pieces are learned from, each side of a pair being one; of more, or of more than 400
    MiB, a random part is drawn, so that memory stays bounded"""
    normalization: Literal["nfkc", "nfc", "none"] = "nfkc"
    """which letters count as the same before a text is split: by Unicode's NFKC (generated text keeps its own, by NFC),
    by NFC, so that Chinese commas and Persian joiners stay on both sides, or none, only for pieces"""

    @property
    def allows_nfc(self) -> bool:
        """Whether generated text can be read in NFC; text that is lowercased, read verbatim or split by a file has
        other rules.
        """
        is_normalized = self.kind != "file" and self.normalization != "none"
        return is_normalized and not self.lowercase and not getattr(self, "verbatim", False)

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if (path is None) == (info.data.get("kind") == "file"):
            raise ValueError('belongs to tokenizer.kind = "file"; give both, or the path alone')
        return path

    @field_validator("normalization")
    @classmethod
    def _check_normalization(cls, normalization: str, info: ValidationInfo) -> str:
        kind, lowercase = info.data.get("kind", "bpe"), info.data.get("lowercase")
        if normalization != "nfkc" and kind == "file":
            raise ValueError("must not be given with tokenizer.path: the file says how texts are normalized")
        if normalization != "nfkc" and lowercase:
            raise ValueError('must be "nfkc" where tokenizer.lowercase folds case')
        if normalization == "none" and kind not in _DEFAULT_SIZES:
            remedy = "set tokenizer.verbatim = true" if kind == "characters" else 'choose "nfc"'
            raise ValueError(f'is not possible for tokenizer.kind = "{kind}": {remedy}')
        return normalization

    @field_validator("size")
    @classmethod
    def _require_size(cls, size: int | None, info: ValidationInfo) -> int | None:
        if size is None and info.data.get("kind") in _DEFAULT_SIZES:
            raise ValueError(f'must be a number for tokenizer.kind = "{info.data["kind"]}", as in size = 8000')
        if size is not None and info.data.get("kind") == "file":
            raise ValueError("must not be given with tokenizer.path: the file has its own pieces")
        return size

    @field_validator("character_coverage")
    @classmethod
    def _check_coverage(cls, character_coverage: float, info: ValidationInfo) -> float:
        """Raise `ValueError` if `character_coverage` is set for a kind of tokenizer that it has no meaning for;
        otherwise return it.
        """
        kind = info.data.get("kind", "bpe")
        if kind not in _DEFAULT_SIZES and character_coverage != 1:
            raise ValueError(f'has no meaning for tokenizer.kind = "{kind}"; limit its size instead')
        return character_coverage

    def learn_tokenizer(
        self, texts: Iterable[str], *, add_mask: bool = False, tags: Sequence[str] = (), nfc: bool = False
    ) -> Tokenizer:
        """Learn the tokenizer from texts, with a mask token if `add_mask` and with `tags` that may stand before texts.
        Text is normalized to NFC if `nfc`, otherwise to NFKC.

        Args:
            texts: the training texts.
            add_mask: whether a mask token is needed.
            tags: tags that may stand before texts.
            nfc: whether text is normalized to NFC, as generated text should be, instead of NFKC.
        """
        from heedful.data.tokenizers import learn_characters, learn_sentencepiece, learn_words

        if self.path is not None:
            from heedful.data.adopted_tokenizers import adopt_vocabulary

            return adopt_vocabulary(self.path, texts, lowercase=self.lowercase, masked=add_mask, tags=tags)
        options: dict[str, Any] = {"size": self.size, "lowercase": self.lowercase}
        options |= {"masked": add_mask, "tags": tags, "uses_nfc": nfc or self.normalization == "nfc"}
        match self.kind:
            case "bpe" | "unigram":
                return learn_sentencepiece(
                    texts,
                    kind=self.kind,
                    character_coverage=self.character_coverage,
                    max_sentences=self.sample,
                    normalizes=self.normalization != "none",
                    **options,
                )
            case "characters":
                verbatim = isinstance(self, TextTokenizerConfig) and self.verbatim
                return learn_characters(texts, verbatim=verbatim, **options)
            case "words":
                return learn_words(texts, **options)
            case "file":
                raise AssertionError("a file has a path")


class TextTokenizerConfig(TokenizerConfig):
    """Config of a tokenizer that can keep line ends; learned from the training text, deterministically."""

    verbatim: bool = Field(default_factory=lambda given: given["kind"] == "characters")
    """whether line ends and all spaces are part of the text; true by default for characters, and not possible for other
    kinds"""

    @field_validator("verbatim")
    @classmethod
    def _check_verbatim(cls, verbatim: bool, info: ValidationInfo) -> bool:
        """Raise `ValueError` if `verbatim` is set for a tokenizer other than characters; otherwise return it."""
        kind = info.data.get("kind", "characters")
        if verbatim and kind != "characters":
            raise ValueError(f'must be false for tokenizer.kind = "{kind}", whose pieces contain no line ends')
        return verbatim


class GivenTokenizerConfig(Config):
    """The vocabulary of the trained model that `init` names."""

    kind: Literal["given"] = "given"


class GivenPairConfig(GivenTokenizerConfig):
    """The vocabularies of the trained model that `init` names; the keys are filled in from that model."""

    joint: bool = True
    """one vocabulary for both languages, or one for each; as in that model"""
    lowercase: bool = False
    """whether the text is lowercased first; as in that model"""
    normalization: Literal["nfkc", "nfc"] = "nfkc"
    """Unicode's form of the sources; as in that model"""

    @property
    def target(self) -> None:
        """None, because the tokenizer of the target is given too."""

    @property
    def target_config(self) -> Self:
        """Tokenizer config of the target."""
        return self


infer_tokenizer_kind: Final = add_inferred_kind(lambda table: "file" if "path" in table else "bpe")
"""Validator that adds the kind of a tokenizer to its table."""
WordsTokenizerConfig = Annotated[
    TokenizerConfig | GivenTokenizerConfig, Field(discriminator="kind"), infer_tokenizer_kind
]
TextVocabularyConfig = Annotated[
    TextTokenizerConfig | GivenTokenizerConfig, Field(discriminator="kind"), infer_tokenizer_kind
]
