"""Loading of tokenizers of all kinds from their files."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heedful.data.adopted_tokenizers import AdoptedTokenizer, SubwordNmtTokenizer
from heedful.data.pretrained_tokenizers import (
    ByteTokenizer,
    HuggingFaceTokenizer,
    MappedSentencePieceTokenizer,
    PretrainedTokenizer,
    list_language_tags,
    load_sentencepiece,
)
from heedful.data.tokenizers import (
    BOS,
    EOS,
    FILE_FORMAT,
    NFC_PREFIX,
    PAD,
    UNK,
    CharacterTokenizer,
    SentencePieceTokenizer,
    SpecialIds,
    Tokenizer,
    WordTokenizer,
)
from heedful.errors import DataError, RunError
from heedful.files import parse_json, read_bytes


def load_tokenizer(path: Path) -> Tokenizer:
    """Load the tokenizer that `Tokenizer.save` wrote; raise `RunError` if the file is missing, damaged or of an
    unknown kind.
    """
    try:
        contents = read_bytes(path)
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); restore it from a copy or train again") from None
    try:
        return (
            _load_from_json(parse_json(contents), path=path)
            if contents[:1] == b"{"
            else _load_sentencepiece(contents, path=path)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, OSError, DataError):
        raise RunError(f"{path}: is not a tokenizer, or is damaged; restore it or learn it again") from None


def _load_sentencepiece(contents: bytes, *, path: Path) -> SentencePieceTokenizer:
    """Load a sentencepiece model from the bytes of its file; raise `RunError` if its special ids are not those of
    heedful.
    """
    processor = load_sentencepiece(contents)
    special_ids = (processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id())
    if special_ids != (PAD, BOS, EOS, UNK):
        raise RunError(
            f"{path}: padding, begin, end and unknown have the ids {special_ids} where heedful needs "
            f"{(PAD, BOS, EOS, UNK)}; learn the model with heedful"
        )
    return SentencePieceTokenizer(contents)


def _load_from_json(record: dict[str, Any], *, path: Path) -> Tokenizer:
    """Build a tokenizer from its JSON record; raise `RunError` with the path if its format is another one, and
    `ValueError` if the record is invalid.
    """
    if record.get("format") != FILE_FORMAT:
        raise RunError(
            f"{path}: tokenizer format {record.get('format')!r}, but this heedful reads {FILE_FORMAT}; use one "
            "that knows it or learn the tokenizer again"
        )
    if record.get("kind") in ("hugging_face", "marian", "bytes"):
        return _load_pretrained(record)
    if record.get("kind") == "adopted":
        inner = _load_pretrained(record["inner"])
        return AdoptedTokenizer(
            inner, lowercase=bool(record["lowercase"]), masked=bool(record["masked"]), tags=list(record["tags"])
        )
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
        raise ValueError("not a list of different pieces")
    options: dict[str, Any] = {"lowercase": lowercase, "masked": masked, "tags": tags}
    options["uses_nfc"] = kind.startswith(NFC_PREFIX)
    match kind.removeprefix(NFC_PREFIX):
        case "characters" | "verbatim" as unit:
            return CharacterTokenizer(pieces, verbatim=unit == "verbatim", **options)
        case "words":
            return WordTokenizer(pieces, **options)
        case "subword_nmt":
            return SubwordNmtTokenizer(pieces, record["codes"], lowercase=lowercase, masked=masked, tags=tags)
        case _:
            raise ValueError(f"no tokenizer is called {kind!r}")


def _load_pretrained(record: Mapping[str, Any]) -> PretrainedTokenizer:
    """Build a tokenizer of another project from its JSON record."""
    options: dict[str, Any] = {
        "special": SpecialIds(
            **record["special"],
            others=frozenset(record["others"]),
            suppressed_start_ids=tuple(record.get("suppressed_start", ())),
        ),
        "size": record["size"],
        "prefix_ids": tuple(record["opening"]),
        "tag_ids": record.get("tags"),
    }
    if type(options["size"]) is not int:
        raise TypeError("a size that is not a number")
    if record["kind"] == "bytes":
        return ByteTokenizer(**options)
    if record["kind"] == "hugging_face":
        return HuggingFaceTokenizer(record["tokenizer"], **options)
    if record.get("asks"):  # of earlier versions
        options["tag_ids"] = list_language_tags(record["ids"])
    return MappedSentencePieceTokenizer(base64.b64decode(record["model"], validate=True), record["ids"], **options)
