"""Vocabularies that other projects learned, with their ids: WordPiece, byte-level BPE, Marian's sentencepiece."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Final, Self, final

import sentencepiece

from heedful.data.normalisation import valid
from heedful.data.tokenizers import FORMAT, UNKNOWN, Special, Tokenizer
from heedful.errors import DataError, MissingExtraError

_SPACE: Final = "▁"
_LANGUAGE: Final = re.compile(r">>([^<>]+)<<")
_MOST_UNUSED: Final = 2**20
"""Ids of a vocabulary that have no piece; tables are made a little larger than their vocabularies, never so much."""
_SPOKEN: Final = {" ": _SPACE, "\n": "↵", "\t": "⇥"}


def _require_ids(ids: Mapping[str, int], *, file: str) -> None:
    """A `DataError` where these are not pieces with their ids."""
    if not ids or not all(
        isinstance(piece, str) and type(number) is int and number >= 0 for piece, number in ids.items()
    ):
        raise DataError(f"{file}: is not a list of pieces with their ids; take another copy of this file")


def _require_special(special: Special, opening: tuple[int, ...], *, size: int, file: str) -> None:
    """A `DataError` where an id with a meaning is not one of the vocabulary's."""
    roles = (special.bos, special.eos, special.unk, special.mask)
    for number in (*(each for each in roles if each is not None), *special.others, *opening):
        if type(number) is not int or not 0 <= number < size:
            raise DataError(
                f"{file}: gives the id {ascii(number)[:40]} a meaning, and there are {size:,}; take a complete copy"
            )
    if special.bos is None or special.eos is None:
        raise DataError(f"{file}: has no piece that begins or ends a text; take a complete copy of it")


