"""Beam search over any engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.generation import native_kernels
from heedful.generation.beam_state import BeamCandidates, BeamState, BeamStep, trace_beams
from heedful.generation.decode_batch import DecodeBatch, StepHistory, StepResult, count_lookahead_steps
from heedful.generation.lexical_constraints import ConstraintBanks
from heedful.generation.penalties import LengthPenalty
from heedful.generation.prefill import GenerationRequest
from heedful.generation.processors import LogitsPipeline, PipelineState, keep_selected
from heedful.generation.results import Hypothesis, HypothesisBatch, PrefillOutput, ResumeState
from heedful.generation.samplers import LogitsFilter, apply_filters, collect_suppressed_ids
from heedful.generation.topk import TopKResult, compute_logsumexp, top_k
from heedful.models.interface import MultiStepDecoder, State, Step
from heedful.tensors import BeamSteps, BeamStepsOutput, RowSelection, Tokens, concat_rows, select_rows


@dataclass(frozen=True)
class BeamOptions:
    """What is the same for all sentences and steps of a beam search.

    Attributes:
        eos: the token that ends a sentence.
        pipeline: logits processors and stopping criteria.
        filters: forbid tokens.
        divisors: divisor of the length penalty for each length.
        on_step: called with every step; its argument is computed only if it is given.
    """

    eos: int
    pipeline: LogitsPipeline
    filters: Sequence[LogitsFilter]
    divisors: Float[Tensor, " lengths"]
    on_step: Callable[[BeamStep], None] | None = None

    @cached_property
    def suppressed_ids(self) -> Int[Tensor, " n"] | None:
        """Tokens that the search must not take; None if engines cannot take several steps at once: if it has a
        callback, other filters, or a pipeline that engines do not know.
        """
        is_known = self.on_step is None and self.pipeline.is_supported_by_engines
        return collect_suppressed_ids(self.filters) if is_known else None


@final
@dataclass(frozen=True)
class BeamGroup:
    """Beams of some sentences that are extended together, and what led to them.

    Attributes:
        beam_state: state of the search.
        history: origin, token and its log-probability of each beam at each step.
        pipeline_state: state of logits processors and stopping criteria of each beam.
    """

    beam_state: BeamState
    history: StepHistory
    pipeline_state: PipelineState

    @classmethod
    def from_prefill(
        cls, prefill: PrefillOutput, request: GenerationRequest, pipeline: LogitsPipeline, *, width: int, n_best: int
    ) -> BeamGroup:
        """Return the group before its first token, with `width` beams for each sentence, of which `n_best` finished
        hypotheses are kept. `prefill` is what was read of the sentences of the request.
        """
        pipeline_state = pipeline.init_state(request.prompt, prefill)
        beam_state = BeamState.from_prefill(prefill.without_logits(), width=width, n_best=n_best)
        indices = torch.zeros_like(beam_state.live_scores, dtype=torch.long)
        history = StepHistory.empty_like(indices, indices, beam_state.live_scores)
        return cls(beam_state, history, pipeline_state)

    @property
    def width(self) -> int:
        """Number of beams of each sentence."""
        return self.beam_state.live_scores.size(1)

    def advance(
        self,
        logits: Float[Tensor, "N V"],
        *,
        rows_per_sentence: int,
        options: BeamOptions,
        constraint_banks: ConstraintBanks | None = None,
        diversity_penalty: Float[Tensor, "G V"] | None = None,
        number: int = 0,
    ) -> tuple[BeamGroup, BeamCandidates, tuple[int, bool]]:
        """Decode one token of every beam; return the new group, the candidates that live on, and the number of done
        sentences with whether any beam changed its row. `logits` has `rows_per_sentence` rows for each sentence: one
        before the first token, then one for each beam.

        For `constraint_banks` and `diversity_penalty` see `find_top_candidates`; `number` is that of the group.
        """
        state_before = self.beam_state
        candidates = find_top_candidates(
            logits,
            state_before,
            self.pipeline_state,
            rows_per_sentence=rows_per_sentence,
            options=options,
            constraint_banks=constraint_banks,
            diversity_penalty=diversity_penalty,
        )
        is_final, candidate_states = options.pipeline.update_candidates(
            candidates.ids, self.pipeline_state, beams=candidates.beams, rows_per_group=rows_per_sentence
        )
        candidates = replace(candidates, ends=is_final)
        if options.on_step:
            options.on_step(build_beam_step(state_before, candidates, divisors=options.divisors, group=number))
        if diversity_penalty is not None:
            candidates = sort_by_totals(candidates)
        beam_state, selected, summary = select_beams(state_before, candidates, divisors=options.divisors)
        history = self.history.append((selected.beams, selected.ids, selected.values))
        return BeamGroup(beam_state, history, keep_selected(candidate_states, selected.ranks)), selected, summary

    def extend(self, output: BeamStepsOutput, pipeline: LogitsPipeline) -> BeamGroup:
        """Return the group after several steps that an engine has run."""
        columns = (output.beams, output.ids, output.log_probabilities)
        history = self.history.extend(tuple(column.transpose(0, 1) for column in columns))
        pipeline_state = self.pipeline_state if output.texts is None else pipeline.build_state_from_texts(output.texts)
        return BeamGroup(self.beam_state.with_dynamic_fields(output.fields), history, pipeline_state)

    def reorder(self, rows: RowSelection) -> BeamGroup:
        """Return the group with the sentences that `rows` selects."""
        beam_state, history = select_rows((self.beam_state, self.history), rows)
        state_width = self.width if len(self.history) else 1
        pipeline_state = select_rows(self.pipeline_state, RowSelection.keep_groups(rows.origin, state_width))
        return BeamGroup(beam_state, history, pipeline_state)

    def concat(self, others: Sequence[BeamGroup]) -> BeamGroup:
        """Concatenate the sentences of several groups of equal width; see `DecodeBatch.concat`."""
        parts = [(group.beam_state, group.history) for group in (self, *others)]
        return BeamGroup(*concat_rows(parts), self.pipeline_state)

    def mark_done(self, indices: Int[Tensor, " B"]) -> BeamGroup:
        """Mark the sentences at these indices as done."""
        done = self.beam_state.done.index_fill(0, indices, True)
        return replace(self, beam_state=replace(self.beam_state, done=done))

    def finalize(self, options: BeamOptions) -> tuple[HypothesisBatch, Bool[Tensor, "B n"]]:
        """Return the best hypotheses of all sentences, and a mask of the ended ones; see `finalize_hypotheses`."""
        return finalize_hypotheses(self.beam_state, self.history, options=options)

    def find_best_so_far(self, options: BeamOptions) -> list[Hypothesis]:
        """Return the best live hypothesis of each sentence, or the best finished one if its score is higher."""
        beam_state = self.beam_state
        best_live = beam_state.live_scores[:, :1] / options.divisors[beam_state.lengths].unsqueeze(1)
        finished_is_worse = (beam_state.finished[:, :, 0] < best_live).unsqueeze(2)
        beam_state = replace(beam_state, finished=beam_state.finished.masked_fill(finished_is_worse, -math.inf))
        hypotheses, _ = finalize_hypotheses(beam_state, self.history, options=options)
        return [ranked[0] for ranked in hypotheses.to_hypotheses(beam_state.prefill)]


@final
@dataclass(frozen=True)
class BeamBatch(DecodeBatch):
    """Decode batch of beam search.

    Attributes:
        group: the beams.
        options: what is the same for all of them.
        constraint_banks: progress of lexical constraints; None if there are none.
        prompt_state: model state after the prompts; None unless a state after the hypotheses is requested.
    """

    width: int
    merge_key: Any
    group: BeamGroup
    options: BeamOptions
    constraint_banks: ConstraintBanks | None = None
    prompt_state: State = None

    @property
    def prefill(self) -> PrefillOutput:
        """What was read of each sentence before the search."""
        return self.group.beam_state.prefill

    @property
    def done_mask(self) -> Bool[Tensor, " G"]:
        """Mask of the sentences whose result cannot change any more."""
        return self.group.beam_state.done

    def advance(self, logits: Float[Tensor, "N V"], *, rows_per_sentence: int) -> tuple[BeamBatch, StepResult]:
        """Decode one token of every beam from `logits`, which has `rows_per_sentence` rows for each sentence; return
        the new batch and the changes to the model state.
        """
        group, selected, (num_done, needs_reorder) = self.group.advance(
            logits,
            rows_per_sentence=rows_per_sentence,
            options=self.options,
            constraint_banks=self.constraint_banks,
        )
        banks = self.constraint_banks
        if banks is not None:
            banks = banks.select_beams(selected, group.beam_state)
        tokens = build_beam_inputs(selected.ids, group.beam_state.input_positions, self.prefill)
        result = StepResult(tokens, num_done, selected.beams if needs_reorder else None)
        return BeamBatch(self.width, self.merge_key, group, self.options, banks, self.prompt_state), result

    def advance_ahead(
        self, engine: MultiStepDecoder, tokens: Tokens, state: State, *, max_steps: int
    ) -> tuple[BeamBatch, StepResult, State] | None:
        """Decode several tokens of each beam, at most `max_steps`, in one call of the engine; `tokens` are the next
        input tokens. Return the new batch, the step result and the new model state, or None where that is not possible.

        It needs a search without anything in Python that looks at each token.
        """
        search = self._build_lookahead(max_steps)
        ahead = None if search is None else engine.decode_steps(tokens, state, search=search)
        if ahead is None:
            return None
        output, state = ahead
        group = self.group.extend(output, self.options.pipeline)
        tokens = build_beam_inputs(output.ids[-1], group.beam_state.input_positions, self.prefill)
        beams = output.beams[-1] if output.needs_reorder else None
        result = StepResult(tokens, output.num_done, beams, num_steps=len(output.ids))
        return replace(self, group=group), result, state

    def _build_lookahead(self, max_steps: int) -> BeamSteps | None:
        """Return the next steps to run in one call, at most `max_steps`; None if engines cannot take several steps
        (`BeamOptions.suppressed_ids`), with lexical constraints or a wide beam, or if at most one step is possible.
        """
        beam_state, options, prefill = self.group.beam_state, self.options, self.prefill
        if self.constraint_banks is not None or 2 * self.width > native_kernels.MAX_TOP_K:
            return None
        steps = min(count_lookahead_steps(beam_state.live_scores.numel()), max_steps)
        steps = min(steps, int((prefill.limits - beam_state.lengths).amax()))
        if options.suppressed_ids is None or steps < 2:
            return None
        return BeamSteps(
            prefill.limits,
            options.eos,
            options.suppressed_ids,
            steps,
            options.pipeline.build_repetition_rules(self.group.pipeline_state),
            beam_state.get_dynamic_fields(),
            prefill.prefix_lengths,
            options.divisors,
        )

    def keep_rows(self, indices: Int[Tensor, " G"]) -> BeamBatch:
        """Keep only the sentences at these indices."""
        group, prompt_state = select_rows((self.group, self.prompt_state), indices)
        return replace(self, group=group, prompt_state=prompt_state)

    def concat(self, others: Sequence[BeamBatch]) -> BeamBatch:
        """Concatenate the sentences of this batch and of others."""
        parts = (self, *others)
        group, prompt_state = concat_rows([(batch.group, batch.prompt_state) for batch in parts])
        options = max((batch.options for batch in parts), key=lambda options: len(options.divisors))
        return replace(self, group=group, options=options, prompt_state=prompt_state)

    def finish(self, indices: Int[Tensor, " B"]) -> BeamBatch:
        """Mark the sentences at these indices as done."""
        return replace(self, group=self.group.mark_done(indices))

    def finalize(self) -> HypothesisBatch:
        """Return the best hypotheses of each sentence."""
        return self.group.finalize(self.options)[0]

    def partial_outputs(self) -> list[list[int]]:
        """Return the best live hypothesis of each sentence, or the best finished one if its score is higher."""
        return [list(best.ids) for best in self.group.find_best_so_far(self.options)]

    def build_resume_state(self, hypotheses: HypothesisBatch, *, step: Step, state: State) -> ResumeState:
        """Return the model state after the hypotheses, which the model reads again; see `replay_hypotheses`."""
        return replay_hypotheses(step, self.prompt_state, hypotheses, prefill=self.prefill)


def compute_length_divisors(prefill: PrefillOutput, length_penalty: LengthPenalty) -> Float[Tensor, " lengths"]:
    """Compute the divisor of the length penalty for every length from 0 that the sentences of `prefill` can reach;
    lengths below 1 count as 1.

    The table has two more entries than the longest length, because sentences that are done may be there in later steps.
    """
    scores = prefill.prefix_log_probabilities
    longest = int(torch.maximum(prefill.limits, prefill.prefix_lengths).amax())
    lengths = torch.arange(longest + 3, dtype=scores.dtype, device=scores.device)
    return length_penalty.compute_divisors(lengths.clamp(min=1))


def find_top_candidates(
    logits: Float[Tensor, "N V"],
    beam_state: BeamState,
    pipeline_state: PipelineState,
    *,
    rows_per_sentence: int,
    options: BeamOptions,
    constraint_banks: ConstraintBanks | None = None,
    diversity_penalty: Float[Tensor, "G V"] | None = None,
) -> BeamCandidates:
    """Return the 2 * width best continuations of each sentence, best first; minus infinity where there are fewer.
    `logits` has `rows_per_sentence` rows for each sentence: one before the first token, then one for each beam.

    `diversity_penalty` is subtracted from the logits for the choice and its order only; the totals do not contain it.
    With `constraint_banks` the candidates are chosen by dynamic beam allocation.
    """
    pipeline = options.pipeline
    ranking_normalizers = log_normalizers = compute_logsumexp(logits)
    processed = pipeline.apply_penalties(logits, pipeline_state)
    if pipeline.penalties:
        ranking_normalizers = compute_logsumexp(processed)  # the allowed tokens must be a distribution again
    processed = pipeline.apply_masks(processed, pipeline_state)
    if options.filters:
        lengths = beam_state.lengths.unsqueeze(1).expand(-1, rows_per_sentence).flatten()
        processed = apply_filters(processed, lengths, filters=options.filters)
    if diversity_penalty is not None:
        processed = processed - diversity_penalty.repeat_interleave(rows_per_sentence, 0)
    num_candidates, offsets = (
        2 * beam_state.live_scores.size(1),
        beam_state.live_scores[:, :rows_per_sentence] - ranking_normalizers.view(-1, rows_per_sentence),
    )
    library = native_kernels.find_library_for(processed) if num_candidates <= native_kernels.MAX_TOP_K else None
    if library is not None:
        *top, values = native_kernels.find_top_k(
            library, processed, num_candidates, offsets, model_logits=(logits, log_normalizers)
        )
        candidates = BeamCandidates.from_top_k(values, TopKResult(*top), num_candidates=num_candidates)
    else:
        best = top_k(processed, num_candidates, offsets=offsets)
        row_indices = torch.arange(len(best.ids), device=logits.device).unsqueeze(1) * rows_per_sentence + best.members
        candidates = BeamCandidates.from_top_k(
            logits[row_indices, best.ids] - log_normalizers[row_indices], best, num_candidates=num_candidates
        )
    if diversity_penalty is not None:
        candidates = replace(candidates, totals=candidates.totals + diversity_penalty.gather(1, candidates.ids))
    if constraint_banks is None:
        return candidates
    return constraint_banks.allocate(
        candidates, beam_state, processed=processed, offsets=offsets, model_logits=(logits, log_normalizers)
    )


def build_beam_step(
    beam_state: BeamState, candidates: BeamCandidates, *, divisors: Float[Tensor, " lengths"], group: int = 0
) -> BeamStep:
    """Build the description of a step for the `on_step` callback, from the beam state before it. `divisors` has the
    divisor of the length penalty for each length; `group` is the number of the beam group in diverse beam search.
    """
    scores = candidates.totals / divisors[beam_state.lengths + 1].unsqueeze(1)
    numbers, done = beam_state.prefill.sentence_indices, beam_state.done
    return BeamStep(numbers, done, candidates.beams, candidates.ids, candidates.totals, scores, group)


def select_beams(
    beam_state: BeamState, candidates: BeamCandidates, *, divisors: Float[Tensor, " lengths"]
) -> tuple[BeamState, BeamCandidates, tuple[int, bool]]:
    """Keep the finished candidates and choose the live beams of the next step; return the new beam state, the
    candidates that the live beams took, and the number of done sentences with whether any beam changed its row.
    `divisors` has the divisor of the length penalty for each length.
    """
    if (library := native_kernels.find_library_for(beam_state.live_scores)) is not None:
        fields, selected_fields, (num_done, needs_reorder) = native_kernels.select_beams(
            library,
            candidates.to_tuple(),
            beam_state.get_dynamic_fields(),
            divisors=divisors,
            prefix_lengths=beam_state.prefill.prefix_lengths,
            limits=beam_state.prefill.limits,
        )
        return beam_state.with_dynamic_fields(fields), BeamCandidates(*selected_fields), (num_done, bool(needs_reorder))
    beam_state, selected = _select_beams_torch(beam_state, candidates, divisors=divisors)
    return beam_state, selected, _summarize_step(beam_state, selected)


def _select_beams_torch(
    beam_state: BeamState, candidates: BeamCandidates, *, divisors: Float[Tensor, " lengths"]
) -> tuple[BeamState, BeamCandidates]:
    """Choose the live beams with tensor operations, where the native library is missing; return the new beam state and
    the candidates that the live beams took. `divisors` has the divisor of the length penalty for each length.
    """
    width, n_best = beam_state.live_scores.size(1), beam_state.finished_indices.size(1)
    is_final, was_done = candidates.ends, beam_state.done.unsqueeze(1)
    lengths = beam_state.lengths + 1

    totals = candidates.totals[:, :width].masked_fill(~is_final[:, :width] | was_done, -math.inf)
    scores = totals / divisors[lengths].unsqueeze(1)
    finished = torch.cat((beam_state.finished, torch.stack((scores, totals, candidates.values[:, :width]), 2)), 1)
    finished_indices = torch.cat(
        (beam_state.finished_indices, beam_state.counts.unsqueeze(1) * width + candidates.beams[:, :width]), 1
    )
    last_tokens = torch.cat((beam_state.last_tokens, candidates.ids[:, :width]), 1)
    order = finished[:, :, 0].sort(dim=1, descending=True, stable=True).indices[:, :n_best]
    finished = finished.gather(1, order.unsqueeze(2).expand(-1, -1, 3))

    selected = candidates.take(is_final.byte().sort(dim=1, stable=True).indices[:, :width])
    live_scores = torch.where(was_done, beam_state.live_scores, selected.totals.masked_fill(selected.ends, -math.inf))
    largest_divisor = torch.maximum(divisors[lengths + 1], divisors[beam_state.prefill.limits])
    is_beaten = live_scores[:, 0].clamp(max=0) / largest_divisor <= finished[:, -1, 0]
    done = beam_state.done | (lengths >= beam_state.prefill.limits) | is_beaten
    finished_indices, last_tokens = finished_indices.gather(1, order), last_tokens.gather(1, order)
    return beam_state.with_dynamic_fields(
        (beam_state.counts + ~beam_state.done, live_scores, done, finished, finished_indices, last_tokens)
    ), selected


def _summarize_step(beam_state: BeamState, selected: BeamCandidates) -> tuple[int, bool]:
    """Return the number of done sentences, and whether any beam of the others changed its row. `selected` are the
    candidates that the live beams took. There is one device synchronisation.
    """
    width = selected.beams.size(1)
    own_rows = torch.arange(width, device=selected.beams.device)
    needs_reorder = ((selected.beams != own_rows) & ~beam_state.done.unsqueeze(1)).any()
    num_done, any_moved = torch.stack((beam_state.done.sum(), needs_reorder.long())).tolist()
    return num_done, bool(any_moved)


def finalize_hypotheses(
    beam_state: BeamState,
    history: StepHistory,
    *,
    options: BeamOptions,
) -> tuple[HypothesisBatch, Bool[Tensor, "B n"]]:
    """Return the best finished hypotheses, followed by the best live ones where they are too few, and a mask of those
    that have ended. `history` has the steps from which the tokens are traced back.
    """
    prefill, divisors = beam_state.prefill, options.divisors
    width, n_best = beam_state.live_scores.size(1), beam_state.finished_indices.size(1)
    scores = beam_state.live_scores / divisors[beam_state.lengths].unsqueeze(1)
    live_columns = torch.stack((scores, beam_state.live_scores, torch.zeros_like(scores)), 2)
    beams = torch.arange(width, device=live_columns.device).expand(len(live_columns), -1)
    all_scores = torch.cat((beam_state.finished, live_columns), 1)
    indices = torch.cat((beam_state.finished_indices, beam_state.counts.unsqueeze(1) * width + beams), 1)
    last_tokens = torch.cat((beam_state.last_tokens, torch.zeros_like(beams)), 1)
    order = (all_scores[:, :, 0] == -math.inf).byte().sort(dim=1, stable=True).indices[:, :n_best]
    scores, totals, last_scores = all_scores.gather(1, order.unsqueeze(2).expand(-1, -1, 3)).unbind(2)
    counts, beams = (part.gather(1, order) for part in (indices // width, indices % width))
    ids, values = trace_beams(*history.to_columns(), beams=beams, counts=counts)
    values.scatter_(2, counts.unsqueeze(2), last_scores.unsqueeze(2))
    last_tokens = last_tokens.gather(1, order)
    ids.scatter_(2, counts.unsqueeze(2), last_tokens.unsqueeze(2))
    has_ended = order < n_best
    if options.pipeline.penalties:  # the ranking is not by the probabilities of the model
        is_generated = torch.arange(values.size(2), device=values.device) < (counts + has_ended).unsqueeze(2)
        totals = prefill.prefix_log_probabilities.sum(1, keepdim=True) + torch.where(is_generated, values, 0.0).sum(2)
    finished = has_ended & (last_tokens == options.eos)
    interrupted = ~beam_state.done.unsqueeze(1).expand_as(finished)
    return HypothesisBatch(
        counts + (has_ended & ~finished), finished, scores, totals, ids, values, interrupted
    ), has_ended


def sort_by_totals(candidates: BeamCandidates) -> BeamCandidates:
    """Sort candidates that were chosen by penalised totals into the order that `select_beams` expects: first those that
    end the hypothesis and are in the first half, then the first `width` of the others, by the model's own
    log-probability.

    The log-probability of all other candidates becomes minus infinity.
    """
    width = candidates.ends.size(1) // 2
    is_ended = candidates.ends & (torch.arange(2 * width, device=candidates.ends.device) < width)
    is_live = ~candidates.ends & ((~candidates.ends).cumsum(1) <= width)
    totals = candidates.totals.masked_fill(~(is_ended | is_live), -math.inf)
    order = totals.masked_fill(is_ended, math.inf).sort(dim=1, descending=True, stable=True).indices
    return replace(candidates, totals=totals).take(order)


def build_beam_inputs(ids: Int[Tensor, "G width"], positions: Int[Tensor, " G"], prefill: PrefillOutput) -> Tokens:
    """Build the input tokens [G * width, 1] of the next step from the new ids; all beams of a sentence have its
    position. Segments come from `prefill`.
    """
    width, segments = ids.size(1), prefill.segments
    row_segments = None if segments is None else segments.repeat_interleave(width, 0)
    return Tokens(ids.view(-1, 1), positions.repeat_interleave(width).unsqueeze(1), row_segments)


def replay_hypotheses(
    step: Step, prompt_state: State, hypotheses: HypothesisBatch, *, prefill: PrefillOutput
) -> ResumeState:
    """Run the model over each final hypothesis and return the state after it. `prompt_state` is the model state after
    the prompts, and `prefill` what was read before the search.

    The states that a hypothesis passed through are gone by the end of the search, so it is read once more, as one
    chunk.
    """
    sentences, generated = (hypotheses.scores > -math.inf).nonzero()[:, 0], hypotheses.to_tokens(prefill)
    resume_state = ResumeState.from_generated(
        select_rows(prompt_state, sentences), generated, first_positions=prefill.positions[sentences]
    )
    read_tokens = Tokens(
        generated.ids,
        torch.where(generated.positions < resume_state.pending_tokens.positions, generated.positions, -1),
        generated.segments,
    )
    return replace(resume_state, state=step(read_tokens, resume_state.state)[1])
