"""From files to tokenizers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sentencepiece

from heedful.data.foreign_tokenizers import HuggingFace, MarianPieces
from heedful.data.tokenizers import (
    BOS,
    COMPOSED,
    EOS,
    FORMAT,
    PAD,
    UNK,
    Characters,
    SentencePiece,
    Special,
    Tokenizer,
    Words,
)
from heedful.errors import DataError, RunError
from heedful.files import parse_json, read_bytes


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer that `save` wrote; `RunError` where there is none, or a damaged or unknown one."""
    try:
        contents = read_bytes(path)
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); is the run complete?") from None
    try:
        return _from_json(parse_json(contents), path=path) if contents[:1] == b"{" else _from_model(contents, path=path)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, OSError, DataError):
        raise RunError(f"{path}: not a tokenizer, or a damaged one; restore it or learn it again") from None


def _from_model(contents: bytes, *, path: Path) -> SentencePiece:
    if not contents:
        raise ValueError("sentencepiece takes nothing at all for a model")
    processor = sentencepiece.SentencePieceProcessor(model_proto=contents)
    found = (processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id())
    if found != (PAD, BOS, EOS, UNK):
        raise RunError(
            f"{path}: padding, begin, end and unknown have the ids {found} where heedful needs "
            f"{(PAD, BOS, EOS, UNK)}; learn the model with heedful"
        )
    return SentencePiece(contents)


def _from_json(record: dict[str, Any], *, path: Path) -> Tokenizer:
    if record.get("format") != FORMAT:
        raise RunError(
            f"{path}: tokenizer format {record.get('format')!r}, but this heedful reads {FORMAT}; use one "
            "that knows it or learn the tokenizer again"
        )
    if record.get("kind") in ("hugging_face", "marian"):
        return _foreign(record)
    lowercase, pieces, masked = record["lowercase"], record["pieces"], record.get("masked", False)
    tags, kind = record.get("tags", []), str(record.get("kind"))
    if not (
        isinstance(lowercase, bool)
        and isinstance(masked, bool)
        and isinstance(pieces, list)
        and isinstance(tags, list)
        and all(isinstance(piece, str) and piece for piece in (*pieces, *tags))
        and len(set(pieces)) == len(pieces)
    ):
        raise ValueError("no list of different pieces")
    shared: dict[str, Any] = {"lowercase": lowercase, "masked": masked, "tags": tags}
    shared["composes"] = kind.startswith(COMPOSED)
    match kind.removeprefix(COMPOSED):
        case "characters" | "verbatim" as cut:
            return Characters(pieces, verbatim=cut == "verbatim", **shared)
        case "words":
            return Words(pieces, **shared)
        case _:
            raise ValueError(f"no tokenizer is called {kind!r}")


def _foreign(record: Mapping[str, Any]) -> Tokenizer:
    special = Special(**record["special"], others=frozenset(record["others"]))
    size, opening = record["size"], tuple(record["opening"])
    if type(size) is not int:
        raise TypeError("a size that is not a number")
    if record["kind"] == "hugging_face":
        return HuggingFace(record["tokenizer"], special=special, size=size, opening=opening)
    model = base64.b64decode(record["model"], validate=True)
    return MarianPieces(model, record["ids"], special=special, size=size, asks=bool(record.get("asks")))
