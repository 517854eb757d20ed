"""Decoding state of all sentences that share a search; sentences can join and leave at every step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.generation.beam_decoding import (
    compute_length_divisors,
    finalize_hypotheses,
    find_top_candidates,
    select_beams,
)
from heedful.generation.beam_state import BeamState
from heedful.generation.prefill import GenerationRequest, PrefillOutput
from heedful.generation.processors import LogitsPipeline, PipelineState, keep_selected
from heedful.generation.results import Hypothesis, HypothesisBatch, NoTokenError
from heedful.generation.sampling import RowState, init_rows, sample_step
from heedful.generation.search import BeamSearch, GreedySearch, SamplingSearch
from heedful.generation.stopping_criteria import StopOnToken
from heedful.tensors import RowSelection, Tokens, concat_rows, pad_and_concat, select_rows

BatchableSearch: TypeAlias = GreedySearch | SamplingSearch | BeamSearch
"""Searches that can run in a continuous batch."""


@dataclass(frozen=True)
class BeamHistory:
    """Tokens and back-pointers of all beams, batch-first, so that sentences can join and leave.

    The same data as a `BeamTrellis`, which is for sentences that begin together. Each sentence counts its own steps.

    Attributes:
        origins: the beam that each beam continued at each step.
        ids: the token that it took.
        values: the log-probability of that token.
    """

    origins: Int[Tensor, "G T width"]
    ids: Int[Tensor, "G T width"]
    values: Float[Tensor, "G T width"]

    @classmethod
    def empty_like(cls, like: Float[Tensor, "G width"]) -> BeamHistory:
        """Return a history without steps, with the number of sentences and beams of `like`."""
        shape = (len(like), 16, like.size(1))
        ids = torch.zeros(shape, dtype=torch.long, device=like.device)
        return cls(ids, ids.clone(), like.new_zeros(shape))

    def concat(self, others: Sequence[BeamHistory]) -> BeamHistory:
        """Concatenate the sentences of several histories."""
        parts = (self, *others)
        return BeamHistory(
            *(
                pad_and_concat([getattr(history, field.name) for history in parts], axis=1, fill=0)
                for field in fields(self)
            )
        )

    def append_step(
        self,
        steps: Int[Tensor, " G"],
        *,
        origins: Int[Tensor, "G width"],
        ids: Int[Tensor, "G width"],
        values: Float[Tensor, "G width"],
    ) -> BeamHistory:
        """Return the history with one more step of every sentence; may write into this one.

        Args:
            steps: the number of the step in each sentence.
            origins: the beam that each beam continues.
            ids: the token that it takes.
            values: the log-probability of that token.
        """
        capacity, rows = self.ids.size(1), torch.arange(len(steps), device=steps.device)
        history = self
        if int(steps.max()) >= capacity:
            padding = (0, 0, 0, capacity)
            history = BeamHistory(
                *(functional.pad(tensor, padding) for tensor in (self.origins, self.ids, self.values))
            )
        for target, values_of_step in ((history.origins, origins), (history.ids, ids), (history.values, values)):
            target[rows, steps] = values_of_step
        return history

    def trace(
        self, beams: Int[Tensor, "B n"], counts: Int[Tensor, "B n"], *, dtype: torch.dtype
    ) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n T"]]:
        """Return the ids and log-probabilities that led to the given beams; see `BeamTrellis.trace`.

        Few sentences finish at one time, for which lists are faster than tensors.
        """
        size = int(counts.max()) if counts.numel() else 0
        steps = [tensor[:, :size].tolist() for tensor in (self.origins, self.ids, self.values)]
        ids, scores = list[list[int]](), list[list[float]]()
        for sentence, ends, sizes in zip(zip(*steps, strict=True), beams.tolist(), counts.tolist(), strict=True):
            for beam, count in zip(ends, sizes, strict=True):
                path = _trace_path(*sentence, beam=beam, count=count)
                ids.append([*(token for token, _ in path), *[0] * (size + 1 - count)])
                scores.append([*(value for _, value in path), *[0.0] * (size + 1 - count)])
        traced_ids = torch.tensor(ids, dtype=torch.long, device=beams.device).view(*beams.shape, -1)
        return traced_ids, torch.tensor(scores, dtype=dtype, device=beams.device).view(*beams.shape, -1)


@dataclass(frozen=True)
class StepResult:
    """Result of one decoding step: how to reorder the model state, and which tokens to feed next.

    Attributes:
        beams: the row of the same sentence that each row continues.
        needs_reorder: whether any row continues another row than itself.
        next_tokens: the next input tokens of all rows; position -1 where a sentence is done.
    """

    beams: Int[Tensor, "G width"]
    needs_reorder: bool
    next_tokens: Tokens


class DecodeBatch(ABC):
    """Abstract base: sentences decoded by one search, with `width` rows (beams or samples) each."""

    prefill: PrefillOutput

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of rows of each sentence."""

    @property
    @abstractmethod
    def done_mask(self) -> Bool[Tensor, " G"]:
        """Mask of the sentences that need no further step."""

    @property
    @abstractmethod
    def merge_key(self) -> Any:
        """Key of this batch; batches with equal keys can be merged, None forbids merging."""

    @abstractmethod
    def advance(self, logits: Float[Tensor, "N V"], *, rows_per_sentence: int) -> tuple[DecodeBatch, StepResult]:
        """Decode one token of every row; return the new batch and the changes to the model state.

        Args:
            logits: of the rows, which are 1 or `width` in each sentence so far.
            rows_per_sentence: 1 or `width`.

        Raises:
            RunError: no token may follow in some row.
        """

    @abstractmethod
    def keep_rows(self, indices: Int[Tensor, " G"]) -> DecodeBatch:
        """Keep only the sentences at these indices."""

    @abstractmethod
    def concat(self, other: DecodeBatch) -> DecodeBatch:
        """Concatenate the sentences of this batch and of another one with the same merge key."""

    @abstractmethod
    def finish(self, indices: Int[Tensor, " B"]) -> DecodeBatch:
        """Mark the sentences at these indices as done."""

    @abstractmethod
    def finalize(self, indices: Int[Tensor, " B"]) -> HypothesisBatch:
        """Return the best hypotheses found for the sentences at these indices."""

    @abstractmethod
    def partial_outputs(self, indices: Int[Tensor, " B"]) -> list[list[int]]:
        """Return the best token ids so far of the sentences at these indices; they may still change."""

    @final
    def build_hypotheses(self, indices: Int[Tensor, " B"]) -> list[list[Hypothesis]]:
        """Return the final hypotheses of the sentences at these indices.

        Raises:
            RunError: a sentence has no hypothesis.
        """
        return self.finalize(indices).to_hypotheses(select_rows(self.prefill, indices))


