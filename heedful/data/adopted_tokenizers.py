"""Vocabularies from files of other projects, for models that are trained here: their pieces follow heedful's own
special pieces and tags.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, final

from heedful.data.normalisation import require_valid_unicode
from heedful.data.pretrained_tokenizers import (
    HuggingFaceTokenizer,
    MappedSentencePieceTokenizer,
    PretrainedTokenizer,
    load_sentencepiece,
)
from heedful.data.tokenizers import (
    FILE_FORMAT,
    UNK,
    UNKNOWN_TEXT,
    PieceListTokenizer,
    SpecialIds,
    Tokenizer,
    build_special_ids,
    get_reserved_pieces,
)
from heedful.errors import DataError
from heedful.files import parse_json, read_bytes

_END: Final = "</w>"
"""What subword-nmt writes behind the last letter of a word."""
_SPACE: Final = "▁"
_MERGE: Final = re.compile(r"\S+ \S+")


def adopt_vocabulary(
    path: Path, texts: Iterable[str], *, lowercase: bool, masked: bool = False, tags: Sequence[str] = ()
) -> Tokenizer:
    """Read a vocabulary from a file: a SentencePiece model, a tokenizer.json, or the codes of subword-nmt, which is
    recognised by the content.

    Args:
        path: of the file.
        texts: the training texts, whose pieces the codes of subword-nmt have as their vocabulary.
        lowercase: whether texts are lowercased first.
        masked: whether there is an id that hides a piece.
        tags: further pieces that no text contains.

    Raises:
        DataError: the file cannot be read, or is none of these.
        MissingExtraError: a tokenizer.json needs a package that is not installed.
    """
    try:
        content = read_bytes(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); correct tokenizer.path") from None
    try:
        if content[:1] == b"{":
            return AdoptedTokenizer(
                _read_tokenizer_json(parse_json(content)), lowercase=lowercase, masked=masked, tags=tags
            )
        if (merges := _parse_codes(content)) is not None:
            return SubwordNmtTokenizer.learn(texts, merges, lowercase=lowercase, masked=masked, tags=tags)
        return AdoptedTokenizer(_read_sentencepiece(content), lowercase=lowercase, masked=masked, tags=tags)
    except (DataError, ValueError, KeyError, TypeError, AttributeError) as error:
        detail = f": {error}" if isinstance(error, DataError) else ""
        raise DataError(
            f"{path}: is not a SentencePiece model, a tokenizer.json or codes of subword-nmt{detail}; correct "
            "tokenizer.path"
        ) from None


def _read_sentencepiece(model: bytes) -> MappedSentencePieceTokenizer:
    """Read a SentencePiece model whose pieces keep their numbers."""
    processor = load_sentencepiece(model)
    numbers, unk, nameless_id = range(processor.vocab_size()), processor.unk_id(), processor.vocab_size()
    controls = frozenset(number for number in numbers if processor.is_control(number))
    ids = {processor.id_to_piece(number): number for number in numbers}
    special = SpecialIds(nameless_id, nameless_id, unk, nameless_id, others=controls)
    return MappedSentencePieceTokenizer(model, ids, special=special, size=nameless_id + 1)


def _read_tokenizer_json(content: Mapping[str, Any]) -> HuggingFaceTokenizer:
    """Read a tokenizer.json whose pieces keep their numbers; its special pieces are those that it marks as such."""
    model, added = content["model"], content.get("added_tokens") or []
    vocabulary = model["vocab"]
    ids = {entry[0]: n for n, entry in enumerate(vocabulary)} if isinstance(vocabulary, list) else dict(vocabulary)
    ids |= {entry["content"]: entry["id"] for entry in added}
    marked_ids = {int(entry["id"]) for entry in added if entry.get("special")}
    unk: int | None = model["unk_id"] if isinstance(vocabulary, list) else ids.get(model.get("unk_token"))
    nameless_id = max(ids.values()) + 1  # for the roles that this vocabulary need not have
    special = SpecialIds(nameless_id, nameless_id, unk, nameless_id, others=frozenset(marked_ids - {unk}))
    return HuggingFaceTokenizer(content, special=special, size=nameless_id + 1)


def _parse_codes(content: bytes) -> tuple[str, ...] | None:
    """Return the merges of subword-nmt's codes, in their order, after their version; None if the file is another."""
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError:
        return None
    version = "0.1"
    if lines[0].startswith("#version:"):
        version = lines.pop(0).partition(":")[2].strip()
    merges = [line.strip("\r") for line in lines if line.strip()]
    if not merges or version not in ("0.1", "0.2") or not all(map(_MERGE.fullmatch, merges)):
        return None
    return (version, *merges)


