"""Reading of the files in Hugging Face folders that hold no weights: vocabularies and generation settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from heedful.architectures.stack import DecoderConfig
from heedful.data.pretrained_tokenizers import (
    ByteTokenizer,
    HuggingFaceTokenizer,
    MappedSentencePieceTokenizer,
    PretrainedTokenizer,
    build_byte_level_json,
    build_wordpiece_json,
    list_language_tags,
    load_sentencepiece,
)
from heedful.data.tokenizers import SpecialIds
from heedful.errors import DataError, RunError
from heedful.files import parse_json, read_bytes, read_text
from heedful.foreign.families.model_family import ModelFamily, validate_config
from heedful.recipes.generation import ContinuationConfig, GenerationConfig

HEEDFUL_VOCABULARY: Final = "heedful.vocabulary"
"""File name of a heedful vocabulary, in a folder that heedful exported."""
_NO_LIMIT: Final = str(int(1e30))
"""The number that transformers writes for texts of any length; it has more than 64 bits."""
_MAX_ID_DIGITS: Final = 9
"""Number of digits of the largest id."""
HEEDFUL_SIDES: Final = ("heedful.source", "heedful.target")
"""File names of the source and target vocabulary, in a folder that heedful exported."""
SENTENCEPIECE_FILES: Final = ("sentencepiece.bpe.model", "spiece.model", "tokenizer.model", "sentencepiece.model")
"""File names of sentencepiece models in folders of all families but Marian."""
_LANGUAGE_LAST: Final = ("MBartTokenizer", "MBartTokenizerFast")
"""Tokenizer classes that put the language behind a text."""
BYTE_CLASS: Final = "ByT5Tokenizer"
"""Tokenizer class of folders whose pieces are bytes; they have no vocabulary file."""
_ENCODER_ROLES: Final = {"bos": "cls_token", "eos": "sep_token", "unk": "unk_token", "mask": "mask_token"}
_DECODER_ROLES: Final = {"bos": "bos_token", "eos": "eos_token", "unk": "unk_token", "mask": "mask_token"}


def read_json_object(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file; raise RunError if there is none."""
    content = _parse_json(path)
    if not isinstance(content, dict):
        raise RunError(f"{path}: is not a JSON object; take another copy of this file")
    return content


def read_json_list(path: Path) -> list[Any]:
    """Read the list in a JSON file; raise RunError if there is none."""
    content = _parse_json(path)
    if not isinstance(content, list):
        raise RunError(f"{path}: is not a JSON list; take another copy of this file")
    return content


def _parse_json(path: Path) -> Any:
    """Parse a JSON file; raise RunError if it cannot be read."""
    try:
        return parse_json(read_text(path).replace(_NO_LIMIT, "1e30"))
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); take a complete copy of this folder") from None
    except ValueError:
        raise RunError(f"{path}: is not valid JSON; take another copy of this file") from None


