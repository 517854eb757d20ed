"""From text to the ids of its pieces and back: subwords by sentencepiece, characters, or words.

All three read text as `normalisation` leaves it. What has no piece becomes `UNK`, which reads `⁇`.
"""

from __future__ import annotations

import io
import json
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, final

import sentencepiece

from heedful.data.normalisation import normaliser, rules, spaced, valid, word_pattern
from heedful.errors import DataError, RecipeError, RunError

PAD = 0
BOS = 1
EOS = 2
UNK = 3

_SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
_SILENT = frozenset((PAD, BOS, EOS))
UNKNOWN = "⁇"
_SPACE = "▁"
_LINE_END = "↵"
_FORMAT = 1
# Sentencepiece keeps positions inside a word in 16 bits, so long text without spaces must come in parts.
_LONGEST_PART = 10_000


class Tokenizer(ABC):
    """Text as ids below `size`, of which 0 to 3 are `PAD`, `BOS`, `EOS` and `UNK`."""

    def __init__(self, *, size: int) -> None:
        self._size = size

    @property
    def size(self) -> int:
        """How many pieces there are, the four special ones included."""
        return self._size

    def normalise(self, text: str) -> str:
        """The text as this tokenizer reads it; `DataError` where it is not valid Unicode."""
        return self._normalise(valid(text))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without `BOS` and `EOS`; `DataError` where it is not valid Unicode."""
        return self._encode(valid(text))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, silent about `PAD`, `BOS` and `EOS`."""
        return self._decode([number for number in map(int, ids) if number not in _SILENT])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id as something to look at; a space, or the start of a word after one, is `▁`."""
        return [self._piece(int(number)) for number in ids]

    def surfaces(self, text: str) -> list[str]:
        """What of the normalised text each of its ids stands for, also where that is `UNK`; without spaces around."""
        return [surface.strip(" ") for surface in self._surfaces(valid(text))]

    def save(self, path: Path) -> None:
        """One file that `load_tokenizer` reads, written whole or not at all; `RunError` where it cannot."""
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            try:
                with beside.open("wb") as file:
                    file.write(self._contents())
                    file.flush()
                    os.fsync(file.fileno())
                beside.replace(path)
            finally:
                beside.unlink(missing_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"{path}: cannot be written ({reason}); free space or write elsewhere") from None

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
    def _contents(self) -> bytes: ...


@final
class SentencePiece(Tokenizer):
    """Subwords, in sentencepiece's own file format (Kudo and Richardson 2018).

    `decode` gives back the normalised text wherever every character has a piece.
    """

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        super().__init__(size=self._processor.vocab_size())

    def _normalise(self, text: str) -> str:
        return str(self._processor.normalize(text)).replace(_SPACE, " ").strip(" ")

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._processor.encode(text)
        return ids

    def _surfaces(self, text: str) -> list[str]:
        return [str(piece).replace(_SPACE, " ") for piece in self._processor.encode_as_pieces(text)]

    def _decode(self, ids: list[int]) -> str:
        return str(self._processor.decode(ids))

    def _piece(self, number: int) -> str:
        return str(self._processor.id_to_piece(number))

    def _contents(self) -> bytes:
        return self._model


@final
class Characters(Tokenizer):
    """Every character is a piece, the space too.

    `decode` gives back the normalised text wherever every character has a piece.

    Args:
        characters: in the order of their ids.
        lowercase: whether case is folded first.
        verbatim: the text is taken as it is: nothing is normalised, and line ends and spaces count.
    """

    def __init__(self, characters: Sequence[str], *, lowercase: bool, verbatim: bool = False) -> None:
        self._pieces = (*_SPECIAL, *characters)
        self._ids = {character: i for i, character in enumerate(characters, len(_SPECIAL))}
        self._lowercase = lowercase
        self._verbatim = verbatim
        super().__init__(size=len(self._pieces))

    def _normalise(self, text: str) -> str:
        return _reading(lowercase=self._lowercase, verbatim=self._verbatim)(text)

    def _encode(self, text: str) -> list[int]:
        return [self._ids.get(character, UNK) for character in self._normalise(text)]

    def _surfaces(self, text: str) -> list[str]:
        return list(self._normalise(text))

    def _decode(self, ids: list[int]) -> str:
        return "".join(UNKNOWN if number == UNK else self._pieces[number] for number in ids)

    def _piece(self, number: int) -> str:
        return self._pieces[number].replace(" ", _SPACE).replace("\n", _LINE_END)

    def _contents(self) -> bytes:
        kind = "verbatim" if self._verbatim else "characters"
        return _as_json(kind, list(self._ids), lowercase=self._lowercase)


@final
class Words(Tokenizer):
    """Whole words and single punctuation marks, for languages with spaces between words.

    Where spaces stood is forgotten; `decode` puts them by the rules of `normalisation.spaced`.
    """

    def __init__(self, words: Sequence[str], *, lowercase: bool) -> None:
        self._pieces = (*_SPECIAL, *words)
        self._ids = {word: i for i, word in enumerate(words, len(_SPECIAL))}
        self._lowercase = lowercase
        super().__init__(size=len(self._pieces))

    def _normalise(self, text: str) -> str:
        return normaliser(lowercase=self._lowercase)(text)

    def _encode(self, text: str) -> list[int]:
        return [self._ids.get(word, UNK) for word in self._surfaces(text)]

    def _surfaces(self, text: str) -> list[str]:
        words: list[str] = word_pattern().findall(self._normalise(text))
        return words

    def _decode(self, ids: list[int]) -> str:
        return spaced(UNKNOWN if number == UNK else self._pieces[number] for number in ids)

    def _piece(self, number: int) -> str:
        return self._pieces[number]

    def _contents(self) -> bytes:
        return _as_json("words", list(self._ids), lowercase=self._lowercase)


def learn_sentencepiece(
    texts: Iterable[str],
    *,
    kind: Literal["bpe", "unigram"],
    size: int,
    lowercase: bool,
    character_coverage: float = 1.0,
    sentences: int = 5_000_000,
) -> SentencePiece:
    """Subwords of some texts; the same texts and options give the same bytes.

    Args:
        texts: what to learn from; empty ones teach nothing, long ones are read whole.
        kind: byte-pair encoding (Sennrich et al. 2016) or a unigram language model (Kudo 2018).
        size: how many pieces, the four special ones included.
        lowercase: fold the case of everything that is ever encoded.
        character_coverage: share of the characters in the texts that must have a piece, 0.98 to 1; 0.9995
            suits languages with thousands of characters.
        sentences: of more texts than this an even sample is used, so that memory stays bounded.

    Raises:
        DataError: there is nothing to read in the texts, or they do not allow this size.
        RecipeError: the character coverage is out of range.
    """
    if not 0.98 <= character_coverage <= 1:
        raise RecipeError(f"character_coverage is {character_coverage}; it must lie between 0.98 and 1")
    if size <= len(_SPECIAL):
        raise _too_small(size, smallest=len(_SPECIAL) + 1)
    parts = _Honest(part for text in texts for part in _parts(valid(text)))
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=parts,
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            character_coverage=character_coverage,
            normalization_rule_name=rules(lowercase=lowercase),
            max_sentence_length=4 * _LONGEST_PART + 1,  # in bytes; what is longer would be dropped silently
            input_sentence_size=sentences,
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            unk_id=UNK,
            unk_surface=UNKNOWN,
            num_threads=1,  # the sum of floats depends on who finishes first
            minloglevel=3,
        )
    except RuntimeError as error:
        if parts.error is not None:
            raise parts.error from None
        raise _learning_error(str(error), size=size) from None
    return SentencePiece(model.getvalue())


def learn_characters(texts: Iterable[str], *, size: int | None, lowercase: bool, verbatim: bool = False) -> Characters:
    """The most frequent characters of some texts: `size` with the four special pieces, or all of them.

    `DataError` where there is nothing to read, or fewer than `size`.
    """
    read = _reading(lowercase=lowercase, verbatim=verbatim)
    counts = Counter(character for text in texts for character in read(valid(text)))
    return Characters(_most_frequent(counts, size=size), lowercase=lowercase, verbatim=verbatim)


def learn_words(texts: Iterable[str], *, size: int | None, lowercase: bool) -> Words:
    """The most frequent words of some texts: `size` with the four special pieces, or all of them.

    `DataError` where there is nothing to read, or fewer than `size`.
    """
    normalise, pattern = normaliser(lowercase=lowercase), word_pattern()
    counts = Counter(word for text in texts for word in pattern.findall(normalise(valid(text))))
    return Words(_most_frequent(counts, size=size), lowercase=lowercase)


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer that `save` wrote; `RunError` where there is none, or a damaged or unknown one."""
    try:
        contents = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); is the run complete?") from None
    return _from_json(contents, path=path) if contents[:1] == b"{" else _from_model(contents, path=path)


