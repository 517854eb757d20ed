"""How far a beam search is in each sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.generation.start import Start
from heedful.values import join, select


@dataclass(frozen=True)
class Front:
    """The sentences that are still searched, each with `width` live hypotheses of the same length.

    Attributes:
        first: position of the first generated token.
        forced: tokens of the prefix.
        limits: most new tokens, the prefix included.
        counts: tokens generated so far.
        live: log-probabilities of the live hypotheses, falling; minus infinity where there is none.
        done: nothing can change the result any more; all else stays as it was.
        ended: of each kept finished hypothesis its score, its log-probability and that of its end of
            sentence.
        places: of each of them `tokens * width + beam`: where the trellis has it.
        last: the token at which each of them ended.
        segments: of the tokens; None where they have none.
    """

    sentences: Int[Tensor, " G"]
    first: Int[Tensor, " G"]
    forced: Int[Tensor, " G"]
    limits: Int[Tensor, " G"]
    counts: Int[Tensor, " G"]
    live: Float[Tensor, "G width"]
    done: Bool[Tensor, " G"]
    ended: Float[Tensor, "G n 3"]
    places: Int[Tensor, "G n"]
    last: Int[Tensor, "G n"]
    segments: Int[Tensor, " G"] | None

    @classmethod
    def of(cls, start: Start, *, limits: Int[Tensor, " G"], width: int, n_best: int) -> Front:
        """One live hypothesis for each sentence: what was forced."""
        sums = start.log_probabilities.sum(1, keepdim=True)
        sentences = torch.arange(len(sums), device=sums.device)
        return cls(
            sentences=sentences,
            first=start.positions,
            forced=start.lengths,
            limits=limits,
            counts=torch.zeros_like(sentences),
            live=functional.pad(sums, (0, width - 1), value=-math.inf),
            done=start.lengths >= limits,
            ended=sums.new_full((len(sums), n_best, 3), -math.inf),
            places=sentences.new_zeros(len(sums), n_best),
            last=sentences.new_zeros(len(sums), n_best),
            segments=start.segments,
        )

    @classmethod
    def whole(cls, parts: Sequence[Front]) -> Front:
        """All sentences in their order."""
        whole = join(parts)
        return select(whole, whole.sentences.argsort())
