"""From files to tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sentencepiece

from heedful.data.tokenizers import (
    BOS,
    EOS,
    FOREIGN,
    FORMAT,
    PAD,
    UNK,
    Characters,
    SentencePiece,
    Tokenizer,
    Words,
)
from heedful.errors import RunError


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


def _from_json(contents: bytes, *, path: Path) -> Tokenizer:
    try:
        record: dict[str, Any] = json.loads(contents)
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    if record.get("format") != FORMAT:
        raise RunError(
            f"{path}: tokenizer format {record.get('format')!r}, but this heedful reads {FORMAT}; use one "
            "that knows it or learn the tokenizer again"
        )
    if record.get("kind") in FOREIGN:
        from heedful.data.foreign_tokenizers import tokenizer_from  # which needs what is here

        return tokenizer_from(record, damaged=lambda: _damaged(path))
    lowercase, pieces, masked = record.get("lowercase"), record.get("pieces"), record.get("masked", False)
    if not (
        isinstance(lowercase, bool)
        and isinstance(masked, bool)
        and isinstance(pieces, list)
        and all(isinstance(piece, str) and piece for piece in pieces)
        and len(set(pieces)) == len(pieces)
    ):
        raise _damaged(path)
    match record.get("kind"):
        case "characters" | "verbatim" as kind:
            return Characters(pieces, lowercase=lowercase, verbatim=kind == "verbatim", masked=masked)
        case "words":
            return Words(pieces, lowercase=lowercase, masked=masked)
        case _:
            raise _damaged(path)


def _damaged(path: Path) -> RunError:
    return RunError(f"{path}: not a tokenizer, or a damaged one; restore it or learn it again")
