"""Data structures of beam search: the beam state, candidate continuations, and back-pointers."""

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
    """State of beam search for the sentences still searched, each with `width` live hypotheses of equal length.

    Attributes:
        sentence_indices: index of each sentence in the prompt batch.
        first_positions: position of the first generated token.
        prefix_lengths: number of prefix tokens.
        limits: largest number of new tokens, the prefix included.
        counts: number of tokens generated so far.
        live_scores: log-probabilities of the live hypotheses, in falling order; minus infinity where there is none.
        done: True where nothing can change the result any more; all other fields of that sentence then stay as they
            are.
        finished: for each kept finished hypothesis its score, its log-probability and that of its last token.
        finished_indices: for each of them `tokens * width + beam`, its address in the trellis.
        last_tokens: the token at which each of them ended.
        segments: segment of the tokens; None where they have none.
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
        """Return the first state: one live hypothesis for each sentence, the forced prefix."""
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
        """Return the fields that each step changes."""
        return self.counts, self.live_scores, self.done, self.finished, self.finished_indices, self.last_tokens

    def with_dynamic_fields(self, fields: tuple[Tensor, ...]) -> BeamState:
        """Return the state with the fields that each step changes replaced."""
        counts, live_scores, done, finished, finished_indices, last_tokens = fields
        fixed = self.sentence_indices, self.first_positions, self.prefix_lengths, self.limits
        return BeamState(*fixed, counts, live_scores, done, finished, finished_indices, last_tokens, self.segments)


@dataclass(frozen=True)
class BeamCandidates:
    """Candidate continuations of live hypotheses.

    Attributes:
        totals: log-probabilities of the whole hypotheses.
        values: log-probabilities of the new tokens.
        beams: the live hypothesis that is continued.
        ids: the new token.
        ends: whether the hypothesis ends with it.
        ranks: the rank of the candidate before any selection.
    """

    totals: Float[Tensor, "G k"]
    values: Float[Tensor, "G k"]
    beams: Int[Tensor, "G k"]
    ids: Int[Tensor, "G k"]
    ends: Bool[Tensor, "G k"]
    ranks: Int[Tensor, "G k"]

    @classmethod
    def from_top_k(cls, values: Float[Tensor, "G k"], top: TopKResult, *, num_candidates: int) -> BeamCandidates:
        """Build candidates from a top-k result, padded with impossible ones up to `num_candidates`."""
        padding = (0, num_candidates - top.ids.size(1))
        totals, beams, ids = top.values, top.members, top.ids
        if padding[1]:
            totals = functional.pad(totals, padding, value=-math.inf)
            values, beams, ids = (functional.pad(part, padding) for part in (values, beams, ids))
        ranks = torch.arange(num_candidates, device=values.device).expand(len(values), -1)
        return cls(totals, values, beams, ids, torch.zeros_like(ids, dtype=torch.bool), ranks)

    def to_tuple(self) -> tuple[Tensor, ...]:
        """Return all fields, in the order of the attributes."""
        return self.totals, self.values, self.beams, self.ids, self.ends, self.ranks

    def take(self, indices: Int[Tensor, "G m"]) -> BeamCandidates:
        """Select candidates by index, in the given order."""
        return BeamCandidates(*(part.gather(1, indices) for part in self.to_tuple()))


@dataclass(frozen=True)
class BeamStep:
    """One step of beam search: the 2 * width best continuations of each sentence, best first.

    Those that end the sentence and are among the first `width` are finished; the best `width` others live on, and are
    the beams of the next step, in the order of their totals.

    Attributes:
        sentence_indices: rows of the prompt that are still searched.
        done: whether the search of that sentence had ended before; its other fields then mean nothing.
        beams: the live hypothesis that is continued.
        ids: the new token.
        totals: log-probabilities of the whole hypotheses; minus infinity where there is none.
        scores: the score of a hypothesis that ends here.
        group: number of the beam group, in diverse beam search.
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
    """Object that can trace how each beam came about."""

    def trace(
        self, beams: Int[Tensor, "B n"], counts: Int[Tensor, "B n"], *, dtype: torch.dtype
    ) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n T"]]:
        """Return the ids that led to these beams after `counts` tokens, and their log-probabilities; the last
        column is free.
        """
        ...


class BeamTrellis:
    """Back-pointers of a beam search: the token each beam took at each step, and the beam it continued.

    Appending a step costs the same at every step, whereas copying the tokens of each beam would cost its length.
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
        """Append one step of these sentences; the others have ended."""
        self._steps.append((sentence_indices, origins, ids, log_probabilities))

    def trace(
        self, beams: Int[Tensor, "B n"], counts: Int[Tensor, "B n"], *, dtype: torch.dtype
    ) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n T"]]:
        """Return the ids that led to these beams after `counts` tokens, and their log-probabilities.

        A column more than there are steps is left free at the end; the entries from `counts` on mean nothing.
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
        """Return origins, ids and log-probabilities of one step for all sentences; zeros for those that had ended."""
        sentences, *columns = self._steps[step]
        if len(sentences) == self._shape[0]:
            return columns[0], columns[1], columns[2]
        origins, ids, scores = (column.new_zeros(self._shape).index_copy_(0, sentences, column) for column in columns)
        return origins, ids, scores
