"""Diverse beam search: groups of beams that avoid each other's tokens (Vijayakumar et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.generation.beam_decoding import BeamGroup, BeamOptions, replay_hypotheses
from heedful.generation.decode_batch import DecodeBatch, StepResult
from heedful.generation.results import HypothesisBatch, PrefillOutput, ResumeState
from heedful.models.interface import State, Step
from heedful.tensors import Tokens, concat_rows, select_rows


@final
@dataclass(frozen=True)
class DiverseBeamBatch(DecodeBatch):
    """Decode batch of diverse beam search; the rows of a sentence are the beams of its groups, one after the other.

    Attributes:
        groups: the groups of beams, all of the same width.
        options: what is the same for all of them.
        diversity: what a token costs for each hypothesis of an earlier group that took it at the same step.
        n_best: number of hypotheses of each sentence.
        prompt_state: model state after the prompts; None unless a state after the hypotheses is requested.
    """

    width: int
    merge_key: Any
    groups: tuple[BeamGroup, ...]
    options: BeamOptions
    diversity: float
    n_best: int
    prompt_state: State = None

    @property
    def prefill(self) -> PrefillOutput:
        """What was read of each sentence before the search."""
        return self.groups[0].beam_state.prefill

    @property
    def done_mask(self) -> Bool[Tensor, " G"]:
        """Mask of the sentences that are done in all groups."""
        return torch.stack([group.beam_state.done for group in self.groups]).all(0)

    def advance(self, logits: Float[Tensor, "N V"], *, rows_per_sentence: int) -> tuple[DiverseBeamBatch, StepResult]:
        """Decode one token of every beam, of one group after the other, from `logits`, which has `rows_per_sentence`
        rows for each sentence; return the new batch and the changes to the model state.
        """
        sentences, columns = len(self.prefill.positions), logits.size(1)
        group_width = self.width // len(self.groups)
        diversity_penalty = logits.new_zeros(sentences, columns)
        groups, beams, ids, any_moved = [], [], [], False
        for number, group in enumerate(self.groups):
            if rows_per_sentence == 1:  # all groups go on from what was forced; masks may overwrite what they are given
                group_logits = logits if number == len(self.groups) - 1 else logits.clone()
            else:
                group_logits = logits.view(sentences, len(self.groups), group_width, columns)[:, number].flatten(0, 1)
            next_group, selected, (_, needs_reorder) = group.advance(
                group_logits,
                rows_per_sentence=min(rows_per_sentence, group_width),
                options=self.options,
                diversity_penalty=diversity_penalty if number else None,
                number=number,
            )
            is_live = (selected.totals > -math.inf) & ~selected.ends & ~group.beam_state.done.unsqueeze(1)
            diversity_penalty = diversity_penalty.scatter_add(
                1, selected.ids, self.diversity * is_live.to(diversity_penalty.dtype)
            )
            groups.append(next_group)
            beams.append(selected.beams + number * group_width)
            ids.append(selected.ids)
            any_moved = any_moved or needs_reorder
        batch = replace(self, groups=tuple(groups))
        result = StepResult(
            batch._build_inputs(torch.cat(ids, 1)),
            int(batch.done_mask.sum()),
            torch.cat(beams, 1) if any_moved else None,
        )
        return batch, result

    def keep_rows(self, indices: Int[Tensor, " G"]) -> DiverseBeamBatch:
        """Keep only the sentences at these indices."""
        groups, prompt_state = select_rows((self.groups, self.prompt_state), indices)
        return replace(self, groups=groups, prompt_state=prompt_state)

    def concat(self, others: Sequence[DiverseBeamBatch]) -> DiverseBeamBatch:
        """Concatenate the sentences of this batch and of others."""
        parts = (self, *others)
        groups, prompt_state = concat_rows([(batch.groups, batch.prompt_state) for batch in parts])
        options = max((batch.options for batch in parts), key=lambda options: len(options.divisors))
        return replace(self, groups=groups, options=options, prompt_state=prompt_state)

    def finish(self, indices: Int[Tensor, " B"]) -> DiverseBeamBatch:
        """Mark the sentences at these indices as done."""
        return replace(self, groups=tuple(group.mark_done(indices) for group in self.groups))

    def finalize(self) -> HypothesisBatch:
        """Return the best distinct hypotheses of each sentence."""
        return merge_groups([group.finalize(self.options) for group in self.groups], n_best=self.n_best)

    def partial_outputs(self) -> list[list[int]]:
        """Return the best hypothesis so far of any group for each sentence, live or finished."""
        sentences = zip(*(group.find_best_so_far(self.options) for group in self.groups), strict=True)
        return [list(max(best, key=lambda hypothesis: hypothesis.score).ids) for best in sentences]

    def build_resume_state(self, hypotheses: HypothesisBatch, *, step: Step, state: State) -> ResumeState:
        """Return the model state after the hypotheses, which the model reads again; see `replay_hypotheses`."""
        return replay_hypotheses(step, self.prompt_state, hypotheses, prefill=self.prefill)

    def _build_inputs(self, ids: Int[Tensor, "G width"]) -> Tokens:
        """Build the input tokens of the next step from the new ids of all beams; a group that is done in a sentence
        gets no token there (position -1).
        """
        positions = torch.stack([group.beam_state.input_positions for group in self.groups], 1)
        row_positions = positions.repeat_interleave(self.width // len(self.groups), 1)
        segments = self.prefill.segments
        row_segments = None if segments is None else segments.repeat_interleave(self.width, 0)
        return Tokens(ids.view(-1, 1), row_positions.view(-1, 1), row_segments)


def merge_groups(results: Sequence[tuple[HypothesisBatch, Bool[Tensor, "B n"]]], *, n_best: int) -> HypothesisBatch:
    """Merge the hypotheses of all groups, keep duplicates once, and put hypotheses that have ended before live ones;
    return the `n_best` best of each sentence. `results` has the hypotheses of each group and a mask of those that have
    ended.
    """
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