class _Foreign(Tokenizer):
    """What a vocabulary of another project has: ids that it does not use, and special ones anywhere.

    `DataError` where an id is not below `size`.

    Args:
        ids: of its pieces.
        file: where they stand.
        size: entries of the model's tables, which may be more than there are pieces; as many unless given.
        special: their ids.
        opening: ids that every text begins with.
    """

    _padding: ClassVar[tuple[str, ...]]

    def __init__(
        self, ids: Mapping[str, int], *, file: str, size: int | None, special: Special, opening: tuple[int, ...] = ()
    ) -> None:
        _require_ids(ids, file=file)
        known = max(ids.values()) + 1
        size = known if size is None else size
        if size < known:
            raise DataError(
                f"{file}: has ids up to {known - 1}, but the model has only {size} of them; take the vocabulary that "
                "belongs to the model"
            )
        if size - len(set(ids.values())) > _MOST_UNUSED:
            raise DataError(
                f"{file}: has {len(ids):,} pieces, and the model {size:,} ids; take the vocabulary that belongs to the "
                "model"
            )
        _require_special(special, opening, size=size, file=file)
        super().__init__(size=size, special=replace(special, others=special.others | frozenset(range(known, size))))
        self.ids = dict(ids)
        self.known = known
        self.opening = opening

    @property
    def pad(self) -> int | None:
        """The id of padding, where the vocabulary has one."""
        return next((self.ids[name] for name in self._padding if name in self.ids), None)

    def _record(self, kind: str, **content: Any) -> bytes:
        special = self.special
        record = {
            "format": FORMAT,
            "kind": kind,
            "size": self.size,
            "special": {name: getattr(special, name) for name in ("bos", "eos", "unk", "mask")},
            "others": sorted(number for number in special.others if number < self.known),
            "opening": list(self.opening),
            **content,
        }
        return (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode()


@final
class HuggingFace(_Foreign):
    """A vocabulary of the library `tokenizers`: WordPiece (Wu et al. 2016) or BPE of bytes (Radford et al. 2019).

    No string is special in a text: `[SEP]` is read as it is written, letter by letter if need be.

    Args:
        content: of tokenizer.json.
        special: their ids.
        size: entries of the model's tables; as many as there are pieces unless given.
        opening: ids that every text begins with.

    Raises:
        MissingExtraError: the library is not installed.
        DataError: it cannot read the content, or it is of another kind than these two.
    """

    _padding = ("[PAD]", "<pad>")

    def __init__(
        self, content: Mapping[str, Any], *, special: Special, size: int | None = None, opening: tuple[int, ...] = ()
    ) -> None:
        try:
            import tokenizers
        except ImportError:
            raise MissingExtraError(
                "vocabularies of Hugging Face need the package tokenizers: pip install 'heedful[hf]'"
            ) from None
        self.content = {**content, "truncation": None, "padding": None}
        self.kind = _kind(content)
        self._tokenizer = _called(tokenizers.Tokenizer.from_str, json.dumps(self.content))
        self._tokenizer.encode_special_tokens = True
        ids = _called(self._tokenizer.get_vocab, with_added_tokens=True)
        super().__init__(ids, file="tokenizer.json", size=size, special=special, opening=opening)

    @property
    def names(self) -> dict[str, str]:
        """What the special pieces are called, by the keys of tokenizer_config.json."""
        special, pieces = self.special, self._tokenizer.id_to_token
        roles = {"bos": special.bos, "eos": special.eos, "unk": special.unk, "mask": special.mask, "pad": self.pad}
        if self.kind == "WordPiece":
            roles = {"cls": roles.pop("bos"), "sep": roles.pop("eos"), **roles}
        elif self.opening:
            roles["bos"] = self.opening[0]
        return {f"{role}_token": str(pieces(number)) for role, number in roles.items() if number is not None}

    @property
    def _carries_space(self) -> bool:  # type: ignore[override]  # depends on the content here
        return self.kind == "BPE"

    def cloze(self, text: str, *, blank: str = "[MASK]") -> list[int]:
        """The ids of a text in which `blank` stands for what is hidden: one mask each; see `Tokenizer.cloze`."""
        mask = self.special.mask
        if mask is None:
            raise DataError("this vocabulary has no piece that hides others; take a model that was trained with one")
        first, *others = valid(text).split(blank)
        ids = self._encode(self._before(first) if others else first)
        for number, part in enumerate(others, 1):
            ids += [mask, *self._encode(part if number == len(others) else self._before(part))]
        return ids

    def _before(self, text: str) -> str:
        """What stands before something hidden, to which the space between them belongs where pieces have spaces."""
        return text.rstrip(" ") if self.kind == "BPE" else text

    def _normalise(self, text: str) -> str:
        normalizer = self._tokenizer.normalizer
        return text if normalizer is None else str(_called(normalizer.normalize_str, text))

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = _called(self._tokenizer.encode, text, add_special_tokens=False).ids
        return ids

    def _surfaces(self, text: str) -> list[str]:
        read = self._normalise(text)
        found, last = [], 0
        for start, stop in _called(self._tokenizer.encode, read, add_special_tokens=False).offsets:
            # bytes of one character share its place; the first has it
            found.append(read[max(start, last) : stop])
            last = max(last, stop)
        return found

    def _decode(self, ids: list[int]) -> str:
        return str(_called(self._tokenizer.decode, ids, skip_special_tokens=False))

    def _piece(self, number: int) -> str:
        if number >= self.known:
            return f"<{number}>"
        piece = str(self._tokenizer.id_to_token(number))
        if self.kind == "WordPiece" or number in self.special.silent:
            return piece
        return self._spoken(piece)

    def _spoken(self, piece: str) -> str:
        """A piece of bytes as text; bytes that are no whole character by their numbers."""
        if any(letter not in self._bytes for letter in piece):
            return piece  # was added later, as it is
        raw = bytes(self._bytes[letter] for letter in piece)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return "".join(chr(byte) if 32 < byte < 127 else f"\\x{byte:02x}" for byte in raw)
        return "".join(_SPOKEN.get(c, c if c.isprintable() else f"\\x{ord(c):02x}") for c in text)

    @cached_property
    def _bytes(self) -> dict[str, int]:
        """GPT-2's alphabet: printable bytes are their own letters, the others follow behind 255 in their order."""
        own = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in set(own)]
        return {chr(byte): byte for byte in own} | {chr(256 + n): byte for n, byte in enumerate(others)}

    def _continues(self, number: int) -> bool:
        if number >= self.known or number in self.special.silent or number == self.special.unk:
            return False
        piece = str(self._tokenizer.id_to_token(number))
        if self.kind == "WordPiece":
            return piece.startswith(str(self.content["model"].get("continuing_subword_prefix", "##")))
        return not piece.startswith(("Ġ", "Ċ"))

    def _contents(self) -> bytes:
        return self._record("hugging_face", tokenizer=self.content)


