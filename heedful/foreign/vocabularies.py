"""The vocabulary files of Hugging Face's folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heedful.data.foreign_tokenizers import HuggingFace, MarianPieces, byte_level, word_piece
from heedful.data.tokenizers import Special
from heedful.errors import DataError, RunError
from heedful.files import read_bytes, read_text
from heedful.files import read_json as read_json_value

OWN: Final = "heedful.vocabulary"
"""A vocabulary of ours, in a folder that heedful wrote ..."""
_DIGITS: Final = 9
"""Of the largest id."""
OWN_SIDES: Final = ("heedful.source", "heedful.target")
"""... and those of two languages."""
_READERS: Final = ("bert", "roberta-prelayernorm", "electra")
_WORD_PIECES: Final = ("bert", "electra")
_BERT: Final = {"bos": "cls_token", "eos": "sep_token", "unk": "unk_token", "mask": "mask_token"}
_OTHERS: Final = {"bos": "bos_token", "eos": "eos_token", "unk": "unk_token", "mask": "mask_token"}
_BRACKETED: Final = {
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
    "pad_token": "[PAD]",
}
_NAMES: Final = {
    "bert": _BRACKETED,
    "electra": _BRACKETED,
    "roberta-prelayernorm": {
        "cls_token": "<s>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "pad_token": "<pad>",
    },
    "gpt2": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    "gpt_neox": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    "bart": {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "pad_token": "<pad>",
    },
    "marian": {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
}
"""What special pieces are called where no file says it."""


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; `RunError` where there is none."""
    content = _parsed(path)
    if not isinstance(content, dict):
        raise RunError(f"{path}: holds no JSON object; take another copy of this file")
    return content


def read_json_list(path: Path) -> list[Any]:
    """The list in a JSON file; `RunError` where there is none."""
    content = _parsed(path)
    if not isinstance(content, list):
        raise RunError(f"{path}: holds no JSON list; take another copy of this file")
    return content


def _parsed(path: Path) -> Any:
    try:
        return read_json_value(path)
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); take a complete copy of this folder") from None
    except ValueError:
        raise RunError(f"{path}: is no valid JSON; take another copy of this file") from None


def read_json_if_there(path: Path) -> dict[str, Any]:
    """The same; nothing where there is no such file."""
    return read_json(path) if path.exists() else {}


@dataclass(frozen=True)
class Side:
    """What one side of a translation model needs beside the vocabulary.

    Attributes:
        opening: the id that every text begins with.
        start: the id from which a decoder starts; the piece that begins a sequence unless given.
        silent: ids that must not be written.
    """

    opening: int | None = None
    start: int | None = None
    silent: frozenset[int] = frozenset()


def read_text_vocabulary(folder: Path, *, kind: str, size: int, side: Side | None = None) -> HuggingFace:
    """The vocabulary of all but Marian in a folder: tokenizer.json, else vocab.txt or vocab.json and merges.txt.

    Args:
        folder: where.
        kind: bert, electra, roberta-prelayernorm, gpt2, gpt_neox or bart.
        size: entries of the model's tables.
        side: of a translation model.

    Raises:
        RunError: files are missing or damaged, or of a kind that heedful does not know.
        MissingExtraError: the package tokenizers is not installed.
    """
    settings = read_json_if_there(folder / "tokenizer_config.json")
    names = _special_names(folder, settings, kind)
    content = _content(folder, settings, bert=kind in _WORD_PIECES, unk=names.get("unk_token", ""))
    added = content.get("added_tokens") or []
    _require_added(added, folder)
    ids = _ids(content["model"]["vocab"], folder)
    ids |= {each["content"]: each["id"] for each in added}
    roles = _BERT if kind in _READERS else _OTHERS
    found = {role: ids[names[key]] for role, key in roles.items() if names.get(key) in ids}
    if "bos" not in found or "eos" not in found:
        raise RunError(f"{folder}: the vocabulary has no piece that begins or ends a text; take a complete copy of it")
    eos, side = found["eos"], side or Side()
    unk = found.get("unk")
    if unk in (found["bos"], eos):  # GPT-2, whose bytes leave nothing unknown
        unk = None
    others = {int(each["id"]) for each in added if each.get("special")} | side.silent | {found["bos"]}
    if (pad := ids.get(names.get("pad_token", ""))) is not None:
        others.add(pad)
    start = found["bos"] if side.start is None else side.start
    special = Special(start, eos, unk, found.get("mask"), others=frozenset(others - {eos, unk}))
    try:
        return HuggingFace(content, special=special, size=size, opening=() if side.opening is None else (side.opening,))
    except DataError as error:
        raise RunError(f"{folder}: {error}") from None


