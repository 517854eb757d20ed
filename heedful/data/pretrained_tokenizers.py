"""Tokenizers of other projects, and loading of tokenizers from files."""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Self, final

import sentencepiece

from heedful.data.normalisation import require_valid_unicode
from heedful.data.tokenizers import (
    FILE_FORMAT,
    UNKNOWN_TEXT,
    SpecialIds,
    Tokenizer,
)
from heedful.errors import DataError, MissingExtraError

_SPACE: Final = "▁"
_LANGUAGE_PIECE: Final = re.compile(r">>([^<>]+)<<")
BYTE_PIECE: Final = re.compile(r"<0x[0-9A-F]{2}>")
"""A piece that stands for one byte of a character without a piece of its own."""
_MAX_UNUSED_IDS: Final = 2**20
"""Largest number of ids without a piece; embedding tables are a little larger than their vocabularies, never by this
much."""
_VISIBLE_SPACES: Final = {" ": _SPACE, "\n": "↵", "\t": "⇥"}


def _require_piece_ids(ids: Mapping[str, int], *, file: str) -> None:
    """Raise `DataError` if `ids` does not map pieces to ids; `file` is the name of their file in the message."""
    if not ids or not all(
        isinstance(piece, str) and type(number) is int and number >= 0 for piece, number in ids.items()
    ):
        raise DataError(f"{file}: is not a list of pieces with their ids; take another copy of this file")


def _require_special_ids(special: SpecialIds, prefix_ids: tuple[int, ...], *, size: int, file: str) -> None:
    """Raise `DataError` if an id in `special` or `prefix_ids` is not below `size`, or if begin or end has none; `file`
    is named in the message.
    """
    role_ids = (special.bos, special.eos, special.unk, special.mask, special.document_bos)
    given_ids = (*special.others, *special.suppressed_start_ids, *prefix_ids)
    for special_id in (*(role_id for role_id in role_ids if role_id is not None), *given_ids):
        if type(special_id) is not int or not 0 <= special_id < size:
            raise DataError(
                f"{file}: gives the id {ascii(special_id)[:40]} a meaning, but there are only {size:,} ids; take a "
                "complete copy"
            )
    if special.bos is None or special.eos is None:
        raise DataError(f"{file}: has no piece that begins or ends a text; take a complete copy of it")


