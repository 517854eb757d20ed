"""From text to the ids of its pieces and back: subwords by sentencepiece, characters, or words.

All three read text as `normalisation` leaves it; by which of its rules is a property of each, and stored with it. What
has no piece becomes `UNK`, which reads `⁇`.
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

from heedful.characters import without_invisible
from heedful.data.normalisation import composed, normaliser, rules, spaced, valid, word_pattern
from heedful.errors import DataError, RecipeError
from heedful.store import write_whole

PAD = 0
BOS = 1
EOS = 2
UNK = 3
MASK = 4
UNKNOWN = "⁇"
FORMAT = 1
COMPOSED = "composed_"
"""Begins the kind, in files, of tokenizers that read NFC; older versions, which would read NFKC, refuse these."""

_SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
_MASK = "<mask>"
_SPACE = "▁"
_HOLE = "\ue000"  # for private use, so no vocabulary knows it
_LINE_END = "↵"
_ELLIPSIS = "\u2026"  # three points by NFKC, itself by NFC
# Sentencepiece keeps positions inside a word in 16 bits, so long text without spaces must come in parts.
_LONGEST_PART = 10_000


@dataclass(frozen=True)
class Special:
    """The ids with a meaning of their own in one vocabulary.

    Padding is not among them: it is position -1, whatever id stands there.

    Attributes:
        bos: what a sequence begins with: where a decoder starts, BERT's [CLS].
        eos: what a sequence ends with, BERT's [SEP]; in GPT's texts what stands between documents.
        unk: what has no piece; None where everything has one.
        mask: what hides a token from a masked language model; None where nothing is hidden.
        others: ids that mean nothing to a model, such as another project's padding.
    """

    bos: int
    eos: int
    unk: int | None = None
    mask: int | None = None
    others: frozenset[int] = frozenset()

    @property
    def silent(self) -> frozenset[int]:
        """All that no text is made of; what is unknown has a mark and is read aloud."""
        return self.others | {number for number in (self.bos, self.eos, self.mask) if number is not None}

    @property
    def unspeakable(self) -> tuple[int, ...]:
        """What a model must never write: all that is silent but the end."""
        return tuple(sorted(self.silent - {self.eos}))


class Tokenizer(ABC):
    """Text as ids below `size`; some have a meaning of their own.

    In vocabularies learned here 0 to 3 are `PAD`, `BOS`, `EOS` and `UNK`, and 4 is `MASK` where tokens can be hidden.

    Attributes:
        size: how many pieces there are, the special ones included.
        special: the ids that stand for no text.
    """

    _carries_space: ClassVar[bool]
    """Whether a piece that begins a word has the space before it in itself."""
    opening: tuple[int, ...] = ()
    """what is put before the ids of every text that is not empty, as BART's <s>"""
    tags: Mapping[str, int] = MappingProxyType({})
    """ids of pieces that no text has: what is said of a text stands before it in these, such as the language wanted"""
    composes: bool = False
    """whether text is read as `normalisation.composed` has it, so that what is written keeps its own marks"""
    compatible: bool = False
    """whether texts are read in NFKC first, whatever the vocabulary has: a source side of one that `composes`"""
    folds: bool = False
    """whether texts are read in lower case, whatever the vocabulary has"""

    def __init__(self, *, size: int, special: Special) -> None:
        self.size = size
        self.special = special

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size:,} ids)"

    def opened(self, tags: Sequence[str]) -> Self:
        """A tokenizer that puts tags before every text that is not empty; `RecipeError` where there is no such tag."""
        for tag in tags:
            if tag not in self.tags:
                known = ", ".join(self.tags) or "none"
                raise RecipeError(f"{tag}: no tag of this vocabulary (it has: {known}); choose one of these")
        other = copy(self)
        other.opening = (*self.opening, *(self.tags[tag] for tag in tags))
        return other

    def folded(self) -> Self:
        """A tokenizer that reads every text in lower case; what it makes of ids stays the same."""
        other = copy(self)
        other.folds = True
        return other

    def for_sources(self) -> Self:
        """A tokenizer that reads every text in NFKC, so that what looks alike is one source; its ids stay the same."""
        other = copy(self)
        other.compatible = True
        return other

    def normalise(self, text: str) -> str:
        """The text as this tokenizer reads it; `DataError` where it is not valid Unicode."""
        return self._normalise(self._readable(text))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin and end; `DataError` where it is not valid Unicode."""
        ids = self._encode(self._readable(text))
        return [*self.opening, *ids] if ids else ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, silent about those that stand for none."""
        silent = self.special.silent
        return self._decode([number for number in map(int, ids) if number not in silent])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id as something to look at; a space, or the start of a word after one, is `▁`."""
        return [self._piece(int(number)) for number in ids]

    def assemble(self, pieces: Iterable[str]) -> str:
        """The text of what `pieces` gave, or another program that knows their names; what is no piece is unknown."""
        numbers = {self._piece(number): number for number in range(self.size)}
        unknown = [] if self.special.unk is None else [self.special.unk]
        return self.decode(number for piece in pieces for number in ([numbers[piece]] if piece in numbers else unknown))

    def cloze(self, text: str, *, blank: str = "[MASK]") -> list[int]:
        """The ids of a text in which `blank` stands for what is hidden: one mask each.

        A space in front of a blank belongs to what is hidden where pieces carry the space before them.
        `DataError` where the text is not valid Unicode, or this vocabulary has no mask.
        """
        mask = self.special.mask
        if mask is None:
            raise DataError("this vocabulary has no piece that hides others; take a model that was trained with one")
        holed = valid(text).replace(_HOLE, " ").replace(blank, _HOLE)
        ids: list[int] = []
        for number, surface in zip(self._encode(holed), self._surfaces(holed), strict=True):
            if _HOLE not in surface:
                ids.append(number)
                continue
            if self._carries_space and ids and self._piece(ids[-1]) == _SPACE:
                ids.pop()
            ids += [mask] * surface.count(_HOLE)
        return ids

    def continues(self) -> Bool[np.ndarray, " size"]:
        """Of each id, whether it goes on with the word of the piece before it."""
        return np.array([self._continues(number) for number in range(self.size)])

    def surfaces(self, text: str) -> list[str]:
        """What of the normalised text each of its ids stands for, also where that is `UNK`; without spaces around."""
        found = [surface.strip(" ") for surface in self._surfaces(self._readable(text))]
        return [*("" for _ in self.opening), *found] if found else found

    def _readable(self, text: str) -> str:
        read = normaliser(lowercase=False)(valid(text)) if self.compatible else valid(text)
        read = composed(read) if self.composes else read
        return read.lower() if self.folds else read

    def save(self, path: Path) -> None:
        """One file that `load_tokenizer` reads, written whole or not at all; `RunError` where it cannot."""
        write_whole(path, self._contents())

    @property
    def sha256(self) -> str:
        """Of that file."""
        return hashlib.sha256(self._contents()).hexdigest()

    @abstractmethod
    def _normalise(self, text: str) -> str: ...

    @abstractmethod
    def _encode(self, text: str) -> list[int]: ...

    @abstractmethod
    def _surfaces(self, text: str) -> list[str]: ...

    @abstractmethod
    def _decode(self, ids: list[int]) -> str: ...

    @abstractmethod
    def _piece(self, number: int) -> str: ...

    @abstractmethod
    def _continues(self, number: int) -> bool: ...

    @abstractmethod
    def _contents(self) -> bytes: ...


@final
class SentencePiece(Tokenizer):
    """Subwords, in sentencepiece's own file format (Kudo and Richardson 2018).

    `decode` gives back the normalised text wherever every character has a piece.
    """

    _carries_space = True

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        size, name = self._processor.vocab_size(), self._processor.id_to_piece
        masked = size > MASK and name(MASK) == _MASK
        first = len(_reserved(masked=masked))
        self.tags = {name(number): number for number in range(first, size) if self._processor.is_control(number)}
        self.composes = self._normalise(_ELLIPSIS) == _ELLIPSIS
        super().__init__(size=size, special=_special(masked=masked, tags=self.tags))

    def _normalise(self, text: str) -> str:
        return str(self._processor.normalize(without_invisible(text))).replace(_SPACE, " ").strip(" ")

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._processor.encode(without_invisible(text))
        return ids

    def _surfaces(self, text: str) -> list[str]:
        return [str(piece).replace(_SPACE, " ") for piece in self._processor.encode_as_pieces(without_invisible(text))]

    def _decode(self, ids: list[int]) -> str:
        return str(self._processor.decode(ids))

    def _piece(self, number: int) -> str:
        return str(self._processor.id_to_piece(number))

    def _continues(self, number: int) -> bool:
        return not self._piece(number).startswith(_SPACE)

    def _contents(self) -> bytes:
        return self.model


class _Listed(Tokenizer):
    """Pieces that were counted, behind the special ones and tags; `kind` says in files how text is cut."""

    _carries_space = False

    def __init__(
        self,
        pieces: Sequence[str],
        *,
        kind: str,
        lowercase: bool,
        masked: bool,
        tags: Sequence[str] = (),
        composes: bool = False,
    ) -> None:
        if composes and (lowercase or kind == "verbatim"):
            raise ValueError("text in NFC is neither lowercased nor taken as it is")
        first = (*_reserved(masked=masked), *tags)
        self.tags = {tag: number for number, tag in enumerate(tags, len(first) - len(tags))}
        self._pieces = (*first, *pieces)
        self._ids = {piece: i for i, piece in enumerate(pieces, len(first))}
        self._kind = kind
        self._lowercase = lowercase
        self.composes = composes
        super().__init__(size=len(self._pieces), special=_special(masked=masked, tags=self.tags))

    def _normalise(self, text: str) -> str:
        return _reading(lowercase=self._lowercase, verbatim=self._kind == "verbatim", composes=self.composes)(text)

    def _encode(self, text: str) -> list[int]:
        return [self._ids.get(piece, UNK) for piece in self._surfaces(text)]

    def _piece(self, number: int) -> str:
        return self._pieces[number]

    def _known(self, ids: list[int]) -> Iterator[str]:
        return (UNKNOWN if number == UNK else self._pieces[number] for number in ids)

    def _contents(self) -> bytes:
        more: dict[str, object] = {} if self.special.mask is None else {"masked": True}
        if self.tags:
            more["tags"] = list(self.tags)
        kind = f"{COMPOSED}{self._kind}" if self.composes else self._kind
        record = {"format": FORMAT, "kind": kind, "lowercase": self._lowercase, **more}
        return (json.dumps({**record, "pieces": list(self._ids)}, ensure_ascii=False, indent=1) + "\n").encode()


@final
class Characters(_Listed):
    """Every character is a piece, the space too.

    `decode` gives back the normalised text wherever every character has a piece.

    Args:
        characters: in the order of their ids.
        lowercase: whether case is folded first.
        verbatim: the text is taken as it is: nothing is normalised, and line ends and spaces count.
        masked: whether there is an id that hides a character.
        tags: further pieces, which no text has.
        composes: whether text is read in NFC.
    """

    def __init__(
        self,
        characters: Sequence[str],
        *,
        lowercase: bool,
        verbatim: bool = False,
        masked: bool = False,
        tags: Sequence[str] = (),
        composes: bool = False,
    ) -> None:
        kind = "verbatim" if verbatim else "characters"
        super().__init__(characters, kind=kind, lowercase=lowercase, masked=masked, tags=tags, composes=composes)

    def _surfaces(self, text: str) -> list[str]:
        return list(self._normalise(text))

    def _decode(self, ids: list[int]) -> str:
        return "".join(self._known(ids))

    def _piece(self, number: int) -> str:
        return self._pieces[number].replace(" ", _SPACE).replace("\n", _LINE_END)

    def _continues(self, number: int) -> bool:
        return not self._pieces[number].isspace()


@final
class Words(_Listed):
    """Whole words and single punctuation marks, for languages with spaces between words.

    Where spaces stood is forgotten; `decode` puts them by the rules of `normalisation.spaced`.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        lowercase: bool,
        masked: bool = False,
        tags: Sequence[str] = (),
        composes: bool = False,
    ) -> None:
        super().__init__(words, kind="words", lowercase=lowercase, masked=masked, tags=tags, composes=composes)

    def _surfaces(self, text: str) -> list[str]:
        words: list[str] = word_pattern().findall(self._normalise(text))
        return words

    def _decode(self, ids: list[int]) -> str:
        return spaced(self._known(ids))

    def _continues(self, number: int) -> bool:
        return False