def init_decode_batch(search: BatchableSearch, request: GenerationRequest, prefill: PrefillOutput) -> DecodeBatch:
    """Build the decode batch of a search whose prompts have been read, before its first token."""
    pipeline = LogitsPipeline.from_request(
        request, eos=search.eos, penalties=search.penalties, logits_masks=search.logits_masks
    )
    pipeline_state = pipeline.init_state(request.prompt, prefill)
    is_mergeable = pipeline.is_stateless and isinstance(pipeline.stop, StopOnToken)
    kept_prefill = replace(prefill, logits=prefill.logits[:, :0])
    if isinstance(search, BeamSearch):
        beam_state = BeamState.from_prefill(prefill, width=search.width, n_best=search.n_best)
        divisors = compute_length_divisors(beam_state, search.length_penalty)
        return BeamBatch(
            kept_prefill,
            beam_state,
            BeamHistory.empty_like(beam_state.live_scores),
            pipeline_state,
            divisors,
            pipeline,
            search,
            is_mergeable,
        )
    copies = search.num_samples if isinstance(search, SamplingSearch) else 1
    row_state, rows = (
        init_rows(prefill, rng_streams=request.rng_streams),
        RowSelection.expand(len(prefill.prefix_lengths), copies, device=prefill.logits.device),
    )
    row_state, pipeline_state = (
        select_rows((row_state, pipeline_state), rows) if copies > 1 else (row_state, pipeline_state)
    )
    sample_indices = torch.arange(len(row_state.row_indices), device=row_state.row_indices.device) % copies
    row_state = replace(row_state, rng_streams=row_state.rng_streams + sample_indices)
    beam_history = BeamHistory.empty_like(prefill.logits.new_zeros(len(prefill.prefix_lengths), copies))
    steps, token_counts = torch.zeros_like(prefill.prefix_lengths), torch.zeros_like(row_state.lengths)
    return SamplingBatch(
        kept_prefill,
        row_state,
        beam_history,
        steps,
        token_counts,
        pipeline_state,
        pipeline,
        search,
        copies,
        is_mergeable,
    )