@final
class MarianPieces(_Foreign):
    """Sentencepiece cuts the text, a list says the ids: the vocabulary of Marian's models, one language of it.

    `DataError` where sentencepiece cannot read the model.

    A model of several languages has pieces such as `>>fra<<`, with one of which a source begins. They are its tags for
    languages, here called as ours are, `<2fra>`; a text may also begin with one by itself.

    Args:
        model: a sentencepiece model.
        ids: of its pieces.
        special: their ids; `unk` is what a piece without an id becomes.
        size: entries of the model's tables; as many as there are ids unless given.
        asks: whether pieces that name languages are tags.
    """

    _carries_space = True
    _padding = ("<pad>",)

    def __init__(
        self,
        model: bytes,
        ids: Mapping[str, int],
        *,
        special: Special,
        size: int | None = None,
        asks: bool = False,
    ) -> None:
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except (RuntimeError, OSError, ValueError):
            raise DataError("source.spm or target.spm: is no sentencepiece model, or a damaged one") from None
        if special.unk is None:
            raise DataError("vocab.json: has no piece for what is unknown; take a complete copy of this model")
        super().__init__(ids, file="vocab.json", size=size, special=special)
        self.model = model
        self._unk = special.unk
        self._pieces = {number: piece for piece, number in ids.items()}
        if asks:
            named = ((_LANGUAGE.fullmatch(piece), number) for piece, number in ids.items())
            self.tags = {f"<2{found[1]}>": number for found, number in named if found is not None}

    def untold(self) -> Self:
        """The same without tags: of a model that is asked for no language any more."""
        other = copy(self)
        other.tags = {}
        return other

    def _normalise(self, text: str) -> str:
        language, text = self._language(text)
        return language + str(self._processor.normalize(text)).replace(_SPACE, " ").strip(" ")

    def _encode(self, text: str) -> list[int]:
        return [self.ids.get(piece, self._unk) for piece in self._cut(text)]

    def _surfaces(self, text: str) -> list[str]:
        return [piece.replace(_SPACE, " ") for piece in self._cut(text)]

    def _cut(self, text: str) -> list[str]:
        language, text = self._language(text)
        return [*([language] if language else ()), *map(str, self._processor.encode_as_pieces(text))]

    def _language(self, text: str) -> tuple[str, str]:
        """The piece `>>fra<<` that names the target language where a text begins with one, and the text behind it."""
        found = _LANGUAGE.match(text)
        if found is None or found[0] not in self.ids:
            return "", text
        return found[0], text[found.end() :]

    def _decode(self, ids: list[int]) -> str:
        pieces = [f"{_SPACE}{UNKNOWN}" if number == self._unk else self._piece(number) for number in ids]
        return "".join(pieces).replace(_SPACE, " ").strip(" ")

    def _piece(self, number: int) -> str:
        return self._pieces.get(number, f"<{number}>")

    def _continues(self, number: int) -> bool:
        return number in self._pieces and not self._pieces[number].startswith(_SPACE)

    def _contents(self) -> bytes:
        asks = {"asks": True} if self.tags else {}
        return self._record("marian", model=base64.b64encode(self.model).decode("ascii"), ids=self.ids, **asks)


def word_piece(
    vocabulary: Mapping[str, int], *, lowercase: bool, strip_accents: bool | None, chinese: bool, unk: str = "[UNK]"
) -> dict[str, Any]:
    """A tokenizer.json for BERT's vocab.txt.

    Args:
        vocabulary: ids of the pieces.
        lowercase: whether case is folded.
        strip_accents: whether accents are taken off; as `lowercase` unless given.
        chinese: whether every Chinese character is a word.
        unk: the piece that stands for words which no others make up.
    """
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": chinese,
            "strip_accents": strip_accents,
            "lowercase": lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": unk,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": dict(vocabulary),
        },
    }


def byte_level(vocabulary: Mapping[str, int], merges: list[str], *, prefix_space: bool) -> dict[str, Any]:
    """A tokenizer.json for GPT-2's vocab.json and merges.txt; with `prefix_space`, a text begins as behind a space."""
    bytes_of_text = {
        "type": "ByteLevel",
        "add_prefix_space": prefix_space,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": bytes_of_text,
        "post_processor": None,
        "decoder": bytes_of_text,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": dict(vocabulary),
            "merges": merges,
        },
    }


def _called(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What the package tokenizers answers; a `DataError` where it cannot, as where a file contradicts itself."""
    try:
        return function(*given, **named)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # it raises nothing narrower, and a panic of Rust is not an Exception
        raise DataError(f"tokenizer.json: the package tokenizers cannot read it ({error})") from None


def _kind(content: Mapping[str, Any]) -> str:
    """`WordPiece` or `BPE` of bytes; `DataError` for what is neither."""
    kind, decoder = (_type(content.get(part)) for part in ("model", "decoder"))
    if kind == "WordPiece" or (kind == "BPE" and decoder == "ByteLevel"):
        return str(kind)
    raise DataError(
        f"tokenizer.json: is of the kind {kind} with the decoder {decoder}; heedful reads WordPiece, and BPE of bytes"
    )


def _type(part: Any) -> Any:
    return part.get("type") if isinstance(part, Mapping) else None