def learn_sentencepiece(
    texts: Iterable[str],
    *,
    kind: Literal["bpe", "unigram"],
    size: int,
    lowercase: bool,
    character_coverage: float = 1.0,
    sentences: int = 5_000_000,
    masked: bool = False,
    tags: Sequence[str] = (),
    composes: bool = False,
) -> SentencePiece:
    """Subwords of some texts; the same texts and options give the same bytes.

    Args:
        texts: what to learn from; empty ones teach nothing, long ones are read whole.
        kind: byte-pair encoding (Sennrich et al. 2016) or a unigram language model (Kudo 2018).
        size: how many pieces at most, the four special ones included; a short text has fewer.
        lowercase: fold the case of everything that is ever encoded.
        character_coverage: share of the characters in the texts that must have a piece, 0.98 to 1; 0.9995
            suits languages with thousands of characters.
        sentences: of more texts than this an even sample is used, so that memory stays bounded.
        masked: whether one more id hides a piece.
        tags: further pieces, which no text has.
        composes: whether text is read in NFC, not in NFKC; nothing is lowercased then.

    Raises:
        DataError: there is nothing to read in the texts, or they do not allow this size.
        RecipeError: the character coverage is out of range.
    """
    if not 0.98 <= character_coverage <= 1:
        raise RecipeError(f"character_coverage is {character_coverage}; it must lie between 0.98 and 1")
    reserved = len(_reserved(masked=masked)) + len(tags)
    if size <= reserved:
        raise _too_small(size, smallest=reserved + 1)
    model, failed = io.BytesIO(), list[BaseException]()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_parts(map(composed, map(valid, texts)) if composes else texts, failed),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            hard_vocab_limit=False,  # a short text has fewer
            character_coverage=character_coverage,
            normalization_rule_name="identity" if composes else rules(lowercase=lowercase),
            max_sentence_length=4 * _LONGEST_PART + 1,  # in bytes; what is longer would be dropped silently
            input_sentence_size=sentences,
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            unk_id=UNK,
            unk_surface=UNKNOWN,
            control_symbols=[*([_MASK] if masked else []), *tags],
            num_threads=1,  # the sum of floats depends on who finishes first
            minloglevel=3,
        )
    except RuntimeError as error:
        if failed:
            raise failed[0] from None
        raise _learning_error(str(error), size=size) from None
    return SentencePiece(model.getvalue())