class PretrainedTokenizer(Tokenizer):
    """Base of tokenizers from other projects: some ids may be unused, and special ids may be anywhere.

    Raises `DataError` if an id is not below `size`.

    Args:
        ids: ids of the pieces.
        file: name of their file, for messages.
        size: number of rows of the model's tables, which may be larger than the number of pieces; equal by default.
        special: the special ids.
        prefix_ids: ids that every text begins with.
        tag_ids: ids of the pieces that name languages, by their tags; at most one of them begins a text.
    """

    _padding_names: ClassVar[tuple[str, ...]] = ("[PAD]", "<pad>")

    def __init__(
        self,
        ids: Mapping[str, int],
        *,
        file: str,
        size: int | None,
        special: SpecialIds,
        prefix_ids: tuple[int, ...] = (),
        tag_ids: Mapping[str, int] | None = None,
    ) -> None:
        _require_piece_ids(ids, file=file)
        num_known_ids = max(ids.values()) + 1
        size = num_known_ids if size is None else size
        if size < num_known_ids:
            raise DataError(
                f"{file}: has ids up to {num_known_ids - 1}, but the model has only {size} of them; take the "
                "vocabulary that belongs to the model"
            )
        if size - len(set(ids.values())) > _MAX_UNUSED_IDS:
            raise DataError(
                f"{file}: has {len(ids):,} pieces, and the model {size:,} ids; take the vocabulary that belongs to the "
                "model"
            )
        tag_ids = dict(tag_ids or {})
        _require_special_ids(special, (*prefix_ids, *tag_ids.values()), size=size, file=file)
        super().__init__(
            size=size, special=replace(special, others=special.others | frozenset(range(num_known_ids, size)))
        )
        self.ids = dict(ids)
        self.num_known_ids = num_known_ids
        self.prefix_ids = prefix_ids
        self.tag_ids = tag_ids

    def with_tags(self, tags: Sequence[str]) -> Self:
        """Return a tokenizer with these tags before every text, instead of the language that it begins with now."""
        tokenizer = super().with_tags(tags)
        if tags:
            others = [number for number in self.prefix_ids if number not in self.tag_ids.values()]
            tokenizer.prefix_ids = (*others, *(self.tag_ids[tag] for tag in tags))
        return tokenizer

    def without_tags(self) -> Self:
        """Return a copy without tags, for a model that no longer needs a language; what texts begin with stays."""
        tokenizer = copy(self)
        tokenizer.tag_ids = {}
        return tokenizer

    def with_suppressed_ids(self, ids: Collection[int], *, start_ids: Sequence[int]) -> Self:
        """Return a copy with more ids that a model never generates and that decoding skips: `ids`, except the id that
        ends a text. No generated text begins with one of `start_ids`, which replace the earlier ones.
        """
        tokenizer = copy(self)
        others = (self.special.others | frozenset(ids)) - {self.special.eos}
        tokenizer.special = replace(self.special, others=others, suppressed_start_ids=tuple(start_ids))
        return tokenizer

    def with_prefix(self, ids: Sequence[int], *, tag_ids: Mapping[str, int] | None = None) -> Self:
        """Return a copy whose texts begin with `ids`; `tag_ids` are the pieces that name languages, if they change."""
        tokenizer = copy(self)
        tokenizer.prefix_ids = tuple(ids)
        tokenizer.tag_ids = self.tag_ids if tag_ids is None else dict(tag_ids)
        return tokenizer

    @property
    def pad_id(self) -> int | None:
        """Id of the padding piece; None if there is none."""
        return next((self.ids[name] for name in self._padding_names if name in self.ids), None)

    def _to_json_bytes(self, kind: str, **content: Any) -> bytes:
        """Return the contents of the tokenizer file as JSON: the kind, the size, the special ids, and `content`."""
        special = self.special
        record = {
            "format": FILE_FORMAT,
            "kind": kind,
            "size": self.size,
            "special": {name: getattr(special, name) for name in ("bos", "eos", "unk", "mask")}
            | ({} if special.document_bos is None else {"document_bos": special.document_bos})
            | ({"doubles_separator": True} if special.doubles_separator else {}),
            "others": sorted(number for number in special.others if number < self.num_known_ids),
            "opening": list(self.prefix_ids),
            **({"suppressed_start": list(starts)} if (starts := special.suppressed_start_ids) else {}),
            **({"tags": dict(self.tag_ids)} if self.tag_ids else {}),
            **content,
        }
        return (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode()


@final
class HuggingFaceTokenizer(PretrainedTokenizer):
    """A tokenizer of the library `tokenizers`: WordPiece (Wu et al. 2016), byte-level BPE (Radford et al. 2019), or
    BPE or a unigram model of text whose spaces are `▁` (Kudo and Richardson 2018).

    No string in a text is special: `[SEP]` is read as it is written, letter by letter if necessary.

    Args:
        content: the content of tokenizer.json.
        special: the special ids.
        size: number of rows of the model's tables; the number of pieces by default.
        prefix_ids: ids that every text begins with.
        tag_ids: ids of the pieces that name languages, by their tags.

    Raises:
        MissingExtraError: the library is not installed.
        DataError: it cannot read the content, or the content is of another kind than these.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        *,
        special: SpecialIds,
        size: int | None = None,
        prefix_ids: tuple[int, ...] = (),
        tag_ids: Mapping[str, int] | None = None,
    ) -> None:
        try:
            import tokenizers
        except ImportError:
            raise MissingExtraError(
                "vocabularies of Hugging Face need the package tokenizers: pip install 'heedful[hf]'"
            ) from None
        self.content = {**content, "truncation": None, "padding": None}
        self.model_kind = _get_model_kind(content)
        self._tokenizer = _call_tokenizers(tokenizers.Tokenizer.from_str, json.dumps(self.content))
        self._tokenizer.encode_special_tokens = True
        ids = _call_tokenizers(self._tokenizer.get_vocab, with_added_tokens=True)
        super().__init__(ids, file="tokenizer.json", size=size, special=special, prefix_ids=prefix_ids, tag_ids=tag_ids)

    @property
    def special_token_names(self) -> dict[str, str]:
        """The special pieces by their keys in tokenizer_config.json, such as `bos_token`."""
        special, get_piece = self.special, self._tokenizer.id_to_token
        roles = {"bos": special.bos, "eos": special.eos, "unk": special.unk, "mask": special.mask, "pad": self.pad_id}
        if self.model_kind == "WordPiece":
            roles = {"cls": roles.pop("bos"), "sep": roles.pop("eos"), **roles}
        elif self.prefix_ids:
            roles["bos"] = self.prefix_ids[0]
        return {f"{role}_token": str(get_piece(token_id)) for role, token_id in roles.items() if token_id is not None}

    @property
    def _has_leading_spaces(self) -> bool:  # type: ignore[override]  # depends on the content here
        return self.model_kind != "WordPiece"

    def encode_with_masks(self, text: str, *, blank: str = "[MASK]") -> list[int]:
        """Encode a text and put one mask id in place of each `blank`; see `Tokenizer.encode_with_masks`."""
        mask = self.special.mask
        if mask is None:
            raise DataError("this vocabulary has no mask piece; take a model that was trained with one")
        first, *others = require_valid_unicode(text).split(blank)
        ids = self._encode_text(self._strip_before_mask(first) if others else first)
        for number, segment in enumerate(others, 1):
            ids += [mask, *self._encode_text(segment if number == len(others) else self._strip_before_mask(segment))]
        return ids

    def _strip_before_mask(self, text: str) -> str:
        """Strip the space before a mask if pieces contain the space before them, because it belongs to the hidden
        piece.
        """
        return text.rstrip(" ") if self._has_leading_spaces else text

    def _normalise_text(self, text: str) -> str:
        normalizer = self._tokenizer.normalizer
        normalised = text if normalizer is None else str(_call_tokenizers(normalizer.normalize_str, text))
        return normalised.replace(_SPACE, " ").strip(" ") if self.model_kind == "Metaspace" else normalised

    def _encode_text(self, text: str) -> list[int]:
        ids: list[int] = _call_tokenizers(self._tokenizer.encode, text, add_special_tokens=False).ids
        return ids

    def _split_surfaces(self, text: str) -> list[str]:
        """Return the part of the normalised text that each piece stands for; if pieces are bytes of one character, the
        first gets it.
        """
        if self.model_kind == "Metaspace":
            return self._split_metaspace_surfaces(text)
        normalised = self._normalise_text(text)
        surfaces, last_stop = [], 0
        for start, stop in _call_tokenizers(self._tokenizer.encode, normalised, add_special_tokens=False).offsets:
            # bytes of one character share its place; the first has it
            surfaces.append(normalised[max(start, last_stop) : stop])
            last_stop = max(last_stop, stop)
        return surfaces

    def _split_metaspace_surfaces(self, text: str) -> list[str]:
        """Return the part of the normalised text that each piece with `▁` stands for; if pieces are bytes of one
        character, the first gets it.
        """
        pipeline = self._tokenizer
        if pipeline.normalizer is not None:
            text = _call_tokenizers(pipeline.normalizer.normalize_str, text)
        words = [text]
        if pipeline.pre_tokenizer is not None:
            words = [word for word, _ in _call_tokenizers(pipeline.pre_tokenizer.pre_tokenize_str, text)]
        surfaces = []
        for word in filter(None, words):
            starts_character = [byte & 0xC0 != 0x80 for byte in word.encode()]
            num_characters = list(itertools.accumulate(starts_character, initial=0))  # that begin before each byte
            for piece in _call_tokenizers(pipeline.model.tokenize, word):
                start, stop = piece.offsets  # in bytes of the word
                surfaces.append(word[num_characters[start] : num_characters[stop]].replace(_SPACE, " "))
        return surfaces

    def _decode_ids(self, ids: list[int]) -> str:
        return str(_call_tokenizers(self._tokenizer.decode, ids, skip_special_tokens=False))

    def _get_piece(self, token_id: int) -> str:
        """Return a piece as printable text, a byte-level one decoded; an id without a piece is shown as `<id>`."""
        if token_id >= self.num_known_ids:
            return f"<{token_id}>"
        piece = str(self._tokenizer.id_to_token(token_id))
        is_byte_level = self.model_kind == "ByteLevel" and token_id not in self.special.skipped_ids
        return self._decode_piece(piece) if is_byte_level else piece

    def _decode_piece(self, piece: str) -> str:
        """Return a byte-level piece as text; bytes that are not a whole character are shown by their numbers."""
        if any(letter not in self._byte_alphabet for letter in piece):
            return piece  # was added later, as it is
        piece_bytes = bytes(self._byte_alphabet[letter] for letter in piece)
        try:
            text = piece_bytes.decode()
        except UnicodeDecodeError:
            return "".join(chr(byte) if 32 < byte < 127 else f"\\x{byte:02x}" for byte in piece_bytes)
        return "".join(_VISIBLE_SPACES.get(c, c if c.isprintable() else f"\\x{ord(c):02x}") for c in text)

    @cached_property
    def _byte_alphabet(self) -> dict[str, int]:
        """Byte of each character in GPT-2's alphabet: printable bytes are their own characters, the others follow
        after 255 in order.
        """
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in set(printable)]
        return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}

    def _is_continuation(self, token_id: int) -> bool:
        """Return whether a piece continues a word: in WordPiece it has a prefix such as `##`, elsewhere it does not
        begin with a space or a line feed. Special and unknown pieces do not.
        """
        if token_id >= self.num_known_ids or token_id in self.special.skipped_ids or token_id == self.special.unk:
            return False
        piece = str(self._tokenizer.id_to_token(token_id))
        if self.model_kind == "WordPiece":
            return piece.startswith(str(self.content["model"].get("continuing_subword_prefix", "##")))
        return not piece.startswith(("Ġ", "Ċ") if self.model_kind == "ByteLevel" else _SPACE)

    def _to_bytes(self) -> bytes:
        return self._to_json_bytes("hugging_face", tokenizer=self.content)


@final
class MappedSentencePieceTokenizer(PretrainedTokenizer):
    """A sentencepiece model (Kudo and Richardson 2018) that splits texts into pieces, whose ids come from elsewhere.

    A text may begin with a piece such as `>>fra<<`, by which multilingual Marian models are asked for a language.

    Args:
        model: the bytes of a sentencepiece model.
        ids: ids of the pieces.
        special: the special ids; pieces without an id become `unk`.
        size: number of rows of the model's tables; the number of ids by default.
        prefix_ids: ids that every text begins with.
        tag_ids: ids of the pieces that name languages, by their tags.

    Raises:
        DataError: sentencepiece cannot read the model, or no piece is for unknown text.
    """

    _has_leading_spaces = True

    def __init__(
        self,
        model: bytes,
        ids: Mapping[str, int],
        *,
        special: SpecialIds,
        size: int | None = None,
        prefix_ids: tuple[int, ...] = (),
        tag_ids: Mapping[str, int] | None = None,
    ) -> None:
        self._processor = load_sentencepiece(model)
        if special.unk is None:
            raise DataError("the vocabulary has no piece for unknown text; take a complete copy of this model")
        super().__init__(ids, file="the vocabulary", size=size, special=special, prefix_ids=prefix_ids, tag_ids=tag_ids)
        self.model = model
        self._unk = special.unk
        self._pieces = {number: piece for piece, number in ids.items()}

    def _normalise_text(self, text: str) -> str:
        language, text = self._split_language_piece(text)
        return language + str(self._processor.normalize(text)).replace(_SPACE, " ").strip(" ")

    def _encode_text(self, text: str) -> list[int]:
        return [self.ids.get(piece, self._unk) for piece in self._split_into_pieces(text)]

    def _split_surfaces(self, text: str) -> list[str]:
        pieces = self._split_into_pieces(text)
        if not any(map(BYTE_PIECE.fullmatch, pieces)):
            return [piece.replace(_SPACE, " ") for piece in pieces]
        surfaces: list[str] = []
        for is_byte, group in itertools.groupby(pieces, key=lambda piece: bool(BYTE_PIECE.fullmatch(piece))):
            run = list(group)
            if is_byte:  # the first byte of each character stands for it
                content = bytes(int(piece[3:5], 16) for piece in run)
                characters = iter(content.decode(errors="replace"))
                surfaces += ["" if byte & 0xC0 == 0x80 else next(characters, "") for byte in content]
            else:
                surfaces += [piece.replace(_SPACE, " ") for piece in run]
        return surfaces

    def _split_into_pieces(self, text: str) -> list[str]:
        """Split a text into pieces; a leading language piece stays whole."""
        language, text = self._split_language_piece(text)
        return [*([language] if language else ()), *map(str, self._processor.encode_as_pieces(text))]

    def _split_language_piece(self, text: str) -> tuple[str, str]:
        """Split a leading language piece such as `>>fra<<` from the text; it is empty if there is none."""
        match = _LANGUAGE_PIECE.match(text)
        if match is None or match[0] not in self.ids:
            return "", text
        return match[0], text[match.end() :]

    def _decode_ids(self, ids: list[int]) -> str:
        pieces = [f"{_SPACE}{UNKNOWN_TEXT}" if number == self._unk else self._get_piece(number) for number in ids]
        if any(map(BYTE_PIECE.fullmatch, pieces)):
            return str(self._processor.decode_pieces(pieces))
        return "".join(pieces).replace(_SPACE, " ").strip(" ")

    def _get_piece(self, token_id: int) -> str:
        return self._pieces.get(token_id, f"<{token_id}>")

    def _is_continuation(self, token_id: int) -> bool:
        if token_id in self.special.skipped_ids or token_id == self._unk:
            return False
        return token_id in self._pieces and not self._pieces[token_id].startswith(_SPACE)

    def _to_bytes(self) -> bytes:
        return self._to_json_bytes("marian", model=base64.b64encode(self.model).decode("ascii"), ids=self.ids)


@final
class ByteTokenizer(PretrainedTokenizer):
    """Bytes of UTF-8 as pieces, with ids from 3 (ByT5, Xue et al. 2022).

    Args:
        special: the special ids.
        size: number of rows of the model's tables.
        prefix_ids: ids that every text begins with.
        tag_ids: always None; byte models have no languages.
    """

    _has_leading_spaces = False
    _FIRST: ClassVar[int] = 3
    """Id of byte 0."""
    ids_by_piece: ClassVar[Mapping[str, int]] = MappingProxyType(
        {"<pad>": 0, "</s>": 1, "<unk>": 2} | {f"<0x{byte:02X}>": byte + 3 for byte in range(256)}
    )

    def __init__(
        self,
        *,
        special: SpecialIds,
        size: int | None = None,
        prefix_ids: tuple[int, ...] = (),
        tag_ids: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(
            self.ids_by_piece, file="the vocabulary", size=size, special=special, prefix_ids=prefix_ids, tag_ids=tag_ids
        )

    def _normalise_text(self, text: str) -> str:
        return text

    def _encode_text(self, text: str) -> list[int]:
        return [byte + self._FIRST for byte in text.encode()]

    def _split_surfaces(self, text: str) -> list[str]:
        """Return each character for its first byte, and nothing for its other bytes."""
        return [surface for character in text for surface in (character, *[""] * (len(character.encode()) - 1))]

    def _decode_ids(self, ids: list[int]) -> str:
        return bytes(byte for number in ids if (byte := self._get_byte(number)) is not None).decode(errors="ignore")

    def _get_byte(self, token_id: int) -> int | None:
        """Return the byte of an id; None if it stands for none."""
        byte = token_id - self._FIRST
        return byte if 0 <= byte < 256 else None

    def _get_piece(self, token_id: int) -> str:
        byte = self._get_byte(token_id)
        if byte is None:
            return {0: "<pad>", 1: "</s>", 2: "<unk>"}.get(token_id, f"<{token_id}>")
        return _VISIBLE_SPACES.get(chr(byte), chr(byte) if 32 < byte < 127 else f"<0x{byte:02X}>")

    def _is_continuation(self, token_id: int) -> bool:
        byte = self._get_byte(token_id)
        return byte is not None and not chr(byte).isspace()

    def _to_bytes(self) -> bytes:
        return self._to_json_bytes("bytes")


def load_sentencepiece(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a sentencepiece model from the bytes of its file; raise `DataError` if it cannot be read."""
    try:
        if not model:
            raise ValueError("sentencepiece accepts an empty file as a model")
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, OSError, ValueError):
        raise DataError(
            "its sentencepiece model cannot be read, or is damaged; take another copy of this model"
        ) from None


