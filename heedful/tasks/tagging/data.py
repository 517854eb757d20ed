"""Tagged sentences: encoding, windows over long sentences, and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from heedful.data.batches import to_tokens
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.tagged import TaggedSentence
from heedful.data.tokenizers import Tokenizer
from heedful.metrics.classification import match_labels
from heedful.metrics.metric import Metric, RatioMetric
from heedful.metrics.spans import compute_entity_metrics
from heedful.tensors import Tokens

_PREFIXES = ("B", "I", "E", "L", "S", "U")
_PLACEHOLDER_TAGS = tuple(f"{prefix}-\0" for prefix in _PREFIXES)


@dataclass(frozen=True)
class TaggedBatch:
    """A batch of sentences, with the tag of each word at its first token and -1 elsewhere.

    A tag that the training text lacks has a number that no model can predict.
    """

    tokens: Tokens
    tags: Int[Tensor, "B T"]


def encode_words(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[list[int], list[int]]:
    """Encode words one by one; return the ids, and the index of each word's first id.

    Words without ids become the unknown token.
    """
    unknown = tokenizer.special.eos if tokenizer.special.unk is None else tokenizer.special.unk
    ids: list[int] = []
    word_starts: list[int] = []
    for word in words:
        word_starts.append(len(ids))
        ids += tokenizer.encode(word) or [unknown]
    return ids, word_starts


def encode_framed_words(tokenizer: Tokenizer, words: Sequence[str], *, framed: bool) -> tuple[list[int], list[int]]:
    """Encode words as `encode_words`, with start and end tokens around them if `framed`."""
    ids, word_starts = encode_words(tokenizer, words)
    if not framed:
        return ids, word_starts
    special = tokenizer.special
    return [special.bos, *ids, special.eos], [start + 1 for start in word_starts]


@dataclass(frozen=True)
class WordWindow:
    """Words of a long sentence that are read together, and those of them whose tags are kept."""

    words: range
    kept: range


def make_overlapping_windows(sizes: Sequence[int], *, max_ids: int) -> list[WordWindow]:
    """Cut a sentence, given as the number of ids of each word, into windows of at most `max_ids` ids so that each word
    is kept once, with context around it.

    Consecutive windows overlap by half; each keeps the tags of its own half of the overlap. A word that has more than
    `max_ids` ids is read alone.

    Args:
        sizes: number of ids of each word, at least 1.
        max_ids: ids per window, at least 1.
    """
    ends = np.cumsum(sizes)
    if not len(ends) or ends[-1] <= max_ids:
        return [WordWindow(range(len(sizes)), range(len(sizes)))] if len(ends) else []
    windows: list[range] = []
    start = 0
    while True:
        before = int(ends[start] - sizes[start])
        stop = max(start + 1, int(np.searchsorted(ends, before + max_ids, side="right")))
        windows.append(range(start, stop))
        if stop == len(sizes):
            break
        start = max(start + 1, min(stop, int(np.searchsorted(ends, before + max_ids // 2, side="right"))))
    borders = [0, *((a.stop + b.start + 1) // 2 for a, b in pairwise(windows)), len(sizes)]
    return [WordWindow(read, range(*border)) for read, border in zip(windows, pairwise(borders), strict=True)]


def get_placeholder_tag(tag: str) -> str:
    """Return the placeholder for an unknown tag: the same prefix with an entity type that no file has."""
    prefix = tag.partition("-")[0]
    return _PLACEHOLDER_TAGS[_PREFIXES.index(prefix) if prefix in _PREFIXES else 0]


def list_tags_with_placeholders(tags: LabelVocabulary) -> tuple[str, ...]:
    """Return the names that `TaggedBatch.tags` numbers: the known tags, then the placeholders."""
    return (*tags.names, *_PLACEHOLDER_TAGS)


def compute_tag_metrics(
    predictions: Sequence[Sequence[str]], golds: Sequence[Sequence[str]], *, entities: bool
) -> dict[str, Metric]:
    """Compare predicted tags of sentences with the right ones, and return tag accuracy and, if `entities`, entity
    precision, recall and F1, resampled by sentences.

    Raises:
        DataError: the numbers of sentences or tags do not match.
    """
    num_correct = np.array(
        [float(match_labels(predicted, tags).sum()) for predicted, tags in zip(predictions, golds, strict=True)]
    )
    accuracy = RatioMetric(num_correct, np.array([float(len(tags)) for tags in golds]))
    return {"accuracy": accuracy, **(compute_entity_metrics(predictions, golds) if entities else {})}


def build_tagging_encoding(
    tokenizer: Tokenizer, tags: LabelVocabulary, *, max_length: int, framed: bool = False
) -> ExampleEncoder[TaggedSentence]:
    """Return the encoding of tokens and labels: one more than the tag's number, or 0 for tokens without a tag. With
    `framed`, a sentence is read between start and end tokens.

    Tags are numbered as in `list_tags_with_placeholders`.

    Args:
        tokenizer: of the words.
        tags: the tag names.
        max_length: maximal number of ids of a sentence.
        framed: whether it is read between start and end tokens.
    """
    numbers = {name: number for number, name in enumerate(list_tags_with_placeholders(tags), 1)}

    def encode(sentence: TaggedSentence) -> tuple[list[int] | None, list[int] | None]:
        """Return the ids and labels of a sentence, or None for both if it is too long."""
        ids, word_starts = encode_framed_words(tokenizer, sentence.words, framed=framed)
        if len(ids) > max_length:
            return None, None
        labels = [0] * len(ids)
        for start, tag in zip(word_starts, sentence.tags, strict=True):
            labels[start] = numbers[tag if tags.get_id(tag) is not None else get_placeholder_tag(tag)]
        return ids, labels

    sizes = {"tokens": tokenizer.size, "tags": len(numbers) + 1}
    return ExampleEncoder(sizes, encode, identity_key=lambda sentence: (sentence.words, sentence.tags))


def collate_tagged(corpus: Corpus, rows: Integer[np.ndarray, " B"]) -> TaggedBatch:
    """Collate the sentences in `rows` of a corpus, padded on the right."""
    tags = np.maximum(corpus["tags"].collate_ids(rows) - 1, -1)
    return TaggedBatch(to_tokens(corpus["tokens"].collate_ids(rows)), torch.from_numpy(tags))