@final
@dataclass(frozen=True)
class BeamBatch(DecodeBatch):
    """Decode batch of beam search."""

    prefill: PrefillOutput
    beam_state: BeamState
    beam_history: BeamHistory
    pipeline_state: PipelineState
    divisors: Float[Tensor, " lengths"]
    pipeline: LogitsPipeline
    search: BeamSearch
    is_mergeable: bool

    @property
    def width(self) -> int:
        """Beam width."""
        return self.search.width

    @property
    def done_mask(self) -> Bool[Tensor, " G"]:
        """Mask of the sentences whose result cannot change any more."""
        return self.beam_state.done

    @property
    def merge_key(self) -> Any:
        """The search and whether tokens have segments; None if the batch cannot be merged."""
        return (self.search, self.beam_state.segments is None) if self.is_mergeable else None

    def advance(self, logits: Float[Tensor, "N V"], *, rows_per_sentence: int) -> tuple[BeamBatch, StepResult]:
        """Decode one token of every beam, as `run_beam_search` does."""
        state_before = self.beam_state
        candidates = find_top_candidates(
            logits,
            state_before,
            self.pipeline_state,
            rows_per_sentence=rows_per_sentence,
            pipeline=self.pipeline,
            search=self.search,
        )
        is_final, candidate_states = self.pipeline.update_candidates(
            candidates.ids, self.pipeline_state, beams=candidates.beams, rows_per_group=rows_per_sentence
        )
        beam_state, selected, (_, moved) = select_beams(
            state_before, replace(candidates, ends=is_final), divisors=self.divisors
        )
        beam_history = self.beam_history.append_step(
            state_before.counts, origins=selected.beams, ids=selected.ids, values=selected.values
        )
        next_batch = replace(
            self,
            beam_state=beam_state,
            beam_history=beam_history,
            pipeline_state=keep_selected(candidate_states, selected.ranks),
        )
        positions = torch.where(beam_state.done, -1, beam_state.first_positions + beam_state.counts - 1)
        return next_batch, StepResult(
            selected.beams, moved, _build_inputs(selected.ids, positions, beam_state.segments)
        )

    def keep_rows(self, indices: Int[Tensor, " G"]) -> BeamBatch:
        """Keep only the sentences at these indices."""
        prefill, beam_state, beam_history = select_rows((self.prefill, self.beam_state, self.beam_history), indices)
        pipeline_state = select_rows(self.pipeline_state, RowSelection.keep_groups(indices, self.width))
        return replace(
            self, prefill=prefill, beam_state=beam_state, beam_history=beam_history, pipeline_state=pipeline_state
        )

    def concat(self, other: DecodeBatch) -> BeamBatch:
        """Concatenate the sentences of this batch and of another one."""
        assert isinstance(other, BeamBatch)
        divisors = max(self.divisors, other.divisors, key=len)
        beam_state, beam_history = concat_rows(
            [(self.beam_state, self.beam_history), (other.beam_state, other.beam_history)]
        )
        prefill = _concat_prefills(self.prefill, other.prefill)
        return replace(self, prefill=prefill, beam_state=beam_state, beam_history=beam_history, divisors=divisors)

    def finish(self, indices: Int[Tensor, " B"]) -> BeamBatch:
        """Mark the sentences at these indices as done."""
        return replace(
            self, beam_state=replace(self.beam_state, done=self.beam_state.done.index_fill(0, indices, True))
        )

    def finalize(self, indices: Int[Tensor, " B"]) -> HypothesisBatch:
        """Return the best hypotheses of the sentences at these indices, as `run_beam_search` does."""
        prefill, beam_state, beam_history = select_rows((self.prefill, self.beam_state, self.beam_history), indices)
        return finalize_hypotheses(
            beam_state, beam_history, divisors=self.divisors, prefill=prefill, search=self.search
        )[0]

    def partial_outputs(self, indices: Int[Tensor, " B"]) -> list[list[int]]:
        """Return the best live hypothesis of each sentence, or the best finished one if its score is higher."""
        prefill, beam_state, beam_history = select_rows((self.prefill, self.beam_state, self.beam_history), indices)
        live_scores = beam_state.live_scores[:, :1] / self.divisors[
            beam_state.prefix_lengths + beam_state.counts
        ].unsqueeze(1)
        finished_is_worse = (beam_state.finished[:, :, 0] < live_scores).unsqueeze(2)
        beam_state = replace(beam_state, finished=beam_state.finished.masked_fill(finished_is_worse, -math.inf))
        hypotheses, _ = finalize_hypotheses(
            beam_state, beam_history, divisors=self.divisors, prefill=prefill, search=self.search
        )
        return [list(ranked[0].ids) for ranked in hypotheses.to_hypotheses(prefill)]