def read_json_or_empty(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file; return an empty one if the file does not exist."""
    return read_json_object(path) if path.exists() else {}


@dataclass(frozen=True)
class TranslationSide:
    """Token settings of the source or target side of a translation model.

    Attributes:
        opening: id of the first token of every text.
        start: id that a decoder starts from; by default the piece that begins a sequence.
        forbidden: ids that must not be generated.
        language_key: key of the default language in tokenizer_config.json: `src_lang` or `tgt_lang`.
        format_tag: returns the tag of a language on this side; None if texts of this side name no language.
    """

    opening: int | None = None
    start: int | None = None
    forbidden: frozenset[int] = frozenset()
    language_key: str = ""
    format_tag: Callable[[str], str] | None = None


@dataclass(frozen=True)
class _FolderPieces:
    """The pieces of a folder.

    Attributes:
        ids: ids of all pieces.
        special_ids: those that are marked as special.
        doubles_separator: see `SpecialIds`.
        build: builds the tokenizer from its special ids, size and the other options of all of them.
    """

    ids: Mapping[str, int]
    special_ids: frozenset[int]
    doubles_separator: bool
    build: Callable[..., PretrainedTokenizer]


def read_text_vocabulary(
    folder: Path, *, family: ModelFamily, size: int, side: TranslationSide | None = None
) -> PretrainedTokenizer:
    """Read the vocabulary of any family but Marian: tokenizer.json, else vocab.txt, or vocab.json with merges.txt, or a
    sentencepiece model; ByT5 needs no file. `size` is the number of rows of the embedding table; `side` has the token
    settings of a translation model.

    Args:
        folder: of the model.
        family: any but Marian.
        size: number of rows of the model's embedding table.
        side: of a translation model.

    Raises:
        RunError: files are missing or damaged, or of a kind that heedful does not support.
        MissingExtraError: the package tokenizers is not installed.
    """
    settings = read_json_or_empty(folder / "tokenizer_config.json")
    names = _read_special_tokens(folder, settings, family)
    if family.language_pieces is not None and settings.get("tokenizer_class") in _LANGUAGE_LAST:
        raise RunError(
            f"{folder}: tokenizer_class = {settings['tokenizer_class']}: these models read the language behind the "
            "text, and heedful before it, as mBART-50; take a model of that kind"
        )
    try:
        pieces = _read_pieces(folder, settings, family=family, unk=names.get("unk_token", ""))
        ids = pieces.ids
        roles = _ENCODER_ROLES if "cls_token" in family.special_tokens else _DECODER_ROLES
        special_ids = {role: ids[names[key]] for role, key in roles.items() if names.get(key) in ids}
        if side is not None and "eos" in special_ids:  # no text of a translation model needs to begin with a piece
            special_ids.setdefault("bos", special_ids["eos"])
        if "bos" not in special_ids or "eos" not in special_ids:
            raise DataError("the vocabulary has no piece that begins or ends a text; take a complete copy of it")
        eos, side = special_ids["eos"], side or TranslationSide()
        unk = special_ids.get("unk")
        if unk in (special_ids["bos"], eos):  # GPT-2 has no unknown pieces, because it works on bytes
            unk = None
        languages = family.find_languages(ids)
        default = languages.get(str(settings.get(side.language_key)))
        opening = default if side.opening is None else side.opening
        other_ids = pieces.special_ids | side.forbidden | {special_ids["bos"]} | frozenset(languages.values())
        if (pad := ids.get(names.get("pad_token", ""))) is not None:
            other_ids |= {pad}
        start = special_ids["bos"] if side.start is None else side.start
        begins_documents = family.config_class is DecoderConfig and settings.get("add_bos_token") is not False
        special = SpecialIds(
            start,
            eos,
            unk,
            special_ids.get("mask"),
            others=other_ids - {eos, unk},
            document_bos=start if begins_documents and start != eos else None,
            doubles_separator=pieces.doubles_separator,
        )
        return pieces.build(
            special=special,
            size=size,
            prefix_ids=() if opening is None else (opening,),
            tag_ids={side.format_tag(language): number for language, number in languages.items()}
            if side.format_tag
            else None,
        )
    except DataError as error:
        raise RunError(f"{folder}: {error}") from None


def _doubles_separator(processor: Any, *, default: bool) -> bool:
    """Return whether the post-processor of a tokenizer.json joins two texts with two separators; `default` if it does
    not say how.
    """
    if not isinstance(processor, Mapping):
        return default
    match processor.get("type"):
        case "RobertaProcessing" | "BertProcessing" as kind:
            return bool(kind == "RobertaProcessing")
        case "TemplateProcessing":
            kinds = [next(iter(part), "") for part in processor.get("pair") or () if isinstance(part, Mapping)]
            return "Sequence SpecialToken SpecialToken Sequence" in " ".join(kinds)
        case "Sequence":
            return any(_doubles_separator(part, default=False) for part in processor.get("processors") or ())
    return default


def read_marian_vocabularies(
    folder: Path, *, family: ModelFamily, sizes: tuple[int, int], start: int, forbidden: frozenset[int]
) -> tuple[MappedSentencePieceTokenizer, MappedSentencePieceTokenizer]:
    """Read source and target vocabulary of a Marian model: source.spm, target.spm, vocab.json, target_vocab.json.
    `start` is the id that the decoder starts from, and `forbidden` the ids that must not be generated.

    Args:
        folder: of the model.
        family: Marian.
        sizes: number of rows of the model's embedding tables.
        start: id that the decoder starts from.
        forbidden: ids that must not be generated.

    Raises:
        RunError: a file is missing or damaged.
    """
    settings = read_json_or_empty(folder / "tokenizer_config.json")
    names = _read_special_tokens(folder, settings, family)
    separate = bool(settings.get("separate_vocabs"))
    tokenizers = []
    for side, name, size, side_forbidden in (
        ("source", "vocab.json", sizes[0], frozenset[int]()),
        ("target", "target_vocab.json" if separate else "vocab.json", sizes[1], forbidden),
    ):
        ids = _validate_ids(read_json_object(folder / name), folder / name)
        for key in ("eos_token", "unk_token"):
            if names[key] not in ids:
                raise RunError(f"{folder / name}: has no {names[key]!r}, the {key} of this model; take another copy")
        pad = ids.get(names["pad_token"])
        eos, unk = ids[names["eos_token"]], ids[names["unk_token"]]
        other_ids = side_forbidden | (frozenset() if pad is None else {pad})
        special = SpecialIds(start, eos, unk, others=other_ids - {eos})
        path = folder / f"{side}.spm"
        try:
            tokenizers.append(
                MappedSentencePieceTokenizer(
                    read_bytes(path),
                    ids,
                    special=special,
                    size=size,
                    tag_ids=list_language_tags(ids) if side == "source" else None,
                )
            )
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror}); take a complete copy of this folder") from None
        except DataError as error:
            raise RunError(f"{path}: {error}") from None
    return tokenizers[0], tokenizers[1]


def _read_special_tokens(folder: Path, settings: Mapping[str, Any], family: ModelFamily) -> dict[str, str]:
    """Read the special tokens by role, such as `pad_token`, from special_tokens_map.json and from `settings`, the
    content of tokenizer_config.json, which overrides it; by default those of the family.
    """
    names = dict(family.special_tokens)
    for source in (read_json_or_empty(folder / "special_tokens_map.json"), settings):
        for key in (*family.special_tokens, "mask_token", "pad_token"):
            value = source.get(key)
            if isinstance(value, dict):
                value = value.get("content")
            if isinstance(value, str):
                names[key] = value
    return names


def _read_pieces(folder: Path, settings: Mapping[str, Any], *, family: ModelFamily, unk: str) -> _FolderPieces:
    """Read the pieces of a folder from the files that it has. `settings` is the content of tokenizer_config.json; `unk`
    is the unknown piece.
    """
    if settings.get("tokenizer_class") == BYTE_CLASS:
        return _FolderPieces(ByteTokenizer.ids_by_piece, frozenset(), False, ByteTokenizer)
    content = _read_tokenizer_content(folder, settings, bert=family.has_word_pieces, unk=unk)
    if content is None:
        return _read_sentencepiece(folder, settings, family=family)
    added = content.get("added_tokens") or []
    _require_valid_added_tokens(added, folder)
    vocabulary = content["model"]["vocab"]
    if isinstance(vocabulary, list):  # of a unigram model, with log-probabilities
        vocabulary = {entry[0]: number for number, entry in enumerate(vocabulary) if isinstance(entry, list) and entry}
    ids = _validate_ids(vocabulary, folder) | {entry["content"]: entry["id"] for entry in added}
    special_ids = frozenset(int(entry["id"]) for entry in added if entry.get("special"))
    doubles_separator = _doubles_separator(content.get("post_processor"), default=family.doubles_separator)
    return _FolderPieces(ids, special_ids, doubles_separator, partial(HuggingFaceTokenizer, content))


def _read_sentencepiece(folder: Path, settings: Mapping[str, Any], *, family: ModelFamily) -> _FolderPieces:
    """Read the pieces of a sentencepiece model, with the ids of vocab.json if there is one, else those that the family
    gives them. Special pieces of other files, such as languages, follow if they have no id of their own.
    """
    path = next((folder / name for name in SENTENCEPIECE_FILES if (folder / name).exists()), None)
    if path is None:
        expected = "vocab.txt" if family.has_word_pieces else "vocab.json with merges.txt"
        raise DataError(
            f"does not contain a vocabulary; it needs tokenizer.json, or {expected}, or one of "
            f"{', '.join(SENTENCEPIECE_FILES)}; folders that heedful exported have {HEEDFUL_VOCABULARY}"
        )
    model, listed = read_bytes(path), folder / "vocab.json"
    numbering, last = family.piece_numbering, tuple[str, ...]()
    if listed.exists():
        ids = _validate_ids(read_json_object(listed), listed)
    else:
        processor = load_sentencepiece(model)
        ids = numbering.number_pieces(processor.id_to_piece(number) for number in range(processor.vocab_size()))
        last = numbering.last
    ids |= {entry["content"]: entry["id"] for entry in _read_added_tokens(folder, settings)}
    special_names = [*_list_extra_tokens(folder, settings), *last]
    for name in dict.fromkeys(special_names):
        ids.setdefault(name, max(ids.values()) + 1)
    special_ids = frozenset(ids[name] for name in special_names)
    build = partial(MappedSentencePieceTokenizer, model, ids)
    return _FolderPieces(ids, special_ids, family.doubles_separator, build)


def _list_extra_tokens(folder: Path, settings: Mapping[str, Any]) -> list[str]:
    """Return the further special tokens of special_tokens_map.json and of `settings`, the content of
    tokenizer_config.json, such as languages, in their order.
    """
    entries: list[Any] = []
    for source in (read_json_or_empty(folder / "special_tokens_map.json"), settings):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            value = source.get(key)
            entries += value if isinstance(value, list) else []
    names = [entry.get("content") if isinstance(entry, dict) else entry for entry in entries]
    return [name for name in names if isinstance(name, str) and name]


def _read_tokenizer_content(
    folder: Path, settings: Mapping[str, Any], *, bert: bool, unk: str
) -> dict[str, Any] | None:
    """Return the content of tokenizer.json, built from the older files if it does not exist; None if there are none of
    these. `settings` is the content of tokenizer_config.json; `bert` says that the pieces are WordPiece, where `unk` is
    the unknown one.
    """
    tokenizer_file, text, pieces, merges = (
        folder / name for name in ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt")
    )
    if tokenizer_file.exists():
        content = read_json_object(tokenizer_file)
        if not isinstance(content.get("model"), dict) or not isinstance(content["model"].get("vocab"), dict | list):
            raise RunError(f"{tokenizer_file}: has no list of pieces; take another copy of this file")
        return _override_normalizer(content, settings)
    if bert and text.exists():
        vocabulary = {piece: number for number, piece in enumerate(_read_lines(text))}
        if unk not in vocabulary:
            raise RunError(
                f"{text}: has no piece {unk!r}, the piece for unknown words; name the right one in "
                "tokenizer_config.json (unk_token), or take another copy"
            )
        content = build_wordpiece_json(
            vocabulary,
            lowercase=_get_flag(settings, "do_lower_case"),
            strip_accents=settings.get("strip_accents"),
            split_chinese=_get_flag(settings, "tokenize_chinese_chars"),
            unk=unk,
        )
    elif not bert and pieces.exists() and merges.exists():
        pairs = [line for line in _read_lines(merges) if line and not line.startswith("#version")]
        prefix_space = bool(settings.get("add_prefix_space", False))
        content = build_byte_level_json(
            _validate_ids(read_json_object(pieces), pieces), pairs, prefix_space=prefix_space
        )
    else:
        return None
    return {**content, "added_tokens": _read_added_tokens(folder, settings)}


def _get_flag(settings: Mapping[str, Any], key: str) -> bool:
    """Return a boolean setting, true by default."""
    value = settings.get(key)
    return True if value is None else bool(value)


def _override_normalizer(content: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of tokenizer.json with the case and accent settings of tokenizer_config.json, which override
    it as in transformers.
    """
    normalizer = content.get("normalizer")
    if not isinstance(normalizer, dict) or normalizer.get("type") != "BertNormalizer":
        return content
    keys = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "handle_chinese_chars",
    }
    overrides = {key: settings[setting] for setting, key in keys.items() if settings.get(setting) is not None}
    return {**content, "normalizer": {**normalizer, **overrides}}


