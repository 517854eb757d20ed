"""A trained tagger as its user sees it: sentences in, tags out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from heedful.data.batches import tokens_of
from heedful.data.bucketing import plan_by_length
from heedful.data.labels import Labels
from heedful.data.tagged import encode_words
from heedful.data.tokenizers import PAD, Tokenizer
from heedful.models.token_classifier import TokenClassifier
from heedful.values import move


@dataclass(frozen=True)
class Tag:
    """The tag of a word, and its probability."""

    word: str
    name: str
    probability: float


class Tagger:
    """A model with the tokenizer and the tags it was trained with.

    Args:
        model: in evaluation mode.
        tokenizer: of the words.
        tags: their names.
    """

    def __init__(self, model: TokenClassifier, *, tokenizer: Tokenizer, tags: Labels) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.tags = tags
        self.device = next(model.parameters()).device

    def tag(self, sentences: Sequence[Sequence[str]], *, batch_tokens: int = 4096) -> list[list[Tag]]:
        """The most probable tag of each word of each sentence; a sentence without words has none."""
        encoded = [encode_words(self.tokenizer, words) for words in sentences]
        lengths = np.array([len(ids) for ids, _ in encoded], dtype=np.int64)
        found: list[list[Tag]] = [[] for _ in sentences]
        for rows in plan_by_length(lengths, tokens=batch_tokens, rows=batch_tokens):
            real = [row for row in rows.tolist() if lengths[row]]
            if not real:
                continue
            block = np.full((len(real), int(lengths[real].max())), PAD, dtype=np.int64)
            for line, row in zip(block, real, strict=True):
                line[: lengths[row]] = encoded[row][0]
            with torch.inference_mode():
                hidden = self.model(move(tokens_of(block), self.device))
                best = self.model.output(hidden).softmax(-1).max(-1)
            chances, numbers = best.values.tolist(), best.indices.tolist()
            for at, row in enumerate(real):
                found[row] = [
                    Tag(word, self.tags.names[numbers[at][begin]], chances[at][begin])
                    for word, begin in zip(sentences[row], encoded[row][1], strict=True)
                ]
        return found
