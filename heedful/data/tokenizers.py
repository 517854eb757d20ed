"""Tokenizers: text to ids of pieces and back, by sentencepiece subwords, characters, or words.

All three normalise text first (`normalisation`); the rules are a property of each tokenizer and are stored with it.
Text without a piece becomes `UNK`, which is decoded as `⁇`.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, Self, final

import numpy as np
import sentencepiece
from jaxtyping import Bool

from heedful.atomic_io import write_atomic
from heedful.characters import remove_invisible
from heedful.data.learning_sample import (
    MAX_PART_CHARACTERS,
    MAX_SAMPLE_TEXTS,
    LearningSample,
    SampleSize,
    split_long_texts,
)
from heedful.data.normalisation import (
    build_normaliser,
    get_rule_name,
    get_word_pattern,
    join_words,
    normalise_nfc,
    require_valid_unicode,
)
from heedful.errors import DataError, RecipeError

PAD = 0
BOS = 1
EOS = 2
UNK = 3
MASK = 4
UNKNOWN_TEXT = "⁇"
FILE_FORMAT = 1
NFC_PREFIX = "composed_"
"""Prefix of the kind, in files, of tokenizers that use NFC; older versions, which would use NFKC, reject these."""

_RAW_PIECE = "<raw>"
"""Control piece that marks a vocabulary whose texts are not normalised."""
_SPECIAL_PIECES = ("<pad>", "<s>", "</s>", "<unk>")
_MASK_PIECE = "<mask>"
_SPACE = "▁"
_MASK_PLACEHOLDER = "\ue000"  # for private use, so no vocabulary knows it
_LINE_END = "↵"
_ELLIPSIS = "\u2026"  # three points by NFKC, itself by NFC


@dataclass(frozen=True)
class SpecialIds:
    """The special ids of a vocabulary.

    Padding is not among them: padding is position -1, with any id.

    Attributes:
        bos: id that begins a sequence: the decoder's start, BERT's [CLS].
        eos: id that ends a sequence, BERT's [SEP]; in GPT's texts the separator of documents.
        unk: id of text without a piece; None if everything has a piece.
        mask: id that hides a token from a masked language model; None if there is none.
        others: ids without a meaning to the model, such as another project's padding.
        document_bos: id before the first token of a language model's text, as in Llama; None if that is `eos`.
        doubles_separator: whether two texts are joined as RoBERTa joins them, `bos A eos eos B eos` in one segment,
            instead of `bos A eos B eos` in two.
        suppressed_start_ids: ids that no generated text begins with.
    """

    bos: int
    eos: int
    unk: int | None = None
    mask: int | None = None
    others: frozenset[int] = frozenset()
    document_bos: int | None = None

    @property
    def document_start(self) -> int:
        """Id before the first token of a language model's text: by default the end of the text before it."""
        return self.eos if self.document_bos is None else self.document_bos

    doubles_separator: bool = False
    suppressed_start_ids: tuple[int, ...] = ()

    @property
    def separator(self) -> tuple[int, ...]:
        """Ids between two texts that are joined."""
        return (self.eos,) * (2 if self.doubles_separator else 1)

    @property
    def skipped_ids(self) -> frozenset[int]:
        """Ids that stand for no text and are skipped in decoding; the unknown id is not among them."""
        return self.others | {special_id for special_id in (self.bos, self.eos, self.mask) if special_id is not None}

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Ids that a model must never generate: all skipped ids except the end id."""
        return tuple(sorted(self.skipped_ids - {self.eos}))


class Tokenizer(ABC):
    """Converts texts to ids below `size` and back.

    In vocabularies learned here 0 to 3 are `PAD`, `BOS`, `EOS` and `UNK`, and 4 is `MASK` if tokens can be hidden.

    Attributes:
        size: number of pieces, the special ones included.
        special: the ids that stand for no text.
    """

    _has_leading_spaces: ClassVar[bool]
    """Whether a piece that begins a word includes the space before it."""
    prefix_ids: tuple[int, ...] = ()
    """ids put before the ids of every text that is not empty, such as BART's <s>"""
    tag_ids: Mapping[str, int] = MappingProxyType({})
    """ids of tags: pieces that no text contains and that precede a text, such as the wanted language"""
    uses_nfc: bool = False
    """whether text is normalised by `normalisation.normalise_nfc`, so that generated text keeps its own characters"""
    uses_nfkc_first: bool = False
    """whether texts are normalised to NFKC first, for the source side of a vocabulary with `uses_nfc`"""
    lowercases: bool = False
    """whether texts are lowercased, whatever the vocabulary contains"""
    learned_from: SampleSize | None = None
    """numbers of the texts that pieces were learned from, after learning; None if that was not just now"""

    def __init__(self, *, size: int, special: SpecialIds) -> None:
        self.size = size
        self.special = special

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size:,} ids)"

    def with_tags(self, tags: Sequence[str]) -> Self:
        """Return a tokenizer that puts tags before every text that is not empty; raise `RecipeError` for an unknown
        tag.
        """
        for tag in tags:
            if tag not in self.tag_ids:
                known = ", ".join(self.tag_ids) or "none"
                raise RecipeError(f"{tag}: is not a tag of this vocabulary (it has: {known}); choose one of these")
        tokenizer = copy(self)
        tokenizer.prefix_ids = (*self.prefix_ids, *(self.tag_ids[tag] for tag in tags))
        return tokenizer

    def with_lowercase(self) -> Self:
        """Return a tokenizer that lowercases every text; decoding stays the same."""
        tokenizer = copy(self)
        tokenizer.lowercases = True
        return tokenizer

    def with_nfkc(self) -> Self:
        """Return a tokenizer that normalises every text to NFKC first, so that texts that look the same are the
        same source; ids stay the same.
        """
        tokenizer = copy(self)
        tokenizer.uses_nfkc_first = True
        return tokenizer

    def normalise(self, text: str) -> str:
        """Normalise a text the way this tokenizer does; raise `DataError` if it is not valid Unicode."""
        return self._normalise_text(self._preprocess(text))

    def encode(self, text: str) -> list[int]:
        """Encode a text into ids, without begin and end; raise `DataError` if it is not valid Unicode."""
        ids = self._encode_text(self._preprocess(text))
        return [*self.prefix_ids, *ids] if ids else ids

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids into text; ids that stand for no text are skipped."""
        skipped = self.special.skipped_ids
        return self._decode_ids([token_id for token_id in map(int, ids) if token_id not in skipped])

    def to_pieces(self, ids: Iterable[int]) -> list[str]:
        """Convert ids to printable pieces; a space, or the start of a word after one, is `▁`."""
        return [self._get_piece(int(token_id)) for token_id in ids]

    def decode_pieces(self, pieces: Iterable[str]) -> str:
        """Decode printable pieces, from `to_pieces` or another program with the same names, into text; an unknown
        piece becomes `unk`.
        """
        ids_by_piece = {self._get_piece(token_id): token_id for token_id in range(self.size)}
        unknown_ids = [] if self.special.unk is None else [self.special.unk]
        return self.decode(
            token_id
            for piece in pieces
            for token_id in ([ids_by_piece[piece]] if piece in ids_by_piece else unknown_ids)
        )

    def encode_with_masks(self, text: str, *, blank: str = "[MASK]") -> list[int]:
        """Encode a text and put one mask id in place of each `blank`.

        A space before a blank belongs to the hidden piece if pieces include the space before them.
        Raises `DataError` if the text is not valid Unicode, or this vocabulary has no mask.
        """
        mask = self.special.mask
        if mask is None:
            raise DataError("this vocabulary has no mask piece; take a model that was trained with one")
        marked = require_valid_unicode(text).replace(_MASK_PLACEHOLDER, " ").replace(blank, _MASK_PLACEHOLDER)
        ids: list[int] = []
        for token_id, surface in zip(self._encode_text(marked), self._split_surfaces(marked), strict=True):
            if _MASK_PLACEHOLDER not in surface:
                ids.append(token_id)
                continue
            if self._has_leading_spaces and ids and self._get_piece(ids[-1]) == _SPACE:
                ids.pop()
            ids += [mask] * surface.count(_MASK_PLACEHOLDER)
        return ids

    def get_continuation_mask(self) -> Bool[np.ndarray, " size"]:
        """Return for each id whether it continues the word of the piece before it."""
        return np.array([self._is_continuation(token_id) for token_id in range(self.size)])

    def get_surfaces(self, text: str) -> list[str]:
        """Return the part of the normalised text that each of its ids stands for, also for `UNK`, without outer
        spaces.
        """
        surfaces = [surface.strip(" ") for surface in self._split_surfaces(self._preprocess(text))]
        return [*("" for _ in self.prefix_ids), *surfaces] if surfaces else surfaces

    def _preprocess(self, text: str) -> str:
        """Check a text, and apply NFKC, NFC or lowercasing if they are switched on."""
        prepared = (
            build_normaliser(lowercase=False)(require_valid_unicode(text))
            if self.uses_nfkc_first
            else require_valid_unicode(text)
        )
        prepared = normalise_nfc(prepared) if self.uses_nfc else prepared
        return prepared.lower() if self.lowercases else prepared

    def save(self, path: Path) -> None:
        """Write the tokenizer to a file that `load_tokenizer` reads, atomically; raise `RunError` if that fails."""
        write_atomic(path, self._to_bytes())

    @property
    def sha256(self) -> str:
        """SHA-256 of the file that `save` writes."""
        return hashlib.sha256(self._to_bytes()).hexdigest()

    @abstractmethod
    def _normalise_text(self, text: str) -> str: ...

    @abstractmethod
    def _encode_text(self, text: str) -> list[int]: ...

    @abstractmethod
    def _split_surfaces(self, text: str) -> list[str]: ...

    @abstractmethod
    def _decode_ids(self, ids: list[int]) -> str: ...

    @abstractmethod
    def _get_piece(self, token_id: int) -> str: ...

    @abstractmethod
    def _is_continuation(self, token_id: int) -> bool: ...

    @abstractmethod
    def _to_bytes(self) -> bytes: ...


@final
class SentencePieceTokenizer(Tokenizer):
    """Subwords, in sentencepiece's own file format (Kudo and Richardson 2018).

    `decode` returns the normalised text if every character has a piece.
    """

    _has_leading_spaces = True

    def __init__(self, model: bytes) -> None:
        self.model, self._pieces = model, dict[int, str]()
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        size, get_piece = self._processor.vocab_size(), self._processor.id_to_piece
        has_mask = size > MASK and get_piece(MASK) == _MASK_PIECE
        num_reserved = len(get_reserved_pieces(masked=has_mask))
        self.tag_ids = {
            get_piece(token_id): token_id
            for token_id in range(num_reserved, size)
            if self._processor.is_control(token_id)
        }
        controls = dict(self.tag_ids)
        self._prepare = str if self.tag_ids.pop(_RAW_PIECE, None) is not None else remove_invisible
        self.uses_nfc = self._prepare is remove_invisible and self._normalise_text(_ELLIPSIS) == _ELLIPSIS
        super().__init__(size=size, special=build_special_ids(masked=has_mask, tags=controls))

    @property
    def is_bpe(self) -> bool:
        """Whether pieces come from byte-pair encoding and not from a unigram model: scores are then ranks."""
        return all(score.is_integer() for score in self.get_scores())

    def get_scores(self) -> list[float]:
        """Return the score of each piece: its log-probability in a unigram model, its negative rank in BPE."""
        return [float(self._processor.get_score(token_id)) for token_id in range(self.size)]

    def _normalise_text(self, text: str) -> str:
        return str(self._processor.normalize(self._prepare(text))).replace(_SPACE, " ").strip(" ")

    def _encode_text(self, text: str) -> list[int]:
        return list(self._processor.encode(self._prepare(text)))

    def _split_surfaces(self, text: str) -> list[str]:
        return [str(piece).replace(_SPACE, " ") for piece in self._processor.encode_as_pieces(self._prepare(text))]

    def _decode_ids(self, ids: list[int]) -> str:
        return str(self._processor.decode(ids))

    def _get_piece(self, token_id: int) -> str:
        if token_id not in self._pieces:  # the processor takes 2 µs for each
            self._pieces[token_id] = str(self._processor.id_to_piece(token_id))
        return self._pieces[token_id]

    def _is_continuation(self, token_id: int) -> bool:
        return not self._get_piece(token_id).startswith(_SPACE)

    def _to_bytes(self) -> bytes:
        return self.model


class PieceListTokenizer(Tokenizer):
    """Base of tokenizers with a list of counted pieces after the special ones and tags; `kind` is the way of
    splitting text in files.
    """

    _has_leading_spaces = False

    def __init__(
        self,
        pieces: Sequence[str],
        *,
        kind: str,
        lowercase: bool,
        masked: bool,
        tags: Sequence[str] = (),
        uses_nfc: bool = False,
    ) -> None:
        if uses_nfc and (lowercase or kind == "verbatim"):
            raise ValueError("text in NFC can be neither lowercased nor verbatim")
        reserved_pieces = (*get_reserved_pieces(masked=masked), *tags)
        self.tag_ids = {tag: token_id for token_id, tag in enumerate(tags, len(reserved_pieces) - len(tags))}
        self._pieces = (*reserved_pieces, *pieces)
        self._ids = {piece: i for i, piece in enumerate(pieces, len(reserved_pieces))}
        self._kind = kind
        self._lowercase = lowercase
        self.uses_nfc = uses_nfc
        super().__init__(size=len(self._pieces), special=build_special_ids(masked=masked, tags=self.tag_ids))

    def _normalise_text(self, text: str) -> str:
        return _select_normaliser(lowercase=self._lowercase, verbatim=self._kind == "verbatim", uses_nfc=self.uses_nfc)(
            text
        )

    def _encode_text(self, text: str) -> list[int]:
        return [self._ids.get(piece, UNK) for piece in self._split_surfaces(text)]

    def _get_piece(self, token_id: int) -> str:
        return self._pieces[token_id]

    def _get_known_pieces(self, ids: list[int]) -> Iterator[str]:
        """Yield the piece of each id; `⁇` for `UNK`."""
        return (UNKNOWN_TEXT if token_id == UNK else self._pieces[token_id] for token_id in ids)

    def _get_extra_record(self) -> Mapping[str, object]:
        """Return further entries of the tokenizer file."""
        return {}

    def _to_bytes(self) -> bytes:
        """Return the contents of the tokenizer file as JSON: the kind, the options and the pieces."""
        extras: dict[str, object] = {} if self.special.mask is None else {"masked": True}
        if self.tag_ids:
            extras["tags"] = list(self.tag_ids)
        kind = f"{NFC_PREFIX}{self._kind}" if self.uses_nfc else self._kind
        extras |= self._get_extra_record()
        record = {"format": FILE_FORMAT, "kind": kind, "lowercase": self._lowercase, **extras}
        return (json.dumps({**record, "pieces": list(self._ids)}, ensure_ascii=False, indent=1) + "\n").encode()


@final
class CharacterTokenizer(PieceListTokenizer):
    """Every character is a piece, spaces included.

    `decode` returns the normalised text if every character has a piece.

    Args:
        characters: the characters in the order of their ids.
        lowercase: whether case is folded first.
        verbatim: whether the text is taken as it is: not normalised, with line ends and spaces.
        masked: whether there is an id that hides a character.
        tags: further pieces that no text contains.
        uses_nfc: whether text is normalised to NFC.
    """

    def __init__(
        self,
        characters: Sequence[str],
        *,
        lowercase: bool,
        verbatim: bool = False,
        masked: bool = False,
        tags: Sequence[str] = (),
        uses_nfc: bool = False,
    ) -> None:
        kind = "verbatim" if verbatim else "characters"
        super().__init__(characters, kind=kind, lowercase=lowercase, masked=masked, tags=tags, uses_nfc=uses_nfc)

    def _split_surfaces(self, text: str) -> list[str]:
        return list(self._normalise_text(text))

    def _decode_ids(self, ids: list[int]) -> str:
        return "".join(self._get_known_pieces(ids))

    def _get_piece(self, token_id: int) -> str:
        return self._pieces[token_id].replace(" ", _SPACE).replace("\n", _LINE_END)

    def _is_continuation(self, token_id: int) -> bool:
        return not self._pieces[token_id].isspace()


@final
class WordTokenizer(PieceListTokenizer):
    """Whole words and single punctuation marks, for languages with spaces between words.

    Spaces are lost; `decode` puts them by the rules of `normalisation.join_words`.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        lowercase: bool,
        masked: bool = False,
        tags: Sequence[str] = (),
        uses_nfc: bool = False,
    ) -> None:
        super().__init__(words, kind="words", lowercase=lowercase, masked=masked, tags=tags, uses_nfc=uses_nfc)

    def _split_surfaces(self, text: str) -> list[str]:
        words: list[str] = get_word_pattern().findall(self._normalise_text(text))
        return words

    def _decode_ids(self, ids: list[int]) -> str:
        return join_words(self._get_known_pieces(ids))

    def _is_continuation(self, token_id: int) -> bool:
        return False


