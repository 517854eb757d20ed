"""A detector of replaced tokens as its user sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float

from heedful.data.bucketing import plan_by_length
from heedful.data.tokenizers import Tokenizer
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.tasks.embedder import Embedder


@dataclass(frozen=True)
class Suspicion:
    """A piece of a text, and how probable it is that something else was written there."""

    piece: str
    probability: float


@final
class Detector:
    """A detector of replaced tokens with its tokenizer.

    Args:
        model: in evaluation mode.
        tokenizer: that it was trained with.
        max_length: tokens that it reads, begin and end included.
    """

    def __init__(self, model: ReplacedTokenDetector, *, tokenizer: Tokenizer, max_length: int) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.embedder = Embedder(model.encoder, tokenizer=tokenizer, max_length=max_length)

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int = 4096,
        first: int = 1,
        cut: Callable[[int], None] | None = None,
    ) -> Float[np.ndarray, "N d_model"]:
        """A vector for each text; see `Embedder.embed`."""
        return self.embedder.embed(texts, batch_tokens=batch_tokens, first=first, cut=cut)

    def detect(self, texts: Sequence[str], *, first: int = 1) -> list[list[Suspicion]]:
        """For each piece of each text how probable it is that it was replaced.

        Args:
            texts: one string each.
            first: number of the first text, for messages.

        Raises:
            DataError: a text is longer than the model reads; the message names it.
        """
        framed = [self.embedder.framed(self.tokenizer.encode(text), number) for number, text in enumerate(texts, first)]
        found: dict[int, list[Suspicion]] = {}
        for rows in plan_by_length(np.array([len(ids) for ids in framed], dtype=np.int64), tokens=4096, rows=64):
            with torch.inference_mode():
                chances = self.model(self.embedder.tokens([framed[row] for row in rows])).sigmoid().tolist()
            for row, each in zip(rows.tolist(), chances, strict=True):
                pieces = self.tokenizer.pieces(framed[row][1:-1])
                found[row] = [Suspicion(*pair) for pair in zip(pieces, each[1 : len(pieces) + 1], strict=True)]
        return [found[row] for row in range(len(texts))]
