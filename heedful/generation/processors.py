"""Pipeline of logits processors, masks and stopping criteria, and the state that they keep for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.generation.logits_masks import LogitsMask, NoRepeatNGram
from heedful.generation.penalties import LogitsProcessor, RepetitionPenalty
from heedful.generation.prefill import AnyCriterion, GenerationRequest, StopOnToken, StoppingCriterion
from heedful.generation.results import PrefillOutput
from heedful.models.interface import State
from heedful.tensors import RepetitionRules, RowSelection, Tokens, select_rows


@dataclass(frozen=True)
class PipelineState:
    """States of the stopping criterion, of each penalty and of each mask, batch-first."""

    stop: State
    penalties: tuple[State, ...]
    logits_masks: tuple[State, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is no state."""
        return self.stop is None and not self.penalties and not self.logits_masks

    def reorder(self, rows: RowSelection) -> PipelineState:
        """Return the states of the selected rows."""
        if self.is_empty:
            return self
        return PipelineState(*select_rows((self.stop, self.penalties, self.logits_masks), rows))

    def select_in_groups(self, indices_in_group: Int[Tensor, "G k"], width: int) -> PipelineState:
        """Select rows by their index inside each group of `width` rows; k rows remain of each group."""
        if self.is_empty:
            return self
        groups = torch.arange(len(indices_in_group), device=indices_in_group.device).unsqueeze(1)
        return select_rows(self, RowSelection.from_indices((groups * width + indices_in_group).flatten()))