def learn_sentencepiece(
    texts: Iterable[str],
    *,
    kind: Literal["bpe", "unigram"],
    size: int,
    lowercase: bool,
    character_coverage: float = 1.0,
    max_sentences: int = MAX_SAMPLE_TEXTS,
    masked: bool = False,
    tags: Sequence[str] = (),
    uses_nfc: bool = False,
    normalizes: bool = True,
) -> SentencePieceTokenizer:
    """Learn a subword vocabulary of at most `size` pieces from texts with sentencepiece; the same texts and options
    give the same bytes.

    Args:
        texts: the training texts; empty ones are ignored, long ones are used whole.
        kind: byte-pair encoding (Sennrich et al. 2016) or a unigram language model (Kudo 2018).
        size: largest number of pieces, the four special ones included; a short text gives fewer.
        lowercase: whether the case of all encoded text is folded.
        character_coverage: share of the characters in the texts that must have a piece, 0.98 to 1; 0.9995
            suits languages with thousands of characters.
        max_sentences: if there are more texts, or more than 400 MiB of them, a random sample is used, so that memory
            stays bounded; `learned_from` of the result has its size.
        masked: whether one more id hides a piece.
        tags: further pieces that no text contains.
        uses_nfc: whether text is normalised to NFC instead of NFKC; nothing is lowercased then.
        normalizes: whether text is normalised at all; else only spaces are, and nothing is lowercased.

    Raises:
        DataError: the texts are empty, or do not allow this size.
        RecipeError: the character coverage is out of range.
    """
    if not 0.98 <= character_coverage <= 1:
        raise RecipeError(f"character_coverage is {character_coverage}; it must lie between 0.98 and 1")
    tags = tags if normalizes else [*tags, _RAW_PIECE]
    num_reserved = len(get_reserved_pieces(masked=masked)) + len(tags)
    if size <= num_reserved:
        raise _build_size_error(size, min_size=num_reserved + 1)
    model, errors = io.BytesIO(), list[BaseException]()
    sample = LearningSample(map(require_valid_unicode, texts), max_texts=max_sentences)
    sampled_texts = sample.release_texts()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=split_long_texts(
                map(normalise_nfc, sampled_texts) if uses_nfc else sampled_texts,
                errors,
                prepare=remove_invisible if normalizes else str,
            ),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            hard_vocab_limit=False,  # a short text has fewer
            character_coverage=character_coverage,
            normalization_rule_name="identity" if uses_nfc or not normalizes else get_rule_name(lowercase=lowercase),
            max_sentence_length=4 * MAX_PART_CHARACTERS + 1,  # in bytes; what is longer would be dropped silently
            input_sentence_size=max(MAX_SAMPLE_TEXTS, max_sentences),  # all; the number is part of the model's bytes
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            unk_id=UNK,
            unk_surface=UNKNOWN_TEXT,
            control_symbols=[*([_MASK_PIECE] if masked else []), *tags],
            num_threads=1,  # the sum of floats depends on which thread finishes first
            minloglevel=3,
        )
    except RuntimeError as error:
        if errors:
            raise errors[0] from None
        raise _build_learning_error(str(error), size=size) from None
    tokenizer = SentencePieceTokenizer(model.getvalue())
    tokenizer.learned_from = sample.size
    return tokenizer