def _from_model(contents: bytes, *, path: Path) -> SentencePiece:
    if not contents:  # which sentencepiece takes for a model
        raise _damaged(path)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=contents)
    except (RuntimeError, OSError, ValueError):
        raise _damaged(path) from None
    found = (processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id())
    if found != (PAD, BOS, EOS, UNK):
        raise RunError(
            f"{path}: padding, begin, end and unknown have the ids {found} where heedful needs "
            f"{(PAD, BOS, EOS, UNK)}; learn the model with heedful"
        )
    return SentencePiece(contents)


def _from_json(contents: bytes, *, path: Path) -> Characters | Words:
    try:
        record: dict[str, Any] = json.loads(contents)
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    if record.get("format") != _FORMAT:
        raise RunError(
            f"{path}: tokenizer format {record.get('format')!r}, but this heedful reads {_FORMAT}; use one "
            "that knows it or learn the tokenizer again"
        )
    lowercase, pieces = record.get("lowercase"), record.get("pieces")
    if not (
        isinstance(lowercase, bool)
        and isinstance(pieces, list)
        and all(isinstance(piece, str) and piece for piece in pieces)
        and len(set(pieces)) == len(pieces)
    ):
        raise _damaged(path)
    match record.get("kind"):
        case "characters" | "verbatim" as kind:
            return Characters(pieces, lowercase=lowercase, verbatim=kind == "verbatim")
        case "words":
            return Words(pieces, lowercase=lowercase)
        case _:
            raise _damaged(path)