@dataclass(frozen=True)
class LogitsPipeline:
    """Logits processors and stopping criteria of a search."""

    stop: StoppingCriterion
    penalties: Sequence[LogitsProcessor] = ()
    logits_masks: Sequence[LogitsMask] = ()

    @classmethod
    def from_request(
        cls,
        request: GenerationRequest,
        *,
        eos: int,
        penalties: Sequence[LogitsProcessor],
        logits_masks: Sequence[LogitsMask],
    ) -> LogitsPipeline:
        """Build the pipeline of a request: rows end at `eos` or at the stopping criterion of the request; its masks are
        added to `logits_masks`.
        """
        stop = StopOnToken(eos) if request.stop is None else AnyCriterion((StopOnToken(eos), request.stop))
        return cls(stop, penalties, (*logits_masks, *request.logits_masks))

    @property
    def is_plain(self) -> bool:
        """Whether there are no processors, and only one token ends a row."""
        return not self.penalties and not self.logits_masks and isinstance(self.stop, StopOnToken)

    @property
    def is_supported_by_engines(self) -> bool:
        """Whether engines can apply the pipeline themselves, for several steps in one call.

        One token must end a row. There may be at most one `RepetitionPenalty` and one `NoRepeatNGram`, with the same
        exempt tokens, and no other processor.
        """
        exempt_ids = {processor.exempt_ids for processor in self._repetition_processors}
        return (
            isinstance(self.stop, StopOnToken)
            and len(self._repetition_penalties) == len(self.penalties) <= 1
            and len(self._repetition_masks) == len(self.logits_masks) <= 1
            and len(exempt_ids) <= 1
        )

    @property
    def _repetition_penalties(self) -> list[RepetitionPenalty]:
        """The penalties of repetition."""
        return [penalty for penalty in self.penalties if isinstance(penalty, RepetitionPenalty)]

    @property
    def _repetition_processors(self) -> list[RepetitionPenalty | NoRepeatNGram]:
        """The masks and penalties of repetition."""
        return [*self._repetition_masks, *self._repetition_penalties]

    @property
    def _repetition_masks(self) -> list[NoRepeatNGram]:
        """The masks of repetition."""
        return [mask for mask in self.logits_masks if isinstance(mask, NoRepeatNGram)]

    def build_repetition_rules(self, state: PipelineState) -> RepetitionRules | None:
        """Return the processors, and the texts in `state`, as rules for an engine; None if there are no processors. The
        pipeline must be one that `is_supported_by_engines`.
        """
        penalties, masks = self._repetition_penalties, self._repetition_masks
        texts = (*state.logits_masks, *state.penalties)  # those of a mask have the exempt tokens too
        if not texts:
            return None
        exempt_ids = self._repetition_processors[0].exempt_ids
        return RepetitionRules(
            texts[0],
            penalty=penalties[0].theta if penalties else 1.0,
            ngram_size=masks[0].n if masks else 0,
            exempt_ids=torch.tensor(exempt_ids, dtype=torch.long, device=texts[0].device),
        )

    def build_state_from_texts(self, texts: Int[Tensor, "N L"]) -> PipelineState:
        """Return the state when the rows have these texts. The pipeline must be one that `is_supported_by_engines`."""
        penalties = tuple(penalty.mask_exempt_ids(texts) for penalty in self._repetition_penalties)
        return PipelineState(None, penalties, (texts,) * len(self.logits_masks))

    def init_state(self, prompt: Tokens, prefill: PrefillOutput) -> PipelineState:
        """Return the state of each row after its prompt and its forced prefix, which is in `prefill`."""
        columns = torch.arange(prefill.prefix.size(1), device=prefill.prefix.device)
        prefix_ids = torch.where(columns < prefill.prefix_lengths.unsqueeze(1), prefill.prefix, -1)
        tokens = Tokens(
            torch.cat((prompt.ids, prefill.prefix), 1), torch.cat((prompt.positions, prefix_ids.clamp(max=0)), 1)
        )
        vocab_size = prefill.logits.size(1)
        penalties = tuple(penalty.init_state(tokens, vocab_size=vocab_size) for penalty in self.penalties)
        masks = tuple(mask.init_state(tokens, vocab_size=vocab_size) for mask in self.logits_masks)
        return PipelineState(self.stop.init_state(prefix_ids), penalties, masks)

    def apply_penalties(self, logits: Float[Tensor, "N V"], state: PipelineState) -> Float[Tensor, "N V"]:
        """Apply all penalties to the logits in order; return the same tensor if there are none."""
        for penalty, penalty_state in zip(self.penalties, state.penalties, strict=True):
            logits = penalty(logits, penalty_state)
        return logits

    def apply_masks(self, logits: Float[Tensor, "N V"], state: PipelineState) -> Float[Tensor, "N V"]:
        """Set the logits of all masked tokens to minus infinity; may overwrite `logits`."""
        for mask, mask_state in zip(self.logits_masks, state.logits_masks, strict=True):
            logits = mask(logits, mask_state)
        return logits

    def update(self, ids: Int[Tensor, " N"], state: PipelineState) -> tuple[Bool[Tensor, " N"], PipelineState]:
        """Feed the new token `ids` of each row; return which rows end with it, and the new state."""
        is_ended, stop_state = self.stop(ids, state.stop)
        penalties = zip(self.penalties, state.penalties, strict=True)
        masks = zip(self.logits_masks, state.logits_masks, strict=True)
        new_states = (
            tuple(processor.extend(old_state, ids) for processor, old_state in pairs) for pairs in (penalties, masks)
        )
        return is_ended, PipelineState(stop_state, *new_states)

    def update_candidates(
        self, ids: Int[Tensor, "G k"], state: PipelineState, *, beams: Int[Tensor, "G k"], rows_per_group: int
    ) -> tuple[Bool[Tensor, "G k"], PipelineState]:
        """Feed candidate tokens of beams; return which would end their hypothesis, and the state of each candidate.
        `beams` is the beam that each candidate continues, of `rows_per_group` beams in each group.
        """
        is_ended, new_state = self.update(ids.flatten(), state.select_in_groups(beams, rows_per_group))
        return is_ended.view_as(ids), new_state


def keep_selected(candidate_states: PipelineState, ranks: Int[Tensor, "G width"]) -> PipelineState:
    """Keep the states of the selected candidates. `ranks` are their indices among the 2 * width candidates of each
    group.
    """
    return candidate_states.select_in_groups(ranks, 2 * ranks.size(1))