@final
@dataclass(frozen=True)
class SamplingBatch(DecodeBatch):
    """Decode batch of greedy search and sampling.

    Attributes:
        steps: number of steps that each sentence has taken.
        token_counts: number of tokens written in each row, the end of sentence included.
    """

    prefill: PrefillOutput
    row_state: RowState
    beam_history: BeamHistory
    steps: Int[Tensor, " G"]
    token_counts: Int[Tensor, " N"]
    pipeline_state: PipelineState
    pipeline: LogitsPipeline
    search: GreedySearch | SamplingSearch
    num_samples: int
    is_mergeable: bool

    @property
    def width(self) -> int:
        """Number of samples of each sentence."""
        return self.num_samples

    @property
    def done_mask(self) -> Bool[Tensor, " G"]:
        """Mask of the sentences all of whose rows have ended."""
        return self.row_state.done.view(-1, self.width).all(1)

    @property
    def merge_key(self) -> Any:
        """The search and whether tokens have segments; None if the batch cannot be merged."""
        return (self.search, self.row_state.segments is None) if self.is_mergeable else None

    def advance(self, logits: Float[Tensor, "N V"], *, rows_per_sentence: int) -> tuple[SamplingBatch, StepResult]:
        """Decode one token of every row, as `run_sampling` does."""
        if rows_per_sentence < self.width:
            logits = logits.repeat_interleave(self.width, 0)
        row_state, sampled, pipeline_state, (_, failed) = sample_step(
            self.row_state,
            logits,
            self.pipeline_state,
            sampler=self.search.sampler,
            pipeline=self.pipeline,
            num_samples=self.width,
        )
        if failed >= 0:
            raise NoTokenError(failed // self.width)
        shape = (-1, self.width)
        own_rows = torch.arange(self.width, device=self.steps.device).expand(len(self.steps), -1)
        beam_history = self.beam_history.append_step(
            self.steps, origins=own_rows, ids=sampled.ids.view(shape), values=sampled.log_probabilities.view(shape)
        )
        steps, token_counts = self.steps + 1, self.token_counts + (sampled.positions >= 0)
        next_batch = replace(
            self,
            row_state=row_state,
            beam_history=beam_history,
            steps=steps,
            token_counts=token_counts,
            pipeline_state=pipeline_state,
        )
        positions = torch.where(row_state.done, -1, sampled.positions)
        tokens = Tokens(sampled.ids.unsqueeze(1), positions.unsqueeze(1), row_state.segments)
        return next_batch, StepResult(own_rows, needs_reorder=False, next_tokens=tokens)

    def keep_rows(self, indices: Int[Tensor, " G"]) -> SamplingBatch:
        """Keep only the sentences at these indices."""
        prefill, beam_history, steps = select_rows((self.prefill, self.beam_history, self.steps), indices)
        row_state, token_counts, pipeline_state = select_rows(
            (self.row_state, self.token_counts, self.pipeline_state), RowSelection.keep_groups(indices, self.width)
        )
        return replace(
            self,
            prefill=prefill,
            row_state=row_state,
            beam_history=beam_history,
            steps=steps,
            token_counts=token_counts,
            pipeline_state=pipeline_state,
        )

    def concat(self, other: DecodeBatch) -> SamplingBatch:
        """Concatenate the sentences of this batch and of another one."""
        assert isinstance(other, SamplingBatch)
        parts = [(batch.row_state, batch.beam_history, batch.steps, batch.token_counts) for batch in (self, other)]
        row_state, beam_history, steps, token_counts = concat_rows(parts)
        prefill = _concat_prefills(self.prefill, other.prefill)
        return replace(
            self,
            prefill=prefill,
            row_state=row_state,
            beam_history=beam_history,
            steps=steps,
            token_counts=token_counts,
        )

    def finish(self, indices: Int[Tensor, " B"]) -> SamplingBatch:
        """Mark the sentences at these indices as done."""
        rows = RowSelection.keep_groups(indices, self.width).origin
        return replace(self, row_state=replace(self.row_state, done=self.row_state.done.index_fill(0, rows, True)))

    def finalize(self, indices: Int[Tensor, " B"]) -> HypothesisBatch:
        """Return all samples of the sentences at these indices, best first, as `run_sampling` does."""
        ids, values, token_counts, done = self._gather_rows(indices)
        prefix_sums = self.prefill.prefix_log_probabilities[indices].sum(1, keepdim=True)
        steps = torch.arange(ids.size(2), device=ids.device)
        totals = prefix_sums + torch.where(steps < token_counts.unsqueeze(2), values, 0.0).sum(2)
        last = ids.gather(2, (token_counts - 1).clamp(min=0).unsqueeze(2)).squeeze(2)
        finished = (token_counts > 0) & (last == self.search.eos)
        order = totals.sort(dim=1, descending=True, stable=True).indices
        order_of_tokens = order.unsqueeze(2).expand_as(ids)
        totals, counts = totals.gather(1, order), (token_counts - finished.long()).gather(1, order)
        ids, values = ids.gather(1, order_of_tokens), values.gather(1, order_of_tokens)
        return HypothesisBatch(counts, finished.gather(1, order), totals, totals, ids, values, (~done).gather(1, order))

    def partial_outputs(self, indices: Int[Tensor, " B"]) -> list[list[int]]:
        """Return the tokens that the first row of each sentence has written so far."""
        ids, _, token_counts, _ = self._gather_rows(indices)
        outputs = []
        for prefix, row, count, prefix_length in zip(
            self.prefill.prefix[indices].tolist(),
            ids[:, 0].tolist(),
            token_counts[:, 0].tolist(),
            self.prefill.prefix_lengths[indices].tolist(),
            strict=True,
        ):
            tokens = row[:count]
            outputs.append(
                [*prefix[:prefix_length], *(tokens[:-1] if tokens and tokens[-1] == self.search.eos else tokens)]
            )
        return outputs

    def _gather_rows(self, indices: Int[Tensor, " B"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return ids and log-probabilities [B, width, T], token counts and end flags [B, width] of some sentences."""
        beam_history, shape = select_rows(self.beam_history, indices), (-1, self.width)
        token_counts, done = self.token_counts.view(shape)[indices], self.row_state.done.view(shape)[indices]
        longest = int(token_counts.max()) + 1
        return (
            beam_history.ids[:, :longest].transpose(1, 2),
            beam_history.values[:, :longest].transpose(1, 2),
            token_counts,
            done,
        )


def _trace_path(
    origins: list[list[int]], ids: list[list[int]], values: list[list[float]], *, beam: int, count: int
) -> list[tuple[int, float]]:
    """Follow the back-pointers of one sentence from a beam after `count` steps; return its ids with their
    log-probabilities.
    """
    path = []
    for step in reversed(range(count)):
        path.append((ids[step][beam], values[step][beam]))
        beam = origins[step][beam]
    return path[::-1]


def _build_inputs(
    ids: Int[Tensor, "G width"], positions: Int[Tensor, " G"], segments: Int[Tensor, "G 1"] | None
) -> Tokens:
    """Build the input tokens [G * width, 1] of the next step."""
    width = ids.size(1)
    row_segments = None if segments is None else segments.repeat_interleave(width, 0)
    return Tokens(ids.reshape(-1, 1), positions.repeat_interleave(width).unsqueeze(1), row_segments)


def _concat_prefills(first: PrefillOutput, second: PrefillOutput) -> PrefillOutput:
    """Concatenate two prefill outputs, padding their prefixes to the longer one."""
    prefix = pad_and_concat([first.prefix, second.prefix], axis=1, fill=0)
    scores = pad_and_concat([first.prefix_log_probabilities, second.prefix_log_probabilities], axis=1, fill=0.0)
    parts = [
        (prefill.logits, prefill.positions, prefill.limits, prefill.prefix_lengths, prefill.segments)
        for prefill in (first, second)
    ]
    logits, positions, limits, lengths, segments = concat_rows(parts)
    return PrefillOutput(logits, positions, limits, lengths, prefix, scores, segments)
