"""Beam search over any engine."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation import native_kernels
from heedful.generation.beam_state import BeamCandidates, BeamState, BeamStep, BeamTrellis, SupportsBacktrace
from heedful.generation.lexical_constraints import ConstraintBanks
from heedful.generation.penalties import LengthPenalty
from heedful.generation.prefill import GenerationRequest, PrefillOutput, prefill_prompt
from heedful.generation.processors import LogitsPipeline, PipelineState, keep_selected
from heedful.generation.results import HypothesisBatch, ResumeState, SearchResult
from heedful.generation.samplers import apply_filters
from heedful.generation.scoring import upcast_logits
from heedful.generation.topk import TopKResult, compute_logsumexp, top_k
from heedful.models.interface import State, Step
from heedful.tensors import RowSelection, Tokens, concat_rows, select_rows

if TYPE_CHECKING:
    from heedful.generation.search import BeamSearch, DiverseBeamSearch

# Share of the sentences that must be done before their rows are dropped. With a small Transformer on a CPU anything
# from 0 to a half costs the same within a tenth; never dropping costs up to half as much again.
COMPACTION_THRESHOLD = 0.25


@torch.inference_mode()
def run_beam_search(step: Step, state: State, request: GenerationRequest, *, search: BeamSearch) -> SearchResult:
    """Run beam search; return the best hypotheses and, if requested, the model state after each.

    The states that a final hypothesis passed through are gone by the end of the search, so the final hypotheses are
    read once more, as one chunk.
    """
    _check_beam_size(search.width, search.n_best)
    prefill, prompt_state = prefill_prompt(step, state, request, eos=search.eos)
    beam_state = BeamState.from_prefill(prefill, width=search.width, n_best=search.n_best)
    divisors, trellis = (
        compute_length_divisors(beam_state, search.length_penalty),
        BeamTrellis(len(prefill.limits), search.width),
    )
    pipeline = LogitsPipeline.from_request(
        request, eos=search.eos, penalties=search.penalties, logits_masks=search.logits_masks
    )
    model_state, pipeline_state, logits = prompt_state, pipeline.init_state(request.prompt, prefill), prefill.logits
    constraint_banks = None if request.constraints is None else request.constraints.init_banks(prefill, eos=search.eos)
    finished_parts, rows, width = [], 1, search.width
    is_running = not bool(beam_state.done.all()) and not request.until()
    while is_running:
        logits = upcast_logits(logits)
        candidates = find_top_candidates(
            logits,
            beam_state,
            pipeline_state,
            rows_per_sentence=rows,
            pipeline=pipeline,
            search=search,
            constraint_banks=constraint_banks,
        )
        is_final, candidate_states = pipeline.update_candidates(
            candidates.ids, pipeline_state, beams=candidates.beams, rows_per_group=rows
        )
        candidates = replace(candidates, ends=is_final)
        if search.on_step:
            search.on_step(build_beam_step(beam_state, candidates, divisors=divisors))
        beam_state, selected, (num_done, needs_reorder) = select_beams(beam_state, candidates, divisors=divisors)
        pipeline_state = keep_selected(candidate_states, selected.ranks)
        constraint_banks = None if constraint_banks is None else constraint_banks.select_beams(selected, beam_state)
        trellis.append_step(
            beam_state.sentence_indices, origins=selected.beams, ids=selected.ids, log_probabilities=selected.values
        )
        is_running = num_done < len(beam_state.done) and not request.until()
        if is_running:
            if num_done >= COMPACTION_THRESHOLD * len(beam_state.done):
                active = (~beam_state.done).nonzero().squeeze(1)
                finished_parts.append(select_rows(beam_state, beam_state.done.nonzero().squeeze(1)))
                beam_state, selected = select_rows(beam_state, active), select_rows(selected, active)
                model_state, pipeline_state = (
                    select_rows(model_state, RowSelection.keep_groups(active, rows)),
                    select_rows(pipeline_state, RowSelection.keep_groups(active, width)),
                )
            model_state = reorder_state(
                model_state, selected.beams, rows_per_sentence=rows, needs_reorder=needs_reorder
            )
            rows = width
            logits, model_state = _step_live_beams(step, model_state, beam_state, selected.ids)
    all_beams = concat_rows([*finished_parts, beam_state])
    all_beams = select_rows(all_beams, all_beams.sentence_indices.argsort())
    hypotheses, _ = finalize_hypotheses(all_beams, trellis, divisors=divisors, prefill=prefill, search=search)
    return SearchResult(
        hypotheses.to_hypotheses(prefill),
        replay_hypotheses(step, prompt_state, hypotheses, prefill=prefill) if request.keep_state else None,
    )


def replay_hypotheses(
    step: Step, prompt_state: State, hypotheses: HypothesisBatch, *, prefill: PrefillOutput
) -> ResumeState:
    """Run the model over each final hypothesis and return the state after it.

    `prompt_state` is the model state after the prompts.
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