def _read_added_tokens(folder: Path, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tokens that were added to the vocabulary later, as entries of tokenizer.json, from `settings`, the
    content of tokenizer_config.json, or from added_tokens.json. Raise RunError if an id is not a number.
    """
    decoder = settings.get("added_tokens_decoder")
    if isinstance(decoder, dict):
        entries = [(number, entry) for number, entry in decoder.items() if isinstance(entry, dict)]
        if any(not number.isdecimal() or len(number) > _MAX_ID_DIGITS for number, _ in entries):
            raise RunError(
                f"{folder / 'tokenizer_config.json'}: added_tokens_decoder names ids that are not numbers; take "
                "another copy of this file"
            )
        return [{"id": int(number), **entry} for number, entry in entries]
    path = folder / "added_tokens.json"
    ids = _validate_ids(read_json_object(path), path) if path.exists() else {}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return [{"id": number, "content": piece, **plain} for piece, number in ids.items()]


def _require_valid_added_tokens(added: Any, folder: Path) -> None:
    """Raise RunError, which names the folder, if `added` is not a list of added tokens with content and id."""
    if not isinstance(added, list) or not all(
        isinstance(token, dict) and isinstance(token.get("content"), str) and type(token.get("id")) is int
        for token in added
    ):
        raise RunError(f"{folder}: the pieces that were added to its vocabulary have no ids; take another copy")


def _validate_ids(content: Mapping[str, Any], path: Path) -> dict[str, int]:
    """Return the ids of the pieces in `content`; raise RunError, which names the path, if there are none or an id is
    not a natural number.
    """
    if not content or not all(type(number) is int and number >= 0 for number in content.values()):
        raise RunError(f"{path}: is not a list of pieces with their ids; take another copy of this file")
    return dict(content)


def _read_lines(path: Path) -> list[str]:
    """Read the lines of a text file; raise RunError if it cannot be read."""
    try:
        return read_text(path).removesuffix("\n").split("\n")
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); take a complete copy of this folder") from None
    except UnicodeDecodeError:
        raise RunError(f"{path}: is not UTF-8; take another copy of this file") from None


def read_generation_settings(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the generation settings in `content`, which is that of config.json, overridden by those of
    generation_config.json in the folder.
    """
    overrides = read_json_or_empty(folder / "generation_config.json")
    return {**content, **{key: value for key, value in overrides.items() if value is not None}}


def build_generation_config(settings: Mapping[str, Any], *, max_positions: int, location: str) -> GenerationConfig:
    """Convert beam width, length penalty, sampling and length to the default search of a translation model; other
    settings have no counterpart. `max_positions` is the number of tokens that the model's positions allow.

    Args:
        settings: see `read_generation_settings`.
        max_positions: number of tokens that the model's positions allow.
        location: path for messages.

    Raises:
        RunError: a number is out of range.
    """
    max_tokens = _read_integer(settings, "max_new_tokens", location=location) or (
        (_read_integer(settings, "max_length", location=location) or max_positions) - 1
    )
    table: dict[str, Any] = {"max_ratio": 0.0, "max_extra": max(1, min(max_tokens, max_positions - 1))}
    if settings.get("do_sample"):
        table |= {"kind": "sampling", **_read_sampling(settings)}
    elif (_read_integer(settings, "num_beams", location=location) or 1) > 1:
        table |= {
            "kind": "beam",
            "width": settings["num_beams"],
            "length_penalty": settings.get("length_penalty", 1.0),
            "normalisation": "power",
        }
    else:
        table["kind"] = "greedy"
    config: GenerationConfig = validate_config(GenerationConfig, table, location=location)
    return config


def build_continuation_config(settings: Mapping[str, Any], *, location: str) -> ContinuationConfig:
    """Convert sampling, repetition penalty and length to the settings of a language model; other settings have no
    counterpart. Raise RunError, which names `location`, if a number is out of range.
    """
    table: dict[str, Any] = {"kind": "greedy"}
    if settings.get("do_sample"):
        table = {"kind": "sampling", **_read_sampling(settings)}
    if (max_tokens := settings.get("max_new_tokens")) is not None:
        table["tokens"] = max_tokens
    table["repetition_penalty"] = settings.get("repetition_penalty", 1.0)
    config: ContinuationConfig = validate_config(ContinuationConfig, table, location=location)
    return config


def read_forbidden_tokens(settings: Mapping[str, Any]) -> frozenset[int]:
    """Return the ids of single tokens that must never be generated, by `bad_words_ids` and `suppress_tokens` of the
    generation settings; raise RunError if they are not ids.
    """
    lists, suppressed = settings.get("bad_words_ids") or [], settings.get("suppress_tokens") or []
    if (
        not isinstance(lists, list)
        or not isinstance(suppressed, list)
        or not all(isinstance(item, list) for item in lists)
    ):
        raise RunError(
            "bad_words_ids, suppress_tokens: are not lists of ids; correct config.json and generation_config.json"
        )
    ids = [*(words[0] for words in lists if len(words) == 1), *suppressed]
    if invalid := [item for item in ids if type(item) is not int]:
        raise RunError(f"bad_words_ids, suppress_tokens: {ascii(invalid[0])[:40]} is not an id; correct config.json")
    return frozenset(ids)


def read_token_id(settings: Mapping[str, Any], key: str) -> int | None:
    """Read the token id under `key` from the generation settings, the first one of a list; None if there is none. Raise
    RunError if it is not a number.
    """
    value = settings.get(key)
    if isinstance(value, list):
        value = value[0] if value else None
    return _read_integer({key: value}, key, location="config.json")


def _read_integer(settings: Mapping[str, Any], key: str, *, location: str) -> int | None:
    """Read the integer under `key` from the settings; None if it is missing. Raise RunError, which names `location`, if
    it has another type.
    """
    value = settings.get(key)
    if value is not None and type(value) is not int:
        raise RunError(f"{location}: {key} = {ascii(value)[:40]} is not a whole number; correct it")
    return value


def _read_sampling(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read temperature, top_k, top_p and min_p from the settings of transformers. Without top_k, the 50 most probable
    tokens are kept as there, and with 0 all.
    """
    options = {"temperature": settings.get("temperature", 1.0), "top_k": settings.get("top_k", 50) or None}
    for key in ("top_p", "min_p"):
        if settings.get(key) is not None:
            options[key] = settings[key]
    return options