def learn_characters(
    texts: Iterable[str],
    *,
    size: int | None,
    lowercase: bool,
    verbatim: bool = False,
    masked: bool = False,
    tags: Sequence[str] = (),
    composes: bool = False,
) -> Characters:
    """The most frequent characters of some texts: at most `size` with the special pieces, or all of them.

    `DataError` where there is nothing to read.
    """
    read = _reading(lowercase=lowercase, verbatim=verbatim, composes=composes)
    counts = Counter(character for text in texts for character in read(valid(text)))
    found = _most_frequent(counts, size=size, reserved=len(_reserved(masked=masked)) + len(tags))
    return Characters(found, lowercase=lowercase, verbatim=verbatim, masked=masked, tags=tags, composes=composes)


def learn_words(
    texts: Iterable[str],
    *,
    size: int | None,
    lowercase: bool,
    masked: bool = False,
    tags: Sequence[str] = (),
    composes: bool = False,
) -> Words:
    """The most frequent words of some texts: at most `size` with the special pieces, or all of them.

    `DataError` where there is nothing to read.
    """
    normalise, pattern = _reading(lowercase=lowercase, verbatim=False, composes=composes), word_pattern()
    counts = Counter(word for text in texts for word in pattern.findall(normalise(valid(text))))
    found = _most_frequent(counts, size=size, reserved=len(_reserved(masked=masked)) + len(tags))
    return Words(found, lowercase=lowercase, masked=masked, tags=tags, composes=composes)