def read_marian(
    folder: Path, *, sizes: tuple[int, int], start: int, silent: frozenset[int]
) -> tuple[MarianPieces, MarianPieces]:
    """Source and target vocabulary of a Marian model: source.spm, target.spm, vocab.json, target_vocab.json.

    Args:
        folder: where.
        sizes: entries of the model's tables.
        start: the id from which the decoder starts.
        silent: ids that must not be written.

    Raises:
        RunError: a file is missing or damaged.
    """
    settings = read_json_if_there(folder / "tokenizer_config.json")
    names = _special_names(folder, settings, "marian")
    separate = bool(settings.get("separate_vocabs"))
    made = []
    for side, name, size, never in (
        ("source", "vocab.json", sizes[0], frozenset[int]()),
        ("target", "target_vocab.json" if separate else "vocab.json", sizes[1], silent),
    ):
        ids = _ids(read_json(folder / name), folder / name)
        for key in ("eos_token", "unk_token"):
            if names[key] not in ids:
                raise RunError(f"{folder / name}: has no {names[key]!r}, the {key} of this model; take another copy")
        pad = ids.get(names["pad_token"])
        eos, unk = ids[names["eos_token"]], ids[names["unk_token"]]
        others = never | (frozenset() if pad is None else {pad})
        special = Special(start, eos, unk, others=others - {eos})
        path = folder / f"{side}.spm"
        try:
            asks = side == "source"
            made.append(MarianPieces(read_bytes(path), ids, special=special, size=size, asks=asks))
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror}); take a complete copy of this folder") from None
        except DataError as error:
            raise RunError(f"{folder}: {error}") from None
    return made[0], made[1]


def _special_names(folder: Path, settings: Mapping[str, Any], kind: str) -> dict[str, str]:
    """What the special pieces are called."""
    found = dict(_NAMES[kind])
    for source in (read_json_if_there(folder / "special_tokens_map.json"), settings):
        for key in (*_NAMES[kind], "mask_token", "pad_token"):
            value = source.get(key)
            if isinstance(value, dict):
                value = value.get("content")
            if isinstance(value, str):
                found[key] = value
    return found


def _content(folder: Path, settings: Mapping[str, Any], *, bert: bool, unk: str) -> dict[str, Any]:
    """What tokenizer.json holds, or would hold."""
    whole, text, pieces, merges = (
        folder / name for name in ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt")
    )
    if whole.exists():
        content = read_json(whole)
        if not isinstance(content.get("model"), dict) or not isinstance(content["model"].get("vocab"), dict):
            raise RunError(f"{whole}: has no list of pieces; heedful reads WordPiece, and BPE of bytes")
        return _with_cases(content, settings)
    if bert and text.exists():
        known = {piece: number for number, piece in enumerate(_lines(text))}
        if unk not in known:
            raise RunError(
                f"{text}: has no piece {unk!r}, which stands for unknown words; say in tokenizer_config.json which "
                "does (unk_token), or take another copy"
            )
        content = word_piece(
            known,
            lowercase=_chosen(settings, "do_lower_case"),
            strip_accents=settings.get("strip_accents"),
            chinese=_chosen(settings, "tokenize_chinese_chars"),
            unk=unk,
        )
    elif not bert and pieces.exists() and merges.exists():
        pairs = [line for line in _lines(merges) if line and not line.startswith("#version")]
        prefix_space = bool(settings.get("add_prefix_space", False))
        content = byte_level(_ids(read_json(pieces), pieces), pairs, prefix_space=prefix_space)
    else:
        wanted = "vocab.txt" if bert else "vocab.json with merges.txt"
        raise RunError(f"{folder}: holds no vocabulary; it needs tokenizer.json, or {wanted}")
    return {**content, "added_tokens": _added(folder, settings)}


def _chosen(settings: Mapping[str, Any], key: str) -> bool:
    """A setting that is true where nobody says otherwise."""
    value = settings.get(key)
    return True if value is None else bool(value)


def _with_cases(content: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the settings say of letters outranks the file, as in transformers."""
    normalizer = content.get("normalizer")
    if not isinstance(normalizer, dict) or normalizer.get("type") != "BertNormalizer":
        return content
    keys = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "handle_chinese_chars",
    }
    changed = {ours: settings[theirs] for theirs, ours in keys.items() if settings.get(theirs) is not None}
    return {**content, "normalizer": {**normalizer, **changed}}


def _added(folder: Path, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Pieces that came to the vocabulary later."""
    known = settings.get("added_tokens_decoder")
    if isinstance(known, dict):
        every = [(number, each) for number, each in known.items() if isinstance(each, dict)]
        if any(not number.isdecimal() or len(number) > _DIGITS for number, _ in every):
            raise RunError(f"{folder / 'tokenizer_config.json'}: added_tokens_decoder names ids that are not numbers")
        return [{"id": int(number), **each} for number, each in every]
    path = folder / "added_tokens.json"
    later = _ids(read_json(path), path) if path.exists() else {}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return [{"id": number, "content": piece, **plain} for piece, number in later.items()]


def _require_added(added: Any, folder: Path) -> None:
    """A `RunError` where these are not pieces with their ids."""
    if not isinstance(added, list) or not all(
        isinstance(each, dict) and isinstance(each.get("content"), str) and type(each.get("id")) is int
        for each in added
    ):
        raise RunError(f"{folder}: the pieces that were added to its vocabulary have no ids; take another copy")


def _ids(content: Mapping[str, Any], path: Path) -> dict[str, int]:
    if not content or not all(type(number) is int and number >= 0 for number in content.values()):
        raise RunError(f"{path}: is no list of pieces with their ids; take another copy of this file")
    return dict(content)


def _lines(path: Path) -> list[str]:
    try:
        return read_text(path).removesuffix("\n").split("\n")
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); take a complete copy of this folder") from None
    except UnicodeDecodeError:
        raise RunError(f"{path}: is not UTF-8; take another copy of this file") from None
