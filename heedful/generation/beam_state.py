"""What a beam search holds: how far it is in each sentence, what may come next, and how each beam came about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.generation.prefill import PrefillOutput
from heedful.generation.topk import TopKResult


@dataclass(frozen=True)
class BeamState:
    """The sentences that are still searched, each with `width` live hypotheses of the same length.

    Attributes:
        first_positions: position of the first generated token.
        prefix_lengths: tokens of the prefix.
        limits: most new tokens, the prefix included.
        counts: tokens generated so far.
        live_scores: log-probabilities of the live hypotheses, falling; minus infinity where there is none.
        done: nothing can change the result any more; all else stays as it was.
        finished: of each kept finished hypothesis its score, its log-probability and that of its end of sentence.
        finished_indices: of each of them `tokens * width + beam`: where the trellis has it.
        last_tokens: the token at which each of them ended.
        segments: of the tokens; None where they have none.
    """

    sentence_indices: Int[Tensor, " G"]
    first_positions: Int[Tensor, " G"]
    prefix_lengths: Int[Tensor, " G"]
    limits: Int[Tensor, " G"]
    counts: Int[Tensor, " G"]
    live_scores: Float[Tensor, "G width"]
    done: Bool[Tensor, " G"]
    finished: Float[Tensor, "G n 3"]
    finished_indices: Int[Tensor, "G n"]
    last_tokens: Int[Tensor, "G n"]
    segments: Int[Tensor, "G 1"] | None

    @classmethod
    def from_prefill(cls, prefill: PrefillOutput, *, width: int, n_best: int) -> BeamState:
        """One live hypothesis for each sentence: what was forced."""
        prefix_scores = prefill.prefix_log_probabilities.sum(1, keepdim=True)
        sentences = torch.arange(len(prefix_scores), device=prefix_scores.device)
        return cls(
            sentence_indices=sentences,
            first_positions=prefill.positions,
            prefix_lengths=prefill.prefix_lengths,
            limits=prefill.limits,
            counts=torch.zeros_like(sentences),
            live_scores=functional.pad(prefix_scores, (0, width - 1), value=-math.inf),
            done=prefill.prefix_lengths >= prefill.limits,
            finished=prefix_scores.new_full((len(prefix_scores), n_best, 3), -math.inf),
            finished_indices=sentences.new_zeros(len(prefix_scores), n_best),
            last_tokens=sentences.new_zeros(len(prefix_scores), n_best),
            segments=prefill.segments,
        )

    def get_dynamic_fields(self) -> tuple[Tensor, ...]:
        """What each step changes."""
        return self.counts, self.live_scores, self.done, self.finished, self.finished_indices, self.last_tokens

    def with_dynamic_fields(self, fields: tuple[Tensor, ...]) -> BeamState:
        """With this in its place."""
        counts, live_scores, done, finished, finished_indices, last_tokens = fields
        fixed = self.sentence_indices, self.first_positions, self.prefix_lengths, self.limits
        return BeamState(*fixed, counts, live_scores, done, finished, finished_indices, last_tokens, self.segments)


@dataclass(frozen=True)
class BeamCandidates:
    """Continuations of live hypotheses.

    Attributes:
        totals: log-probabilities of the whole.
        values: log-probabilities of the new token.
        beams: the live hypothesis continued.
        ids: the new token.
        ends: whether the hypothesis ends with it.
        ranks: the number of the continuation.
    """

    totals: Float[Tensor, "G k"]
    values: Float[Tensor, "G k"]
    beams: Int[Tensor, "G k"]
    ids: Int[Tensor, "G k"]
    ends: Bool[Tensor, "G k"]
    ranks: Int[Tensor, "G k"]

    @classmethod
    def from_top_k(cls, values: Float[Tensor, "G k"], top: TopKResult, *, num_candidates: int) -> BeamCandidates:
        """The best ones, and behind them such as are impossible, where there are fewer than wanted."""
        padding = (0, num_candidates - top.ids.size(1))
        totals, beams, ids = top.values, top.members, top.ids
        if padding[1]:
            totals = functional.pad(totals, padding, value=-math.inf)
            values, beams, ids = (functional.pad(part, padding) for part in (values, beams, ids))
        ranks = torch.arange(num_candidates, device=values.device).expand(len(values), -1)
        return cls(totals, values, beams, ids, torch.zeros_like(ids, dtype=torch.bool), ranks)

    def to_tuple(self) -> tuple[Tensor, ...]:
        """All of it, in the order of the attributes."""
        return self.totals, self.values, self.beams, self.ids, self.ends, self.ranks

    def take(self, indices: Int[Tensor, "G m"]) -> BeamCandidates:
        """Some of them, in this order."""
        return BeamCandidates(*(part.gather(1, indices) for part in self.to_tuple()))


@dataclass(frozen=True)
class BeamStep:
    """What a step of the search found: the 2 * width best continuations of each sentence, best first.

    Those that end the sentence and are among the first `width` are finished; the best `width` others live on, and are
    the beams of the next step, in the order of their totals.

    Attributes:
        sentence_indices: rows of the prompt that are still searched.
        done: of them, those whose search had ended already; what stands there means nothing.
        beams: the live hypothesis continued.
        ids: the new token.
        totals: log-probabilities of the whole; minus infinity where there is none.
        scores: what a hypothesis that ends here is ranked by.
        group: number of the beams that it belongs to, where groups of them are searched (`DiverseBeamSearch`).
    """

    sentence_indices: Int[Tensor, " G"]
    done: Bool[Tensor, " G"]
    beams: Int[Tensor, "G k"]
    ids: Int[Tensor, "G k"]
    totals: Float[Tensor, "G k"]
    scores: Float[Tensor, "G k"]
    group: int = 0


@runtime_checkable
class SupportsBacktrace(Protocol):
    """Knows how each beam came about."""

    def trace(
        self, beams: Int[Tensor, "B n"], counts: Int[Tensor, "B n"], *, dtype: torch.dtype
    ) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n T"]]:
        """The ids that led to these beams, which have so many tokens, and their log-probabilities; a column is free."""
        ...


class BeamTrellis:
    """Which token each beam took at each step, and which beam it continued.

    Growing it costs the same at every step, whereas carrying the tokens of each beam along would cost its length.
    """

    def __init__(self, num_sentences: int, width: int) -> None:
        self._shape = (num_sentences, width)
        self._steps: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def append_step(
        self,
        sentence_indices: Int[Tensor, " G"],
        *,
        origins: Int[Tensor, "G width"],
        ids: Int[Tensor, "G width"],
        log_probabilities: Float[Tensor, "G width"],
    ) -> None:
        """One more step of these sentences; the others have ended."""
        self._steps.append((sentence_indices, origins, ids, log_probabilities))

    def trace(
        self, beams: Int[Tensor, "B n"], counts: Int[Tensor, "B n"], *, dtype: torch.dtype
    ) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n T"]]:
        """The ids that led to these beams, which have so many tokens, and their log-probabilities.

        One more column than steps is left free at the end; what stands at `counts` and behind it means nothing.
        """
        ids = beams.new_zeros(*beams.shape, len(self) + 1)
        scores = torch.zeros(ids.shape, dtype=dtype, device=ids.device)
        for step in reversed(range(len(self))):
            origins, tokens, values = self._scatter_to_all(step)
            ids[:, :, step] = tokens.gather(1, beams)
            scores[:, :, step] = values.gather(1, beams)
            beams = torch.where(step < counts, origins.gather(1, beams), beams)
        return ids, scores

    def _scatter_to_all(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        sentences, *columns = self._steps[step]
        if len(sentences) == self._shape[0]:
            return columns[0], columns[1], columns[2]
        origins, ids, scores = (column.new_zeros(self._shape).index_copy_(0, sentences, column) for column in columns)
        return origins, ids, scores