def _reading(*, lowercase: bool, verbatim: bool, composes: bool) -> Callable[[str], str]:
    if composes:
        return composed
    if not verbatim:
        return normaliser(lowercase=lowercase)
    return str.lower if lowercase else str


def _reserved(*, masked: bool) -> tuple[str, ...]:
    return (*_SPECIAL, _MASK) if masked else _SPECIAL


def _special(*, masked: bool, tags: Mapping[str, int]) -> Special:
    return Special(BOS, EOS, UNK, MASK if masked else None, others=frozenset((PAD, *tags.values())))


def _most_frequent(counts: Counter[str], *, size: int | None, reserved: int) -> list[str]:
    if not counts:
        raise _nothing()
    size = len(counts) + reserved if size is None else size
    if size <= reserved:
        raise _too_small(size, smallest=reserved + 1)
    return sorted(counts, key=lambda piece: (-counts[piece], piece))[: size - reserved]


def _nothing() -> DataError:
    return DataError("there is no text to learn a vocabulary from; check the training files")


def _too_small(size: int, *, smallest: int) -> DataError:
    return DataError(
        f"a vocabulary of {size} pieces is too small for the training text, which needs {smallest}; "
        "set a size of at least that or lower the character coverage"
    )


def _learning_error(message: str, *, size: int) -> DataError:
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return _too_small(size, smallest=int(found[1]))
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return _nothing()
    return DataError(f"sentencepiece cannot learn {size} pieces from this text: {message.strip()}")


def _parts(texts: Iterable[str], failed: list[BaseException]) -> Iterator[str]:
    """The texts in parts; what is raised is kept in `failed`, since sentencepiece makes its own of every exception."""
    try:
        for text in map(without_invisible, map(valid, texts)):
            for start in range(0, len(text), _LONGEST_PART):
                yield text[start : start + _LONGEST_PART]
    except BaseException as error:
        failed.append(error)
        raise