def _damaged(path: Path) -> RunError:
    return RunError(f"{path}: not a tokenizer, or a damaged one; restore it or learn it again")


def _reading(*, lowercase: bool, verbatim: bool) -> Callable[[str], str]:
    if not verbatim:
        return normaliser(lowercase=lowercase)
    return str.lower if lowercase else str


def _as_json(kind: str, pieces: list[str], *, lowercase: bool) -> bytes:
    record = {"format": _FORMAT, "kind": kind, "lowercase": lowercase, "pieces": pieces}
    return (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode()


def _most_frequent(counts: Counter[str], *, size: int | None) -> list[str]:
    if not counts:
        raise _nothing()
    largest = len(counts) + len(_SPECIAL)
    size = largest if size is None else size
    if size > largest:
        raise _too_large(size, largest=largest)
    if size <= len(_SPECIAL):
        raise _too_small(size, smallest=len(_SPECIAL) + 1)
    return sorted(counts, key=lambda piece: (-counts[piece], piece))[: size - len(_SPECIAL)]


def _nothing() -> DataError:
    return DataError("there is no text to learn a vocabulary from; check the training files")


def _too_large(size: int, *, largest: int) -> DataError:
    return DataError(
        f"a vocabulary of {size} pieces is more than the training text allows, which is {largest}; "
        "set a size of at most that or add text"
    )


def _too_small(size: int, *, smallest: int) -> DataError:
    return DataError(
        f"a vocabulary of {size} pieces is too small for the training text, which needs {smallest}; "
        "set a size of at least that or lower the character coverage"
    )


def _learning_error(message: str, *, size: int) -> DataError:
    if found := re.search(r"set it to a value <= (\d+)", message):
        return _too_large(size, largest=int(found[1]))
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return _too_small(size, smallest=int(found[1]))
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return _nothing()
    return DataError(f"sentencepiece cannot learn {size} pieces from this text: {message.strip()}")


def _parts(text: str) -> Iterator[str]:
    for start in range(0, len(text), _LONGEST_PART):
        yield text[start : start + _LONGEST_PART]


class _Honest:
    """An iterator that keeps what it raised, because sentencepiece turns every exception into its own."""

    def __init__(self, items: Iterator[str]) -> None:
        self._items = items
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return next(self._items)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise
