"""Sentences whose words have tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from heedful.data.batches import tokens_of
from heedful.data.corpus import Corpus, Encoding
from heedful.data.labels import Labels
from heedful.data.tagged import TaggedSentence
from heedful.data.tokenizers import Tokenizer
from heedful.metrics.classes import hits
from heedful.metrics.entities import entity_metrics
from heedful.metrics.metric import Metric, Ratio
from heedful.values import Tokens

_PREFIXES = ("B", "I", "E", "L", "S", "U")
_STAND_INS = tuple(f"{prefix}-\0" for prefix in _PREFIXES)


@dataclass(frozen=True)
class TaggedBatch:
    """Sentences, and the tag of each word at its first token; -1 where there is none.

    A tag that the training text lacks has a number that no model can say.
    """

    tokens: Tokens
    tags: Int[Tensor, "B T"]


def encode_words(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[list[int], list[int]]:
    """The ids of words that are cut one by one, and where each begins; what has no piece is unknown."""
    unknown = tokenizer.special.eos if tokenizer.special.unk is None else tokenizer.special.unk
    ids: list[int] = []
    begins: list[int] = []
    for word in words:
        begins.append(len(ids))
        ids += tokenizer.encode(word) or [unknown]
    return ids, begins


def framed_words(tokenizer: Tokenizer, words: Sequence[str], *, framed: bool) -> tuple[list[int], list[int]]:
    """As `encode_words`, between a begin and an end where the model reads them."""
    ids, begins = encode_words(tokenizer, words)
    if not framed:
        return ids, begins
    special = tokenizer.special
    return [special.bos, *ids, special.eos], [begin + 1 for begin in begins]


@dataclass(frozen=True)
class Stretch:
    """Words of a long sentence that are read together, and those of them whose tags are taken from this reading."""

    read: range
    taken: range


def stretches(sizes: Sequence[int], *, room: int) -> list[Stretch]:
    """Words with at most `room` ids each time, so that every word is taken once, with context on both sides.

    Stretches overlap by half; in what two of them share, each gives the tags of its own half. A word that has more ids
    than there is room for is read alone.

    Args:
        sizes: ids of each word, at least 1.
        room: ids that are read at a time, at least 1.
    """
    ends = np.cumsum(sizes)
    if not len(ends) or ends[-1] <= room:
        return [Stretch(range(len(sizes)), range(len(sizes)))] if len(ends) else []
    reads: list[range] = []
    start = 0
    while True:
        before = int(ends[start] - sizes[start])
        stop = max(start + 1, int(np.searchsorted(ends, before + room, side="right")))
        reads.append(range(start, stop))
        if stop == len(sizes):
            break
        start = max(start + 1, min(stop, int(np.searchsorted(ends, before + room // 2, side="right"))))
    borders = [0, *((a.stop + b.start + 1) // 2 for a, b in pairwise(reads)), len(sizes)]
    return [Stretch(read, range(*border)) for read, border in zip(reads, pairwise(borders), strict=True)]


def stand_in(tag: str) -> str:
    """What stands for a tag that the training text lacks: the same part of an entity of a type that no file holds."""
    prefix = tag.partition("-")[0]
    return _STAND_INS[_PREFIXES.index(prefix) if prefix in _PREFIXES else 0]


def with_stand_ins(tags: Labels) -> tuple[str, ...]:
    """The names that `TaggedBatch.tags` counts: the known ones, then those of tags that the training text lacks."""
    return (*tags.names, *_STAND_INS)


def tag_metrics(found: Sequence[Sequence[str]], golds: Sequence[Sequence[str]], *, entities: bool) -> dict[str, Metric]:
    """The share of words whose tag is right, and where `entities` their precision, recall and F1; weighs sentences.

    Raises:
        DataError: sentences or tags that do not match in number.
    """
    right = np.array([float(hits(mine, tags).sum()) for mine, tags in zip(found, golds, strict=True)])
    accuracy = Ratio(right, np.array([float(len(tags)) for tags in golds]))
    return {"accuracy": accuracy, **(entity_metrics(found, golds) if entities else {})}


def tagged_encoding(
    tokenizer: Tokenizer, tags: Labels, *, max_length: int, framed: bool = False
) -> Encoding[TaggedSentence]:
    """Tokens, and the label of each: one more than the tag's number in `with_stand_ins`, or 0 where there is none.

    Args:
        tokenizer: of the words.
        tags: their names.
        max_length: ids of a sentence at most.
        framed: whether it is read between a begin and an end.
    """
    numbers = {name: number for number, name in enumerate(with_stand_ins(tags), 1)}

    def encode(sentence: TaggedSentence) -> tuple[list[int] | None, list[int] | None]:
        ids, begins = framed_words(tokenizer, sentence.words, framed=framed)
        if len(ids) > max_length:
            return None, None
        labels = [0] * len(ids)
        for begin, tag in zip(begins, sentence.tags, strict=True):
            labels[begin] = numbers[tag if tags.id(tag) is not None else stand_in(tag)]
        return ids, labels

    sizes = {"tokens": tokenizer.size, "tags": len(numbers) + 1}
    return Encoding(sizes, encode, identity=lambda sentence: (sentence.words, sentence.tags))


def collate_tagged(corpus: Corpus, rows: Integer[np.ndarray, " B"]) -> TaggedBatch:
    """The sentences in `rows`, padded on the right."""
    tags = np.maximum(corpus["tags"].padded(rows) - 1, -1)
    return TaggedBatch(tokens_of(corpus["tokens"].padded(rows)), torch.from_numpy(tags))