def learn_characters(
    texts: Iterable[str],
    *,
    size: int | None,
    lowercase: bool,
    verbatim: bool = False,
    masked: bool = False,
    tags: Sequence[str] = (),
    uses_nfc: bool = False,
) -> CharacterTokenizer:
    """Learn a character vocabulary: the most frequent characters of texts, at most `size` with the special pieces, or
    all of them. `masked` adds a piece that hides a character, `tags` are further pieces that no text contains;
    `verbatim` takes texts as they are, and `uses_nfc` normalises them to NFC instead of NFKC.

    Raises `DataError` if there is no text.
    """
    normalise = _select_normaliser(lowercase=lowercase, verbatim=verbatim, uses_nfc=uses_nfc)
    counts = Counter(character for text in texts for character in normalise(require_valid_unicode(text)))
    frequent = _select_most_frequent(
        counts, size=size, num_reserved=len(get_reserved_pieces(masked=masked)) + len(tags)
    )
    return CharacterTokenizer(
        frequent, lowercase=lowercase, verbatim=verbatim, masked=masked, tags=tags, uses_nfc=uses_nfc
    )


def learn_words(
    texts: Iterable[str],
    *,
    size: int | None,
    lowercase: bool,
    masked: bool = False,
    tags: Sequence[str] = (),
    uses_nfc: bool = False,
) -> WordTokenizer:
    """Learn a word vocabulary: the most frequent words of texts, at most `size` with the special pieces, or all of
    them. `masked` adds a piece that hides a word, `tags` are further pieces that no text contains, and `uses_nfc`
    normalises texts to NFC instead of NFKC.

    Raises `DataError` if there is no text.
    """
    normalise, pattern = _select_normaliser(lowercase=lowercase, verbatim=False, uses_nfc=uses_nfc), get_word_pattern()
    counts = Counter(word for text in texts for word in pattern.findall(normalise(require_valid_unicode(text))))
    frequent = _select_most_frequent(
        counts, size=size, num_reserved=len(get_reserved_pieces(masked=masked)) + len(tags)
    )
    return WordTokenizer(frequent, lowercase=lowercase, masked=masked, tags=tags, uses_nfc=uses_nfc)


