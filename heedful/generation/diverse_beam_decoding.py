"""Diverse beam search: groups of beams that avoid each other's tokens (Vijayakumar et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.beam_decoding import (
    COMPACTION_THRESHOLD,
    build_beam_step,
    compute_length_divisors,
    finalize_hypotheses,
    find_top_candidates,
    reorder_state,
    replay_hypotheses,
    select_beams,
)
from heedful.generation.beam_state import BeamCandidates, BeamState, BeamTrellis
from heedful.generation.prefill import GenerationRequest, PrefillOutput, prefill_prompt
from heedful.generation.processors import LogitsPipeline, PipelineState, keep_selected
from heedful.generation.results import HypothesisBatch, SearchResult
from heedful.generation.scoring import upcast_logits
from heedful.models.interface import State, Step
from heedful.tensors import RowSelection, Tokens, concat_rows, select_rows

if TYPE_CHECKING:
    from heedful.generation.search import DiverseBeamSearch


@dataclass(frozen=True)
class _BeamGroup:
    """One group of beams of every sentence; `parts` holds sentences that were done and removed."""

    beam_state: BeamState
    pipeline_state: PipelineState
    trellis: BeamTrellis
    finished_parts: tuple[BeamState, ...] = ()

    @property
    def width(self) -> int:
        """Beam width of the group."""
        return self.beam_state.live_scores.size(1)

    def drop_finished(self, done: Bool[Tensor, " G"]) -> _BeamGroup:
        """Remove the sentences that are done."""
        active = (~done).nonzero().squeeze(1)
        finished_parts = (*self.finished_parts, select_rows(self.beam_state, done.nonzero().squeeze(1)))
        pipeline_state = select_rows(self.pipeline_state, RowSelection.keep_groups(active, self.width))
        return _BeamGroup(select_rows(self.beam_state, active), pipeline_state, self.trellis, finished_parts)

    def finalize(
        self, prefill: PrefillOutput, *, divisors: Float[Tensor, " lengths"], search: DiverseBeamSearch
    ) -> tuple[HypothesisBatch, Bool[Tensor, "B n"]]:
        """Return the best hypotheses of this group; see `finalize_hypotheses`."""
        all_beams = concat_rows([*self.finished_parts, self.beam_state])
        all_beams = select_rows(all_beams, all_beams.sentence_indices.argsort())
        return finalize_hypotheses(all_beams, self.trellis, divisors=divisors, prefill=prefill, search=search)


@torch.inference_mode()
def run_diverse_beam_search(
    step: Step, state: State, request: GenerationRequest, *, search: DiverseBeamSearch
) -> SearchResult:
    """Run diverse beam search; return the best distinct hypotheses and, if requested, the model state after each."""
    _check_options(search, request)
    prefill, prompt_state = prefill_prompt(step, state, request, eos=search.eos)
    width = search.width // search.groups
    beam_state = BeamState.from_prefill(prefill, width=width, n_best=min(width, search.n_best))
    divisors = compute_length_divisors(beam_state, search.length_penalty)
    pipeline = LogitsPipeline.from_request(
        request, eos=search.eos, penalties=search.penalties, logits_masks=search.logits_masks
    )
    pipeline_state = pipeline.init_state(request.prompt, prefill)
    groups = [
        _BeamGroup(beam_state, pipeline_state, BeamTrellis(len(prefill.limits), width)) for _ in range(search.groups)
    ]
    model_state, logits, rows = prompt_state, prefill.logits, 1
    is_running = not bool(beam_state.done.all()) and not request.until()
    while is_running:
        groups, beams, ids, needs_reorder = _step_groups(
            groups, upcast_logits(logits), rows_per_sentence=rows, pipeline=pipeline, search=search, divisors=divisors
        )
        done = torch.stack([group.beam_state.done for group in groups]).all(0)
        num_done = int(done.sum())
        is_running = num_done < len(done) and not request.until()
        if is_running:
            if num_done >= COMPACTION_THRESHOLD * len(done):
                active = (~done).nonzero().squeeze(1)
                groups = [group.drop_finished(done) for group in groups]
                beams, ids, model_state = (
                    beams[active],
                    ids[active],
                    select_rows(model_state, RowSelection.keep_groups(active, rows)),
                )
            model_state = reorder_state(model_state, beams, rows_per_sentence=rows, needs_reorder=needs_reorder)
            rows = search.width
            logits, model_state = _step_live_beams(step, model_state, groups, ids)
    hypotheses = _merge_groups(
        [group.finalize(prefill, divisors=divisors, search=search) for group in groups], n_best=search.n_best
    )
    return SearchResult(
        hypotheses.to_hypotheses(prefill),
        replay_hypotheses(step, prompt_state, hypotheses, prefill=prefill) if request.keep_state else None,
    )


def _check_options(search: DiverseBeamSearch, request: GenerationRequest) -> None:
    """Raise `RecipeError` if groups, beam width, `n_best` and constraints do not fit together."""
    if search.groups < 1 or search.width % search.groups:
        raise RecipeError(
            f"groups: {search.groups} cannot share a beam of {search.width} evenly; give a width that they divide"
        )
    if not 1 <= search.n_best <= search.width:
        raise RecipeError(f"n-best: {search.n_best} of a beam of width {search.width}; must be from 1 to the width")
    if request.constraints is not None:
        raise RecipeError(
            "terms that must be written: groups of beams that avoid each other cannot search for them; leave the "
            "groups out (--groups 1), or the terms"
        )


def _step_groups(
    groups: Sequence[_BeamGroup],
    logits: Float[Tensor, "N V"],
    *,
    rows_per_sentence: int,
    pipeline: LogitsPipeline,
    search: DiverseBeamSearch,
    divisors: Float[Tensor, " lengths"],
) -> tuple[list[_BeamGroup], Int[Tensor, "G width"], Int[Tensor, "G width"], bool]:
    """Decode one token of each group in turn.

    Returns the new groups, the beams that live on and their tokens, and whether any beam changes its row.
    """
    sentences, columns = len(groups[0].beam_state.done), logits.size(1)
    diversity_penalty = logits.new_zeros(sentences, columns)
    next_groups, beams, ids, any_moved = [], [], [], False
    for number, group in enumerate(groups):
        if rows_per_sentence == 1:  # all groups go on from what was forced; bans may overwrite what they are given
            group_logits = logits if number == len(groups) - 1 else logits.clone()
        else:
            group_logits = logits.view(sentences, len(groups), group.width, columns)[:, number].flatten(0, 1)
        state_before, group_rows = group.beam_state, min(rows_per_sentence, group.width)
        candidates = find_top_candidates(
            group_logits,
            state_before,
            group.pipeline_state,
            rows_per_sentence=group_rows,
            pipeline=pipeline,
            search=search,
            diversity_penalty=diversity_penalty if number else None,
        )
        is_final, candidate_states = pipeline.update_candidates(
            candidates.ids, group.pipeline_state, beams=candidates.beams, rows_per_group=group_rows
        )
        candidates = replace(candidates, ends=is_final)
        if search.on_step:
            search.on_step(build_beam_step(state_before, candidates, divisors=divisors, group=number))
        beam_state, selected, (_, needs_reorder) = select_beams(
            state_before, _order_candidates(candidates) if number else candidates, divisors=divisors
        )
        group.trellis.append_step(
            beam_state.sentence_indices, origins=selected.beams, ids=selected.ids, log_probabilities=selected.values
        )
        is_live = (selected.totals > -math.inf) & ~selected.ends & ~state_before.done.unsqueeze(1)
        diversity_penalty = diversity_penalty.scatter_add(
            1, selected.ids, search.diversity * is_live.to(diversity_penalty.dtype)
        )
        next_groups.append(
            replace(group, beam_state=beam_state, pipeline_state=keep_selected(candidate_states, selected.ranks))
        )
        beams.append(selected.beams + number * group.width)
        ids.append(selected.ids)
        any_moved = any_moved or needs_reorder
    return next_groups, torch.cat(beams, 1), torch.cat(ids, 1), any_moved


def _order_candidates(candidates: BeamCandidates) -> BeamCandidates:
    """Sort the candidates of a group into the order that `select_beams` expects.

    First those that end the hypothesis and are among the first half, then those that live on, by the model's own
    probabilities; all others become impossible.
    """
    width = candidates.ends.size(1) // 2
    is_ended = candidates.ends & (torch.arange(2 * width, device=candidates.ends.device) < width)
    is_live = ~candidates.ends & ((~candidates.ends).cumsum(1) <= width)
    totals = candidates.totals.masked_fill(~(is_ended | is_live), -math.inf)
    order = totals.masked_fill(is_ended, math.inf).sort(dim=1, descending=True, stable=True).indices
    return replace(candidates, totals=totals).take(order)


def _step_live_beams(
    step: Step, state: State, groups: Sequence[_BeamGroup], ids: Int[Tensor, "G width"]
) -> tuple[Float[Tensor, "N V"], State]:
    """Run one model step for all live hypotheses; a group that is done in its sentence gets no token."""
    beam_states = [positions_of_groups.beam_state for positions_of_groups in groups]
    positions_of_groups = [
        torch.where(front.done, -1, front.first_positions + front.counts - 1) for front in beam_states
    ]
    positions = torch.stack(positions_of_groups, 1).repeat_interleave(groups[0].width, 1)
    segments = beam_states[0].segments
    tokens = Tokens(
        ids.view(-1, 1),
        positions.view(-1, 1),
        None if segments is None else segments.repeat_interleave(ids.size(1), 0),
    )
    logits, state = step(tokens, state)
    return logits[:, -1], state


def _merge_groups(results: Sequence[tuple[HypothesisBatch, Bool[Tensor, "B n"]]], *, n_best: int) -> HypothesisBatch:
    """Merge the hypotheses of all groups, keep duplicates once, and put finished hypotheses before live ones."""
    names = [field.name for field in fields(HypothesisBatch)]
    parts = {name: torch.cat([getattr(hypotheses, name) for hypotheses, _ in results], 1) for name in names}
    has_ended = torch.cat([is_finished for _, is_finished in results], 1)
    scores = parts["scores"]
    columns = torch.arange(parts["ids"].size(2), device=scores.device)
    ids = torch.where(columns < parts["counts"].unsqueeze(2), parts["ids"], -1)
    is_same = (ids.unsqueeze(1) == ids.unsqueeze(2)).all(3) & (has_ended.unsqueeze(1) == has_ended.unsqueeze(2))
    is_same &= (scores > -math.inf).unsqueeze(1)
    is_duplicate = is_same.tril(-1).any(2)
    parts["scores"] = scores = scores.masked_fill(is_duplicate, -math.inf)
    order = scores.sort(dim=1, descending=True, stable=True).indices
    rank = torch.where(scores == -math.inf, 2, (~has_ended).long()).gather(1, order).sort(dim=1, stable=True).indices
    order = order.gather(1, rank)[:, :n_best]

    def gather_best(values: Tensor) -> Tensor:
        """Select the best hypotheses of one field."""
        return values.gather(1, order if values.dim() == 2 else order.unsqueeze(2).expand(-1, -1, values.size(2)))

    return HypothesisBatch(*(gather_best(parts[name]) for name in names))