@final
class AdoptedTokenizer(Tokenizer):
    """The pieces of another vocabulary, which splits texts, behind heedful's special pieces and tags.

    Args:
        inner: the other vocabulary; its special pieces have no ids here.
        lowercase: whether texts are lowercased first.
        masked: whether there is an id that hides a piece.
        tags: further pieces that no text contains.
    """

    def __init__(
        self, inner: PretrainedTokenizer, *, lowercase: bool, masked: bool = False, tags: Sequence[str] = ()
    ) -> None:
        self._reserved = (*get_reserved_pieces(masked=masked), *tags)
        self._inner = inner
        without_id = inner.special.skipped_ids | {inner.special.unk}
        self._inner_ids = [number for number in range(inner.num_known_ids) if number not in without_id]
        self._new_ids = {number: new for new, number in enumerate(self._inner_ids, len(self._reserved))}
        self.tag_ids = {tag: number for number, tag in enumerate(self._reserved) if tag in tags}
        self.lowercases = lowercase
        special = build_special_ids(masked=masked, tags=self.tag_ids)
        super().__init__(size=len(self._reserved) + len(self._inner_ids), special=special)

    @property
    def _has_leading_spaces(self) -> bool:  # type: ignore[override]  # depends on the vocabulary here
        return self._inner._has_leading_spaces

    def encode_with_masks(self, text: str, *, blank: str = "[MASK]") -> list[int]:
        """Encode a text and put one mask id in place of each `blank`; see `Tokenizer.encode_with_masks`."""
        mask, inner_mask = self.special.mask, self._inner.special.mask
        if mask is None:
            raise DataError("this vocabulary has no mask piece; take a model that was trained with one")
        inner_ids = self._inner.encode_with_masks(text, blank=blank)
        return [mask if number == inner_mask else self._new_ids.get(number, UNK) for number in inner_ids]

    def _find_inner_id(self, token_id: int) -> int | None:
        """Return the id of a piece in the other vocabulary; None for a special piece."""
        index = token_id - len(self._reserved)
        return None if index < 0 else self._inner_ids[index]

    def _normalise_text(self, text: str) -> str:
        return self._inner.normalise(text)

    def _encode_text(self, text: str) -> list[int]:
        return [self._new_ids.get(number, UNK) for number in self._inner.encode(text)]

    def _split_surfaces(self, text: str) -> list[str]:
        return self._inner._split_surfaces(text)

    def _decode_ids(self, ids: list[int]) -> str:
        runs: list[list[int]] = [[]]
        for number in map(self._find_inner_id, ids):
            if number is None:
                runs.append([])
            else:
                runs[-1].append(number)
        return f" {UNKNOWN_TEXT} ".join(self._inner.decode(run) if run else "" for run in runs).strip(" ")

    def _get_piece(self, token_id: int) -> str:
        number = self._find_inner_id(token_id)
        return self._reserved[token_id] if number is None else self._inner.to_pieces([number])[0]

    def _is_continuation(self, token_id: int) -> bool:
        number = self._find_inner_id(token_id)
        return number is not None and self._inner._is_continuation(number)

    def _to_bytes(self) -> bytes:
        record = {
            "format": FILE_FORMAT,
            "kind": "adopted",
            "lowercase": self.lowercases,
            "masked": self.special.mask is not None,
            "tags": list(self.tag_ids),
            "inner": json.loads(self._inner._to_bytes()),
        }
        return (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode()


@final
class SubwordNmtTokenizer(PieceListTokenizer):
    """Byte-pair encoding of words by the codes of subword-nmt (Sennrich et al. 2016). A piece that begins a word has
    `▁` before it, instead of `@@` behind all pieces but the last.

    Args:
        pieces: the pieces in the order of their ids.
        codes: the version of the codes, then the merges in their order.
        lowercase: whether case is folded first.
        masked: whether there is an id that hides a piece.
        tags: further pieces that no text contains.
    """

    _has_leading_spaces = True

    def __init__(
        self,
        pieces: Sequence[str],
        codes: Sequence[str],
        *,
        lowercase: bool,
        masked: bool = False,
        tags: Sequence[str] = (),
    ) -> None:
        self._codes = tuple(codes)
        self._ranks = {tuple(merge.split(" ")): rank for rank, merge in reversed([*enumerate(codes[1:])])}
        self._split_word = lru_cache(maxsize=2**16)(self._merge_letters)
        super().__init__(pieces, kind="subword_nmt", lowercase=lowercase, masked=masked, tags=tags)

    @classmethod
    def learn(
        cls, texts: Iterable[str], codes: Sequence[str], *, lowercase: bool, masked: bool, tags: Sequence[str]
    ) -> SubwordNmtTokenizer:
        """Build a tokenizer whose pieces are those that the codes give the texts, the most frequent first; raise
        `DataError` if the texts are empty.
        """
        splitter = cls((), codes, lowercase=lowercase)
        counts = Counter(piece for text in texts for piece in splitter._split_surfaces(require_valid_unicode(text)))
        if not counts:
            raise DataError("there is no text to learn a vocabulary from; check the training files")
        pieces = sorted((piece.replace(" ", _SPACE) for piece in counts), key=lambda piece: (-counts[piece], piece))
        return cls(pieces, codes, lowercase=lowercase, masked=masked, tags=tags)

    def _merge_letters(self, word: str) -> tuple[str, ...]:
        """Split a word into pieces by merging pairs of them, the pair of the lowest rank first."""
        parts = [*word, _END] if self._codes[0] == "0.1" else [*word[:-1], word[-1] + _END]
        while len(parts) > 1:
            rank, first, second = min((self._ranks.get(pair, len(self._ranks)), *pair) for pair in pairwise(parts))
            if rank == len(self._ranks):
                break
            merged: list[str] = []
            for part in parts:  # all occurrences of the pair, from left to right
                if merged and (merged[-1], part) == (first, second):
                    merged[-1] = first + second
                else:
                    merged.append(part)
            parts = merged
        pieces = [part.removesuffix(_END) for part in parts]
        return tuple(piece for piece in pieces if piece)

    def _split_surfaces(self, text: str) -> list[str]:
        surfaces: list[str] = []
        for word in self._normalise_text(text).split():
            first, *others = self._split_word(word)
            surfaces += [f" {first}", *others]
        return surfaces

    def _encode_text(self, text: str) -> list[int]:
        return [self._ids.get(surface.replace(" ", _SPACE), UNK) for surface in self._split_surfaces(text)]

    def _decode_ids(self, ids: list[int]) -> str:
        return "".join(self._get_known_pieces(ids)).replace(_SPACE, " ").strip(" ")

    def _is_continuation(self, token_id: int) -> bool:
        is_special = token_id in self.special.skipped_ids or token_id == UNK
        return not is_special and not self._pieces[token_id].startswith(_SPACE)

    def _get_extra_record(self) -> Mapping[str, object]:
        return {"codes": list(self._codes)}