def _select_normaliser(*, lowercase: bool, verbatim: bool, uses_nfc: bool) -> Callable[[str], str]:
    """Return the function that normalises text: to NFC if `uses_nfc`, not at all if `verbatim`, else to NFKC; the last
    two fold case if `lowercase`.
    """
    if uses_nfc:
        return normalise_nfc
    if not verbatim:
        return build_normaliser(lowercase=lowercase)
    return str.lower if lowercase else str


def get_reserved_pieces(*, masked: bool) -> tuple[str, ...]:
    """Return the special pieces, with the mask if `masked`."""
    return (*_SPECIAL_PIECES, _MASK_PIECE) if masked else _SPECIAL_PIECES


def build_special_ids(*, masked: bool, tags: Mapping[str, int]) -> SpecialIds:
    """Build the special ids of a vocabulary learned here."""
    return SpecialIds(BOS, EOS, UNK, MASK if masked else None, others=frozenset((PAD, *tags.values())))


def _select_most_frequent(counts: Counter[str], *, size: int | None, num_reserved: int) -> list[str]:
    """Return the most frequent pieces by their counts, as many as fit into `size` beside the reserved ones, or all;
    raise `DataError` if there are none or no room.
    """
    if not counts:
        raise _build_no_text_error()
    size = len(counts) + num_reserved if size is None else size
    if size <= num_reserved:
        raise _build_size_error(size, min_size=num_reserved + 1)
    return sorted(counts, key=lambda piece: (-counts[piece], piece))[: size - num_reserved]


def _build_no_text_error() -> DataError:
    """Build the error for training files without text."""
    return DataError("there is no text to learn a vocabulary from; check the training files")


def _build_size_error(size: int, *, min_size: int) -> DataError:
    """Build the error for a vocabulary size that is too small for a text, which needs `min_size` pieces."""
    return DataError(
        f"a vocabulary of {size} pieces is too small for the training text, which needs {min_size}; "
        "set a size of at least that or lower the character coverage"
    )


def _build_learning_error(message: str, *, size: int) -> DataError:
    """Build the error for a message of sentencepiece's trainer, which should learn `size` pieces."""
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return _build_size_error(size, min_size=int(match[1]))
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return _build_no_text_error()
    return DataError(f"sentencepiece cannot learn {size} pieces from this text: {message.strip()}")