def list_language_tags(ids: Mapping[str, int]) -> dict[str, int]:
    """Return the ids of Marian's pieces for languages, such as `>>fra<<`, by their tags in heedful, `<2fra>`."""
    matches = ((_LANGUAGE_PIECE.fullmatch(piece), number) for piece, number in ids.items())
    return {f"<2{match[1]}>": number for match, number in matches if match is not None}


def build_wordpiece_json(
    vocabulary: Mapping[str, int],
    *,
    lowercase: bool,
    strip_accents: bool | None,
    split_chinese: bool,
    unk: str = "[UNK]",
) -> dict[str, Any]:
    """Build the content of tokenizer.json for the pieces with their ids in BERT's vocab.txt.

    Args:
        vocabulary: ids of the pieces.
        lowercase: whether case is folded.
        strip_accents: whether accents are removed; the same as `lowercase` by default.
        split_chinese: whether every Chinese character is a word.
        unk: the piece for words that no other pieces make up.
    """
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": split_chinese,
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


def build_byte_level_json(vocabulary: Mapping[str, int], merges: list[str], *, prefix_space: bool) -> dict[str, Any]:
    """Build the content of tokenizer.json for the pieces with their ids in GPT-2's vocab.json and the merges of
    merges.txt; with `prefix_space`, a text is read as if a space preceded it.
    """
    byte_level_step = {
        "type": "ByteLevel",
        "add_prefix_space": prefix_space,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": byte_level_step,
        "post_processor": None,
        "decoder": byte_level_step,
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


def _call_tokenizers(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of the package `tokenizers` with the arguments; raise `DataError` for every error it raises."""
    try:
        return function(*args, **kwargs)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # it raises nothing narrower, and a panic of Rust is not an Exception
        raise DataError(
            f"tokenizer.json: the package tokenizers cannot read it ({error}); take another copy of this model"
        ) from None


def _get_model_kind(content: Mapping[str, Any]) -> Literal["WordPiece", "ByteLevel", "Metaspace"]:
    """Return how the pieces in the content of tokenizer.json show where words begin: `WordPiece`, `ByteLevel` (BPE of
    bytes) or `Metaspace` (`▁` for spaces); raise `DataError` for other kinds.
    """
    model, decoder = content.get("model"), content.get("decoder")
    kind = _get_type(model)
    is_sequence = isinstance(decoder, Mapping) and decoder.get("type") == "Sequence"
    decoders = decoder["decoders"] if is_sequence else [decoder]  # type: ignore[index]  # mypy does not follow the name
    steps = [_get_type(step) for step in decoders] if isinstance(decoders, list) else []
    if kind == "WordPiece":
        return "WordPiece"
    if kind == "BPE" and "ByteLevel" in steps:
        return "ByteLevel"
    replaces = any(_SPACE in json.dumps(step, ensure_ascii=False) for step in decoders or ())
    if kind in ("BPE", "Unigram") and steps[:1] in (["Metaspace"], ["Replace"]) and replaces:
        return "Metaspace"
    raise DataError(
        f"tokenizer.json: is of the kind {kind} with the decoder {', '.join(map(str, steps))}; heedful reads "
        "WordPiece, BPE of bytes, and BPE and Unigram with spaces as ▁"
    )


def _get_type(component: Any) -> Any:
    """Return the type of a component of tokenizer.json, or None."""
    return component.get("type") if isinstance(component, Mapping) else None