def _check_beam_size(width: int, n_best: int) -> None:
    """Raise `RecipeError` unless `width` is at least 1 and `n_best` is from 1 to `width`."""
    if width < 1:
        raise RecipeError(f"beam width: {width}; must be at least 1")
    if not 1 <= n_best <= width:
        raise RecipeError(f"n-best: {n_best} of a beam of width {width}; must be from 1 to the width")


def compute_length_divisors(beam_state: BeamState, length_penalty: LengthPenalty) -> Float[Tensor, " lengths"]:
    """Compute the divisor of the length penalty for every length that can occur.

    The table has two more entries than the longest length, because sentences that are done may be there in later steps.
    """
    longest = int(torch.maximum(beam_state.limits, beam_state.prefix_lengths).amax())
    lengths = torch.arange(longest + 3, dtype=beam_state.live_scores.dtype, device=beam_state.live_scores.device)
    return length_penalty.compute_divisors(lengths.clamp(min=1))


def find_top_candidates(
    logits: Float[Tensor, "N V"],
    beam_state: BeamState,
    pipeline_state: PipelineState,
    *,
    rows_per_sentence: int,
    pipeline: LogitsPipeline,
    search: BeamSearch | DiverseBeamSearch,
    constraint_banks: ConstraintBanks | None = None,
    diversity_penalty: Float[Tensor, "G V"] | None = None,
) -> BeamCandidates:
    """Return the 2 * width best continuations of each sentence, best first; minus infinity where there are fewer.

    `diversity_penalty` is subtracted from the logits for the choice and its order only; the totals do not contain it.
    With `constraint_banks` the candidates are chosen by dynamic beam allocation.
    """
    ranking_normalizers = log_normalizers = compute_logsumexp(logits)
    processed = pipeline.apply_penalties(logits, pipeline_state)
    if pipeline.penalties:
        ranking_normalizers = compute_logsumexp(processed)  # the allowed tokens must be a distribution again
    processed = pipeline.apply_masks(processed, pipeline_state)
    if search.filters:
        lengths = (beam_state.prefix_lengths + beam_state.counts).unsqueeze(1).expand(-1, rows_per_sentence).flatten()
        processed = apply_filters(processed, lengths, filters=search.filters)
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
    """Build the description of a step for the `on_step` callback."""
    scores = candidates.totals / divisors[beam_state.prefix_lengths + beam_state.counts + 1].unsqueeze(1)
    return BeamStep(
        beam_state.sentence_indices, beam_state.done, candidates.beams, candidates.ids, candidates.totals, scores, group
    )


def select_beams(
    beam_state: BeamState, candidates: BeamCandidates, *, divisors: Float[Tensor, " lengths"]
) -> tuple[BeamState, BeamCandidates, tuple[int, bool]]:
    """Keep the finished candidates and choose the live beams of the next step.

    Returns the new beam state, the candidates that the live beams took, and the number of done sentences with whether
    any beam changed its row.
    """
    if (library := native_kernels.find_library_for(beam_state.live_scores)) is not None:
        fields, selected_fields, (num_done, needs_reorder) = native_kernels.select_beams(
            library,
            candidates.to_tuple(),
            beam_state.get_dynamic_fields(),
            divisors=divisors,
            prefix_lengths=beam_state.prefix_lengths,
            limits=beam_state.limits,
        )
        return beam_state.with_dynamic_fields(fields), BeamCandidates(*selected_fields), (num_done, bool(needs_reorder))
    beam_state, selected = _select_beams_torch(beam_state, candidates, divisors=divisors)
    return beam_state, selected, _summarize_step(beam_state, selected)


def _select_beams_torch(
    beam_state: BeamState, candidates: BeamCandidates, *, divisors: Float[Tensor, " lengths"]
) -> tuple[BeamState, BeamCandidates]:
    """Choose the live beams with tensor operations, where the native library is missing."""
    width, n_best = beam_state.live_scores.size(1), beam_state.finished_indices.size(1)
    is_final, was_done = candidates.ends, beam_state.done.unsqueeze(1)
    lengths = beam_state.prefix_lengths + beam_state.counts + 1

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
    largest_divisor = torch.maximum(divisors[lengths + 1], divisors[beam_state.limits])
    is_beaten = live_scores[:, 0].clamp(max=0) / largest_divisor <= finished[:, -1, 0]
    done = beam_state.done | (lengths >= beam_state.limits) | is_beaten
    finished_indices, last_tokens = finished_indices.gather(1, order), last_tokens.gather(1, order)
    return beam_state.with_dynamic_fields(
        (beam_state.counts + ~beam_state.done, live_scores, done, finished, finished_indices, last_tokens)
    ), selected


