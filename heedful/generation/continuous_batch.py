"""Continuous batching: sentences join and leave a running search at every step.

The rows of all its sentences are read by the model together. What comes out of a row does not depend on its neighbours
(the batch law), so a sentence gets the same output as alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Int
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.generation.beam_decoding import reorder_state
from heedful.generation.decode_batch import BatchableSearch, DecodeBatch, init_decode_batch
from heedful.generation.prefill import GenerationRequest, prefill_prompt
from heedful.generation.results import Hypothesis
from heedful.generation.scoring import upcast_logits
from heedful.generation.stopping_criteria import InterruptCondition, never_interrupt
from heedful.models.interface import State, Step
from heedful.tensors import RowSelection, Tokens, concat_rows, select_rows

_COMPACTION_THRESHOLD: Final = 0.25  # of the sentences done, as in other searches


@final
@dataclass(frozen=True)
class FinishedRequest:
    """A sentence that has left the search: its hypotheses, best first, or the error that ended it."""

    request_id: int
    hypotheses: Sequence[Hypothesis]
    error: HeedfulError | None = None


@dataclass
class _BatchEntry:
    """A decode batch with the request ids of its sentences (None where one has left) and its next input tokens."""

    batch: DecodeBatch
    request_ids: list[int | None]
    tokens: Tokens
    until: InterruptCondition

    @property
    def active_indices(self) -> list[int]:
        """Indices of the sentences that are still decoded."""
        return [index for index, request_id in enumerate(self.request_ids) if request_id is not None]

    def release(self, indices: Sequence[int], *, width: int) -> list[int]:
        """Mark sentences as done and return their request ids."""
        request_ids = [request_id for index in indices if (request_id := self.request_ids[index]) is not None]
        for index in indices:
            self.request_ids[index] = None
        index_tensor = self.to_index_tensor(indices)
        self.batch = self.batch.finish(index_tensor)
        rows = RowSelection.keep_groups(index_tensor, width).origin
        self.tokens = Tokens(self.tokens.ids, self.tokens.positions.index_fill(0, rows, -1), self.tokens.segments)
        return request_ids

    def finish(self, indices: Sequence[int], *, width: int) -> list[FinishedRequest]:
        """Release sentences and return their hypotheses or errors."""
        batch = self.batch
        request_ids = self.release(indices, width=width)
        try:
            return [
                FinishedRequest(*fields)
                for fields in zip(request_ids, batch.build_hypotheses(self.to_index_tensor(indices)), strict=True)
            ]
        except HeedfulError as error:
            if len(indices) == 1:
                return [FinishedRequest(request_ids[0], (), error)]
        finished = []
        for request_id, index in zip(request_ids, indices, strict=True):
            try:
                finished.append(FinishedRequest(request_id, batch.build_hypotheses(self.to_index_tensor([index]))[0]))
            except HeedfulError as error:
                finished.append(FinishedRequest(request_id, (), error))
        return finished

    def keep_rows(self, indices: Sequence[int], *, width: int) -> None:
        """Keep only the sentences at these indices."""
        index_tensor = self.to_index_tensor(indices)
        self.batch = self.batch.keep_rows(index_tensor)
        self.tokens = select_rows(self.tokens, RowSelection.keep_groups(index_tensor, width).origin)
        self.request_ids = [self.request_ids[index] for index in indices]

    def partial_outputs(self, request_ids: set[int]) -> dict[int, list[int]]:
        """Return the best token ids so far of the sentences with these request ids."""
        indices = {
            index: request_id
            for index, request_id in enumerate(self.request_ids)
            if request_id is not None and request_id in request_ids
        }
        if not indices:
            return {}
        return dict(zip(indices.values(), self.batch.partial_outputs(self.to_index_tensor([*indices])), strict=True))

    def to_index_tensor(self, indices: Sequence[int]) -> Int[Tensor, " B"]:
        """Convert sentence indices to a tensor."""
        return torch.tensor(indices, dtype=torch.long, device=self.batch.prefill.prefix_lengths.device)


@final
class ContinuousBatch:
    """Sentences of one engine that are decoded together, each with the same number of rows.

    Belongs to one thread. A call returns the sentences that it finds finished.

    Args:
        step: `Engine.step` of the model.
        width: rows of each sentence, equal for all searches that are added.
    """

    def __init__(self, step: Step, *, width: int) -> None:
        self._step = step
        self._width = width
        self._entries: list[_BatchEntry] = []
        self._state: State = None
        self._next_id = 0

    def __len__(self) -> int:
        """Return the number of sentences that are still decoded."""
        return sum(len(entry.active_indices) for entry in self._entries)

    @torch.inference_mode()
    def add_requests(
        self, state: State, request: GenerationRequest, search: BatchableSearch
    ) -> tuple[range, list[FinishedRequest]]:
        """Add a sentence for each row of the state; return their request ids and those that have finished at once.

        Args:
            state: engine state before the prompts.
            request: prompt, limits and options; neither `keep_state` nor `constraints`, which need a search of their
                own.
            search: with `width` rows for each sentence.
        """
        assert request.constraints is None and not request.keep_state, "for a search of its own"
        prefill, model_state = prefill_prompt(self._step, state, request, eos=search.eos)
        batch = init_decode_batch(search, request, prefill)
        assert batch.width == self._width, f"{batch.width} rows of each sentence, where others have {self._width}"
        request_ids = range(self._next_id, self._next_id + len(prefill.prefix_lengths))
        self._next_id = request_ids.stop
        no_tokens = Tokens(*(torch.full_like(prefill.positions, -1).repeat_interleave(self._width).unsqueeze(1),) * 2)
        entry = _BatchEntry(batch, [*request_ids], no_tokens, request.until)
        finished = self._finish_done(entry)
        if entry.active_indices:
            finished += self._add_batch(entry, model_state, upcast_logits(prefill.logits))
        return request_ids, finished

    @torch.inference_mode()
    def step(self) -> list[FinishedRequest]:
        """Decode one token of every row; return the sentences that have finished."""
        finished = self._finish_interrupted()
        self._compact(threshold=_COMPACTION_THRESHOLD)
        if not self._entries:
            return finished
        logits, self._state = self._step(_concat_tokens([entry.tokens for entry in self._entries]), self._state)
        logits, row = logits[:, -1], 0
        beams, needs_reorder = [], False
        for entry in self._entries:
            rows = len(entry.request_ids) * self._width
            entry_logits, row = upcast_logits(logits[row : row + rows]), row + rows
            try:
                entry.batch, result = entry.batch.advance(entry_logits, rows_per_sentence=self._width)
            except HeedfulError as error:
                finished += [
                    FinishedRequest(request_id, (), error)
                    for request_id in entry.release(entry.active_indices, width=self._width)
                ]
                beams.append(torch.arange(self._width, device=entry_logits.device).expand(len(entry.request_ids), -1))
                continue
            entry.tokens, needs_reorder = result.next_tokens, needs_reorder or result.needs_reorder
            beams.append(result.beams)
            finished += self._finish_done(entry)
        self._state = reorder_state(
            self._state, torch.cat(beams), rows_per_sentence=self._width, needs_reorder=needs_reorder
        )
        return finished

    @torch.inference_mode()
    def abort(self, request_ids: Iterable[int]) -> None:
        """Stop decoding these requests without a result."""
        aborted = set(request_ids)
        for entry in self._entries:
            if indices := [index for index in entry.active_indices if entry.request_ids[index] in aborted]:
                entry.release(indices, width=self._width)

    @torch.inference_mode()
    def partial_outputs(self, request_ids: Iterable[int]) -> dict[int, list[int]]:
        """Return the best token ids so far of those requests that are still decoded."""
        wanted = set(request_ids)
        return {request_id: ids for entry in self._entries for request_id, ids in entry.partial_outputs(wanted).items()}

    def _add_batch(self, entry: _BatchEntry, model_state: State, logits: Tensor) -> list[FinishedRequest]:
        """Decode the first token of a new batch and add it to the running rows."""
        try:
            entry.batch, result = entry.batch.advance(logits, rows_per_sentence=1)
        except HeedfulError as error:
            return [
                FinishedRequest(request_id, (), error)
                for request_id in entry.release(entry.active_indices, width=self._width)
            ]
        entry.tokens = result.next_tokens
        model_state = reorder_state(model_state, result.beams, rows_per_sentence=1, needs_reorder=result.needs_reorder)
        finished = self._finish_done(entry)
        self._compact(threshold=0.0)
        if not entry.active_indices:
            return finished
        if len(entry.active_indices) < len(entry.request_ids):
            model_state = select_rows(
                model_state, RowSelection.keep_groups(entry.to_index_tensor(entry.active_indices), self._width)
            )
            entry.keep_rows(entry.active_indices, width=self._width)
        self._state = concat_rows([self._state, model_state]) if self._entries else model_state
        index = next((index for index, existing in enumerate(self._entries) if _can_merge(existing, entry)), None)
        if index is None:
            self._entries.append(entry)
            return finished
        existing = self._entries[index]
        self._move_new_rows(index, len(entry.request_ids))
        existing.tokens = _concat_tokens([existing.tokens, entry.tokens])
        existing.batch = existing.batch.concat(entry.batch)
        existing.request_ids += entry.request_ids
        return finished

    def _move_new_rows(self, index: int, count: int) -> None:
        """Move the `count` newest sentences behind those of the entry at `index` in the model state."""
        sizes = [len(entry.request_ids) for entry in self._entries]
        insert_at, total = sum(sizes[: index + 1]), sum(sizes)
        if insert_at < total:
            order = [*range(insert_at), *range(total, total + count), *range(insert_at, total)]
            self._state = select_rows(self._state, RowSelection.keep_groups(self._to_index_tensor(order), self._width))

    def _finish_interrupted(self) -> list[FinishedRequest]:
        """Finish the sentences whose `until` is True, with the best hypotheses so far."""
        interrupted = [
            entry
            for entry in self._entries
            if entry.until is not never_interrupt and entry.active_indices and entry.until()
        ]
        return [finished for entry in interrupted for finished in entry.finish(entry.active_indices, width=self._width)]

    def _finish_done(self, entry: _BatchEntry) -> list[FinishedRequest]:
        """Finish the sentences of an entry that are done."""
        done = entry.batch.done_mask.tolist()
        indices = [index for index in entry.active_indices if done[index]]
        return entry.finish(indices, width=self._width) if indices else []

    def _compact(self, *, threshold: float) -> None:
        """Remove the rows of sentences that have left, if their share is at least `threshold`."""
        total, num_active = sum(len(entry.request_ids) for entry in self._entries), len(self)
        if not num_active:
            self._entries, self._state = [], None
        if not num_active or num_active == total or total - num_active < threshold * total:
            return
        active, offset = [], 0
        for entry in self._entries:
            active += [offset + index for index in entry.active_indices]
            offset += len(entry.request_ids)
        self._state = select_rows(self._state, RowSelection.keep_groups(self._to_index_tensor(active), self._width))
        self._entries = [entry for entry in self._entries if entry.active_indices]
        for entry in self._entries:
            entry.keep_rows(entry.active_indices, width=self._width)

    def _to_index_tensor(self, indices: Sequence[int]) -> Int[Tensor, " G"]:
        """Convert sentence indices to a tensor."""
        return torch.tensor(indices, dtype=torch.long, device=self._entries[0].batch.prefill.prefix_lengths.device)


def _can_merge(first: _BatchEntry, second: _BatchEntry) -> bool:
    """Return whether two entries can be merged: equal merge keys, and no condition that interrupts either."""
    merge_key = first.batch.merge_key
    return (
        merge_key is not None
        and merge_key == second.batch.merge_key
        and first.until is never_interrupt
        and second.until is never_interrupt
    )


def _concat_tokens(parts: Sequence[Tokens]) -> Tokens:
    """Concatenate the tokens of several batches; those without segments get segment 0 beside others."""
    if len(parts) == 1:
        return parts[0]
    segments = None
    if any(part.segments is not None for part in parts):
        segments = torch.cat([torch.zeros_like(p.ids) if p.segments is None else p.segments for p in parts])
    return Tokens(torch.cat([p.ids for p in parts]), torch.cat([p.positions for p in parts]), segments)
