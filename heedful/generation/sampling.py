"""Greedy search and sampling over any engine, and streams of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.generation import native_kernels
from heedful.generation.continuous_batch import ContinuousBatch, FinishedRequest, collect_resume_state, sort_finished
from heedful.generation.decode_batch import DecodeBatch, StepHistory, StepResult, count_lookahead_steps
from heedful.generation.logits_masks import LogitsMask
from heedful.generation.penalties import LogitsProcessor
from heedful.generation.prefill import (
    GenerationRequest,
    InterruptCondition,
    StoppingCriterion,
    never_interrupt,
    prefill_prompt,
)
from heedful.generation.processors import LogitsPipeline, PipelineState
from heedful.generation.results import HypothesisBatch, NoTokenError, PrefillOutput, ResumeState
from heedful.generation.samplers import GreedySampler, Sampler, SamplerContext, collect_suppressed_ids
from heedful.generation.topk import compute_logsumexp
from heedful.models.interface import MultiStepDecoder, State, Step
from heedful.tensors import GreedySteps, RowSelection, Tokens, concat_rows, select_rows


@dataclass(frozen=True)
class RowState:
    """State of the rows that are still decoded; `limits` and `lengths` count the forced prefix."""

    row_indices: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    lengths: Int[Tensor, " N"]
    limits: Int[Tensor, " N"]
    rng_streams: Int[Tensor, " N"]
    done: Bool[Tensor, " N"]
    segments: Int[Tensor, "N 1"] | None


@dataclass(frozen=True)
class SampledTokens:
    """One new token of each row; `positions` is -1 in rows that had ended."""

    row_indices: Int[Tensor, " N"]
    ids: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    log_probabilities: Float[Tensor, " N"]

    def to_column(self, prefill: PrefillOutput) -> Tokens:
        """Return the tokens of all rows that there were in the beginning, as a column [B, 1]; position -1 where a row
        has left. `prefill` is what was read of these rows.
        """
        ids = torch.zeros_like(prefill.limits).index_copy_(0, self.row_indices, self.ids)
        positions = torch.full_like(prefill.limits, -1).index_copy_(0, self.row_indices, self.positions)
        return Tokens(ids.unsqueeze(1), positions.unsqueeze(1), prefill.segments)


@final
@dataclass(frozen=True)
class SamplingOptions:
    """What is the same for all rows and steps of greedy search and sampling.

    Attributes:
        eos: the token that ends a sentence.
        sampler: takes each token.
        pipeline: logits processors and stopping criteria.
        on_step: called with the tokens of every step.
    """

    eos: int
    sampler: Sampler
    pipeline: LogitsPipeline
    on_step: Callable[[SampledTokens], None] | None = None

    def find_suppressed_ids(self) -> Int[Tensor, " n"] | None:
        """Return the tokens that greedy search must not take. Return None if engines cannot take several steps at once:
        if the search samples, has a callback, other filters, or a pipeline that engines do not know.
        """
        is_known = self.on_step is None and self.pipeline.is_supported_by_engines
        if not is_known or not isinstance(self.sampler, GreedySampler):
            return None
        return collect_suppressed_ids(self.sampler.filters)


@final
@dataclass(frozen=True)
class SamplingBatch(DecodeBatch):
    """Decode batch of greedy search and sampling.

    Attributes:
        sentences: what was read before the search, of these sentences and maybe of others that have left.
        sentence_indices: the index in `sentences` of each sentence; None if all of them are here. Selecting indices
            costs less than selecting all fields whenever sentences leave.
        row_state: state of each row.
        history: id, position and log-probability of the tokens of each row.
        pipeline_state: state of logits processors and stopping criteria of each row.
        options: what is the same for all rows.
        suppressed_ids: tokens that greedy search must not take; None if each token must be decoded by itself.
    """

    width: int
    merge_key: Any
    sentences: PrefillOutput
    sentence_indices: Int[Tensor, " G"] | None
    row_state: RowState
    history: StepHistory
    pipeline_state: PipelineState
    options: SamplingOptions
    suppressed_ids: Int[Tensor, " n"] | None

    @classmethod
    def from_prefill(
        cls,
        prefill: PrefillOutput,
        request: GenerationRequest,
        options: SamplingOptions,
        *,
        num_samples: int,
        merge_key: Any = None,
    ) -> SamplingBatch:
        """Return the batch before its first token, with `num_samples` rows for each sentence. `prefill` is what was
        read of the sentences of the request. Only batches with an equal `merge_key` can be merged; None forbids it.
        """
        row_state = init_rows(prefill, num_samples=num_samples, rng_streams=request.rng_streams)
        pipeline_state = options.pipeline.init_state(request.prompt, prefill)
        if num_samples > 1:
            rows = RowSelection.expand(len(prefill.positions), num_samples, device=prefill.positions.device)
            pipeline_state = select_rows(pipeline_state, rows)
        indices = row_state.row_indices
        return cls(
            num_samples,
            merge_key,
            prefill.without_logits(),
            None,
            row_state,
            StepHistory.empty_like(indices, indices, prefill.logits.new_zeros(len(indices))),
            pipeline_state,
            options,
            options.find_suppressed_ids() if num_samples == 1 else None,
        )

    @cached_property
    def prefill(self) -> PrefillOutput:
        """What was read of each sentence before the search."""
        return self.sentences if self.sentence_indices is None else select_rows(self.sentences, self.sentence_indices)

    @property
    def done_mask(self) -> Bool[Tensor, " G"]:
        """Mask of the sentences all of whose rows have ended."""
        return self.row_state.done.view(-1, self.width).all(1)

    def advance(self, logits: Float[Tensor, "N V"], *, rows_per_sentence: int) -> tuple[SamplingBatch, StepResult]:
        """Decode one token of every row from `logits`, which has `rows_per_sentence` rows for each sentence: one before
        the first token, then `width`. Return the new batch and the next input tokens.
        """
        if rows_per_sentence < self.width:
            logits = logits.repeat_interleave(self.width, 0)
        row_state, sampled, pipeline_state, (num_done, failed_row) = sample_step(
            self.row_state, logits, self.pipeline_state, options=self.options, num_samples=self.width
        )
        self._require_tokens(failed_row)
        if self.options.on_step:
            self.options.on_step(sampled)
        batch = SamplingBatch(
            self.width,
            self.merge_key,
            self.sentences,
            self.sentence_indices,
            row_state,
            self.history.append((sampled.ids, sampled.positions, sampled.log_probabilities)),
            pipeline_state,
            self.options,
            self.suppressed_ids,
        )
        return batch, StepResult(_build_inputs(row_state, sampled.ids, sampled.positions), num_done)

    def advance_ahead(
        self, engine: MultiStepDecoder, tokens: Tokens, state: State, *, max_steps: int
    ) -> tuple[DecodeBatch, StepResult, State] | None:
        """Decode several greedy tokens of each row, at most `max_steps`, in one call of the engine; `tokens` are the
        next input tokens. Return the new batch, the step result and the new model state, or None where that is not
        possible.

        It needs greedy search without anything in Python that looks at each token.
        """
        search = self._build_lookahead(max_steps)
        result = None if search is None else engine.decode_steps(tokens, state, search=search)
        if result is None:
            return None
        output, state = result
        self._require_tokens(output.failed_row)
        rows, num_steps = self.row_state, len(output.ids)
        row_state = replace(
            rows, positions=rows.positions + num_steps, lengths=rows.lengths + num_steps, done=output.done
        )
        history = self.history.extend((output.ids.T, output.positions.T, output.log_probabilities.T))
        pipeline_state = (
            self.pipeline_state if output.texts is None else self.options.pipeline.build_state_from_texts(output.texts)
        )
        tokens = _build_inputs(row_state, output.ids[-1], output.positions[-1])
        step_result = StepResult(tokens, int(output.done.sum()), num_steps=num_steps)
        batch = replace(self, row_state=row_state, history=history, pipeline_state=pipeline_state)
        return batch, step_result, state

    def keep_rows(self, indices: Int[Tensor, " G"]) -> SamplingBatch:
        """Keep only the sentences at these indices."""
        rows = indices if self.width == 1 else RowSelection.keep_groups(indices, self.width)
        row_state, history, pipeline_state = select_rows((self.row_state, self.history, self.pipeline_state), rows)
        return replace(
            self,
            sentence_indices=indices if self.sentence_indices is None else self.sentence_indices[indices],
            row_state=row_state,
            history=history,
            pipeline_state=pipeline_state,
        )

    def concat(self, others: Sequence[SamplingBatch]) -> SamplingBatch:
        """Concatenate the sentences of this batch and of others."""
        parts = (self, *others)
        row_state, history = concat_rows([(batch.row_state, batch.history) for batch in parts])
        joined = replace(self, row_state=row_state, history=history)
        indices = [batch.sentence_indices for batch in parts if batch.sentence_indices is not None]
        if len(indices) == len(parts) and all(batch.sentences is self.sentences for batch in others):
            return replace(joined, sentence_indices=torch.cat(indices))  # all have been parts of one batch
        return replace(joined, sentences=concat_rows([batch.prefill for batch in parts]), sentence_indices=None)

    def finish(self, indices: Int[Tensor, " B"]) -> SamplingBatch:
        """Mark the sentences at these indices as done."""
        rows = RowSelection.keep_groups(indices, self.width).origin
        return replace(self, row_state=replace(self.row_state, done=self.row_state.done.index_fill(0, rows, True)))

    def finalize(self) -> HypothesisBatch:
        """Return all samples of each sentence, best first."""
        return self._rank_rows()[0]

    def partial_outputs(self) -> list[list[int]]:
        """Return the tokens that the first row of each sentence has written so far."""
        ids, _, token_counts = self._collect_columns()
        prefixes, lengths = self.prefill.prefix.tolist(), self.prefill.prefix_lengths.tolist()
        outputs = []
        for prefix, prefix_length, row, count in zip(
            prefixes, lengths, ids[:, 0].tolist(), token_counts[:, 0].tolist(), strict=True
        ):
            has_ended = count > 0 and row[count - 1] == self.options.eos
            outputs.append([*prefix[:prefix_length], *row[: count - has_ended]])
        return outputs

    def build_resume_state(self, hypotheses: HypothesisBatch, *, step: Step, state: State) -> ResumeState:
        """Return the model state of the rows that wrote the hypotheses. `state` is that of all rows; the model takes no
        further step.
        """
        if self.width > 1:
            order = self._rank_rows()[1]
            first_rows = torch.arange(len(order), device=order.device).unsqueeze(1) * self.width
            state = select_rows(state, (first_rows + order).flatten())
        first_positions = self.prefill.positions.repeat_interleave(self.width)
        return ResumeState.from_generated(state, hypotheses.to_tokens(self.prefill), first_positions=first_positions)

    def _require_tokens(self, failed_row: int) -> None:
        """Raise `NoTokenError`, which names the sentence of `failed_row`, unless that is -1."""
        if failed_row >= 0:
            raise NoTokenError(int(self.row_state.row_indices[failed_row]) // self.width)

    def _build_lookahead(self, max_steps: int) -> GreedySteps | None:
        """Return the next steps to run in one call, at most `max_steps`; None if engines cannot take several steps
        (`find_suppressed_ids`), for several samples, or if at most one step is possible.
        """
        rows, steps = self.row_state, min(count_lookahead_steps(len(self.row_state.done)), max_steps)
        steps = min(steps, int((rows.limits - rows.lengths).amax()))
        if self.suppressed_ids is None or steps < 2:
            return None
        return GreedySteps(
            rows.limits,
            self.options.eos,
            self.suppressed_ids,
            steps,
            self.options.pipeline.build_repetition_rules(self.pipeline_state),
            rows.positions,
            rows.lengths,
            rows.done,
        )

    def _collect_columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids and log-probabilities [B, width, T] and token counts [B, width]."""
        ids, positions, values = self.history.to_columns()
        is_step = torch.arange(ids.size(1), device=ids.device) < self.history.counts.unsqueeze(1)
        token_counts = ((positions >= 0) & is_step).sum(1)
        shape = (len(ids) // self.width, self.width, ids.size(1))
        return ids.reshape(shape), values.reshape(shape), token_counts.view(shape[:2])

    def _rank_rows(self) -> tuple[HypothesisBatch, Int[Tensor, "B width"]]:
        """Return all samples of each sentence, best first, and the row of each in its sentence."""
        ids, values, token_counts = self._collect_columns()
        ids, values = functional.pad(ids, (0, 1)), functional.pad(values, (0, 1))  # there may be no token
        interrupted = ~self.row_state.done.view(-1, self.width)
        is_token = torch.arange(ids.size(2), device=ids.device) < token_counts.unsqueeze(2)
        prefix_sums = self.prefill.prefix_log_probabilities.sum(1, keepdim=True)
        totals = prefix_sums + torch.where(is_token, values, 0.0).sum(2)
        last = ids.gather(2, (token_counts - 1).clamp(min=0).unsqueeze(2)).squeeze(2)
        finished = (token_counts > 0) & (last == self.options.eos)
        counts, order = token_counts - finished.long(), totals.sort(dim=1, descending=True, stable=True).indices
        if self.width > 1:
            counts, finished, totals, interrupted = (
                field.gather(1, order) for field in (counts, finished, totals, interrupted)
            )
            ids, values = (field.gather(1, order.unsqueeze(2).expand_as(field)) for field in (ids, values))
        return HypothesisBatch(counts, finished, totals, totals, ids, values, interrupted), order


def init_rows(prefill: PrefillOutput, *, num_samples: int, rng_streams: Int[Tensor, " B"] | None) -> RowState:
    """Return the state of `num_samples` rows for each sentence after its prompt. `prefill` is what was read of the
    sentences.

    A sentence without a random stream of its own uses its row number.
    """
    sentences = torch.arange(len(prefill.positions), device=prefill.positions.device)
    # far apart, so that the samples of one sentence are not the first ones of the next
    streams = (sentences if rng_streams is None else rng_streams) << 20
    done = prefill.prefix_lengths >= prefill.limits
    fields = prefill.positions, prefill.prefix_lengths, prefill.limits, streams, done, prefill.segments
    if num_samples > 1:
        fields = select_rows(fields, RowSelection.expand(len(sentences), num_samples, device=sentences.device))
    positions, lengths, limits, streams, done, segments = fields
    rows = torch.arange(len(positions), device=positions.device)
    return RowState(rows, positions, lengths, limits, streams + rows % num_samples, done, segments)


def _build_inputs(row_state: RowState, ids: Int[Tensor, " N"], positions: Int[Tensor, " N"]) -> Tokens:
    """Build the next input tokens from the newest ones; position -1 in rows that are done."""
    positions = torch.where(row_state.done, -1, positions)
    return Tokens(ids.unsqueeze(1), positions.unsqueeze(1), row_state.segments)


def sample_step(
    row_state: RowState,
    logits: Float[Tensor, "N V"],
    pipeline_state: PipelineState,
    *,
    options: SamplingOptions,
    num_samples: int,
) -> tuple[RowState, SampledTokens, PipelineState, list[int]]:
    """Sample one token of each row from the logits, with `num_samples` rows for each sentence; return the new rows, the
    tokens, the new pipeline state, and the number of done sentences with the first row without a token, or -1.
    """
    pipeline, log_normalizers = options.pipeline, compute_logsumexp(logits)
    processed = pipeline.apply_masks(pipeline.apply_penalties(logits, pipeline_state), pipeline_state)
    sampled_ids = options.sampler(processed, SamplerContext(row_state.lengths, row_state.rng_streams))
    ids = sampled_ids.clamp(min=0)
    has_ended, pipeline_state = pipeline.update(ids, pipeline_state)
    fields_before = row_state.positions, row_state.lengths, row_state.done
    if (library := native_kernels.find_library_for(logits)) is not None:
        fields_after, values, sampled_positions, summary = native_kernels.update_rows(
            library,
            logits,
            log_normalizers,
            sampled_ids=sampled_ids,
            has_ended=has_ended,
            limits=row_state.limits,
            fields_before=fields_before,
            num_samples=num_samples,
        )
    else:
        values = logits.gather(1, ids.unsqueeze(1)).squeeze(1) - log_normalizers
        sampled_positions = torch.where(row_state.done, -1, row_state.positions)
        lengths = row_state.lengths + 1
        fields_after = row_state.positions + 1, lengths, row_state.done | has_ended | (lengths >= row_state.limits)
        impossible = (sampled_ids < 0) & ~row_state.done
        first = torch.where(impossible.any(), impossible.byte().argmax(), -1)
        summary = torch.stack((fields_after[2].view(-1, num_samples).all(1).sum(), first)).tolist()
    positions, lengths, done = fields_after
    row_state = RowState(
        row_state.row_indices, positions, lengths, row_state.limits, row_state.rng_streams, done, row_state.segments
    )
    return row_state, SampledTokens(row_state.row_indices, ids, sampled_positions, values), pipeline_state, summary


@final
class TokenStream(Iterator[Tokens]):
    """Iterator over the tokens of all rows as they are sampled, one column [B, 1] at a time.

    A row that has ended goes on with position -1.

    Attributes:
        interrupted: mask of the rows that were interrupted; None while tokens come.
    """

    def __init__(
        self, step: Step, state: State, request: GenerationRequest, *, sampler: Sampler, pipeline: LogitsPipeline
    ) -> None:
        self.interrupted: Bool[Tensor, " B"] | None = None
        self._finished: list[FinishedRequest] = []
        self._tokens = self._stream_tokens(step, state, request, sampler=sampler, pipeline=pipeline)

    def __next__(self) -> Tokens:
        return next(self._tokens)

    @property
    @torch.inference_mode()
    def resume_state(self) -> ResumeState | None:
        """Model state after all tokens, computed on access; None while tokens come."""
        return None if self.interrupted is None else collect_resume_state(self._finished)

    @torch.inference_mode()
    def _stream_tokens(
        self, step: Step, state: State, request: GenerationRequest, *, sampler: Sampler, pipeline: LogitsPipeline
    ) -> Iterator[Tokens]:
        """Read the prompt of the request, then yield the tokens of each step as a column [B, 1]; at the end, set
        `interrupted`.
        """
        newest = list[SampledTokens]()
        prefill, state = prefill_prompt(step, state, request)
        options = SamplingOptions(-1, sampler, pipeline, newest.append)
        batch = SamplingBatch.from_prefill(prefill, request, options, num_samples=1)
        running = ContinuousBatch(step, width=1)
        _, finished = running.add_batch(batch, state, prefill.logits, request=request)
        while len(running) or newest:
            for sampled in newest:
                yield sampled.to_column(prefill)
            newest.clear()
            finished += running.step()
        self._finished = sort_finished(finished)
        interrupted = [row.hypotheses[0].interrupted for row in self._finished]
        self.interrupted = torch.tensor(interrupted, device=prefill.positions.device)


def stream_samples(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    sampler: Sampler,
    stop: StoppingCriterion,
    max_new_tokens: int | Int[Tensor, " B"],
    penalties: Sequence[LogitsProcessor] = (),
    logits_masks: Sequence[LogitsMask] = (),
    prefix: Int[Tensor, "B L"] | None = None,
    rng_streams: Int[Tensor, " B"] | None = None,
    until: InterruptCondition = never_interrupt,
) -> TokenStream:
    """Return a stream of tokens as they are sampled: the outputs of `sampling_search`, column by column. `step` and
    `state` are those of the model before the prompt, and `until` interrupts all rows when it returns True.

    The token at which `stop` ends a row is the row's last one. Penalties and masks change the logits before sampling.
    The prompt is read when the first column is requested. A forced prefix is read, but not returned again.
    """
    request = GenerationRequest(prompt, max_new_tokens, prefix, rng_streams, until=until, keep_state=True)
    return TokenStream(step, state, request, sampler=sampler, pipeline=LogitsPipeline(stop, penalties, logits_masks))