def _summarize_step(beam_state: BeamState, selected: BeamCandidates) -> tuple[int, bool]:
    """Return the number of done sentences and whether any beam changed its row, with one device synchronisation."""
    width = selected.beams.size(1)
    own_rows = torch.arange(width, device=selected.beams.device)
    needs_reorder = ((selected.beams != own_rows) & ~beam_state.done.unsqueeze(1)).any()
    num_done, any_moved = torch.stack((beam_state.done.sum(), needs_reorder.long())).tolist()
    return num_done, bool(any_moved)


def reorder_state(state: State, beams: Int[Tensor, "G width"], *, rows_per_sentence: int, needs_reorder: bool) -> State:
    """Reorder the model state to the chosen beams; return it unchanged if no beam moved.

    `rows_per_sentence` is the number of rows of each sentence in `state`: 1 after the prompt, the beam width later.
    """
    groups, width = beams.shape
    if width == 1:
        return state
    if rows_per_sentence == 1:
        return select_rows(state, RowSelection.expand(groups, width, device=beams.device))
    return select_rows(state, RowSelection.within_groups(beams)) if needs_reorder else state


def _step_live_beams(
    step: Step, state: State, beam_state: BeamState, ids: Int[Tensor, "G width"]
) -> tuple[Float[Tensor, "N V"], State]:
    """Run one model step for all live hypotheses; sentences that are done get no token."""
    positions = torch.where(beam_state.done, -1, beam_state.first_positions + beam_state.counts - 1)
    width, segments = ids.size(1), beam_state.segments
    tokens = Tokens(
        ids.view(-1, 1),
        positions.unsqueeze(1).expand(-1, width).reshape(-1, 1),
        None if segments is None else segments.repeat_interleave(width, 0),
    )
    logits, state = step(tokens, state)
    return logits[:, -1], state


def finalize_hypotheses(
    beam_state: BeamState,
    trellis: SupportsBacktrace,
    *,
    divisors: Float[Tensor, " lengths"],
    prefill: PrefillOutput,
    search: BeamSearch | DiverseBeamSearch,
) -> tuple[HypothesisBatch, Bool[Tensor, "B n"]]:
    """Return the best finished hypotheses, followed by the best live ones where they are too few, and a mask of the
    finished ones.
    """
    width, n_best = beam_state.live_scores.size(1), beam_state.finished_indices.size(1)
    scores = beam_state.live_scores / divisors[beam_state.prefix_lengths + beam_state.counts].unsqueeze(1)
    live_columns = torch.stack((scores, beam_state.live_scores, torch.zeros_like(scores)), 2)
    beams = torch.arange(width, device=live_columns.device).expand(len(live_columns), -1)
    all_scores = torch.cat((beam_state.finished, live_columns), 1)
    indices = torch.cat((beam_state.finished_indices, beam_state.counts.unsqueeze(1) * width + beams), 1)
    last_tokens = torch.cat((beam_state.last_tokens, torch.zeros_like(beams)), 1)
    order = (all_scores[:, :, 0] == -math.inf).byte().sort(dim=1, stable=True).indices[:, :n_best]
    scores, totals, last_scores = all_scores.gather(1, order.unsqueeze(2).expand(-1, -1, 3)).unbind(2)
    counts, beams = (part.gather(1, order) for part in (indices // width, indices % width))
    ids, values = trellis.trace(beams, counts, dtype=scores.dtype)
    values.scatter_(2, counts.unsqueeze(2), last_scores.unsqueeze(2))
    last_tokens = last_tokens.gather(1, order)
    ids.scatter_(2, counts.unsqueeze(2), last_tokens.unsqueeze(2))
    has_ended = order < n_best
    if search.penalties:  # the ranking is not by the probabilities of the model
        is_generated = torch.arange(values.size(2), device=values.device) < (counts + has_ended).unsqueeze(2)
        totals = prefill.prefix_log_probabilities.sum(1, keepdim=True) + torch.where(is_generated, values, 0.0).sum(2)
    finished = has_ended & (last_tokens == search.eos)
    interrupted = ~beam_state.done.unsqueeze(1).expand_as(finished)
    return HypothesisBatch(
        counts + (has_ended & ~finished), finished, scores, totals, ids, values, interrupted
    ), has_ended
