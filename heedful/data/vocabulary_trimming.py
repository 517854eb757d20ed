"""Smaller vocabularies of published models: the pieces that some texts use, with new ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from jaxtyping import Bool

from heedful.data.pretrained_tokenizers import (
    BYTE_PIECE,
    HuggingFaceTokenizer,
    MappedSentencePieceTokenizer,
    PretrainedTokenizer,
)
from heedful.errors import RunError

_ROLES: Final = ("bos", "eos", "unk", "mask", "document_bos")


def find_needed_ids(tokenizer: PretrainedTokenizer, texts: Iterable[str]) -> Bool[np.ndarray, " size"]:
    """Return for each id whether the texts need it: the pieces that they are split into and, for BPE, those that are
    merged into them; all special pieces and languages; bytes, and single characters that occur in the texts.

    Args:
        tokenizer: of the model.
        texts: texts in all languages that the model should read or write.
    """
    needed = np.zeros(tokenizer.size, dtype=bool)
    characters: set[str] = set()
    for text in texts:
        needed[tokenizer.encode(text)] = True
        characters.update(tokenizer.normalise(text))
    special = tokenizer.special
    roles = [number for role in _ROLES if (number := getattr(special, role)) is not None]
    named = [number for number in special.others if number < tokenizer.num_known_ids]
    needed[[*roles, *named, *tokenizer.prefix_ids, *tokenizer.tag_ids.values()]] = True
    works_on_bytes = isinstance(tokenizer, HuggingFaceTokenizer) and tokenizer.model_kind == "ByteLevel"
    for piece, number in tokenizer.ids.items():
        letter = piece.removeprefix("##").removeprefix("▁")
        is_letter = len(letter) <= 1 and (works_on_bytes or not letter or letter in characters)
        needed[number] |= is_letter or BYTE_PIECE.fullmatch(piece) is not None
    if isinstance(tokenizer, HuggingFaceTokenizer):
        _add_merged_parts(tokenizer, needed)
    return needed


def _add_merged_parts(tokenizer: HuggingFaceTokenizer, needed: Bool[np.ndarray, " size"]) -> None:
    """Mark the pieces from which BPE merges a needed piece, directly or in several steps."""
    parts_by_piece: dict[str, list[str]] = {}
    for first, second in _read_merges(tokenizer.content["model"]):
        parts_by_piece.setdefault(first + second, []).extend((first, second))
    waiting = [piece for piece, number in tokenizer.ids.items() if needed[number]]
    while waiting:
        for part in parts_by_piece.pop(waiting.pop(), ()):
            needed[tokenizer.ids[part]] = True
            waiting.append(part)


def _read_merges(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the merges of a BPE model in their order, in either form of tokenizer.json; none for other models."""
    pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model.get("merges") or ())
    return [(first, second) for first, second in pairs]


def trim_tokenizer(tokenizer: PretrainedTokenizer, kept_ids: Sequence[int]) -> PretrainedTokenizer:
    """Return a tokenizer with some pieces of another: the new id of a piece is the index of its old id in `kept_ids`,
    which must be in ascending order and contain all that `find_needed_ids` marks. A text that the old tokenizer splits
    into kept pieces is split in the same way.

    Raises:
        RunError: the pieces are bytes, of which none can be left out.
    """
    new_ids = {old: new for new, old in enumerate(kept_ids)}
    ids = {piece: new_ids[number] for piece, number in tokenizer.ids.items() if number in new_ids}
    roles: dict[str, Any] = {role: new_ids.get(getattr(tokenizer.special, role)) for role in _ROLES}
    others = frozenset(new_ids[number] for number in tokenizer.special.others if number in new_ids)
    start_ids = tuple(new_ids[number] for number in tokenizer.special.suppressed_start_ids if number in new_ids)
    options: dict[str, Any] = {
        "special": replace(tokenizer.special, others=others, suppressed_start_ids=start_ids, **roles),
        "size": len(kept_ids),
        "prefix_ids": tuple(new_ids[number] for number in tokenizer.prefix_ids),
        "tag_ids": {tag: new_ids[number] for tag, number in tokenizer.tag_ids.items()},
    }
    if isinstance(tokenizer, MappedSentencePieceTokenizer):
        return MappedSentencePieceTokenizer(tokenizer.model, ids, **options)
    if isinstance(tokenizer, HuggingFaceTokenizer):
        return HuggingFaceTokenizer(_trim_content(tokenizer.content, ids), **options)
    raise RunError("the pieces of this model are bytes, so there is nothing to leave out")


def _trim_content(content: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    """Return the content of tokenizer.json with the pieces of `ids` alone, which has their new ids. The merges between
    kept pieces stay in their order, so that each text is merged as before.
    """
    model = dict(content["model"])
    if isinstance(model["vocab"], list):  # a unigram model: pieces with their log-probabilities, in the order of ids
        if model.get("unk_id") is not None:
            model["unk_id"] = ids[model["vocab"][model["unk_id"]][0]]
        model["vocab"] = [entry for entry in model["vocab"] if entry[0] in ids]
    else:
        model["vocab"] = {piece: ids[piece] for piece in model["vocab"] if piece in ids}
    if "merges" in model:
        model["merges"] = [[*pair] for pair in _read_merges(model) if {*pair, "".join(pair)} <= ids.keys()]
    added = [{**entry, "id": ids[entry["content"]]} for entry in content.get("added_tokens") or ()]
    return {
        **content,
        "model": model,
        "added_tokens": added,
        "post_processor": _renumber_specials(content.get("post_processor"), ids),
    }


def _renumber_specials(processor: Any, ids: Mapping[str, int]) -> Any:
    """Return a post-processor of tokenizer.json with new ids of the special pieces that it adds to texts."""
    if isinstance(processor, list):
        if len(processor) == 2 and isinstance(processor[0], str) and isinstance(processor[1], int):
            return [processor[0], ids[processor[0]]]  # [CLS] or [SEP] with its id
        return [_renumber_specials(item, ids) for item in processor]
    if not isinstance(processor, dict):
        return processor
    if isinstance(tokens := processor.get("tokens"), list) and "ids" in processor:
        return {**processor, "ids": [ids[token] for token in tokens]}
    return {key: _renumber_specials(value, ids) for key, value in processor.items()}
