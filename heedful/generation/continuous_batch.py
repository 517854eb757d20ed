"""The decode loop of all searches: a batch of sentences that join and leave it at every step.

The rows of all its sentences are read by the model together. What comes out of a row does not depend on its neighbours
(the batch law), so a sentence gets the same output as alone. A complete search is a batch that no sentence joins later.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.generation.decode_batch import BatchableSearch, DecodeBatch
from heedful.generation.prefill import GenerationRequest, InterruptCondition, never_interrupt, prefill_prompt
from heedful.generation.results import Hypothesis, ResumeState, SearchResult, upcast_logits
from heedful.models.interface import MultiStepDecoder, State, Step
from heedful.tensors import RowSelection, Tokens, concat_rows, select_rows

_COMPACTION_THRESHOLD: Final = 0.25
"""Share of the sentences that must be done before their rows are dropped. With a small Transformer on a CPU anything
from 0 to a half costs the same within a tenth; never dropping costs up to half as much again."""


@final
@dataclass(frozen=True)
class FinishedRequest:
    """A sentence that has left the search.

    Attributes:
        request_id: its number in the batch.
        hypotheses: its hypotheses, best first.
        error: the error that ended it.
        resume_state: model state after its hypotheses, if that was requested.
    """

    request_id: int
    hypotheses: Sequence[Hypothesis]
    error: HeedfulError | None = None
    resume_state: ResumeState | None = None


@dataclass(frozen=True)
class _DoneSentences:
    """Sentences that have left a batch, with their request ids and, if it is kept, the model state of their rows."""

    batch: DecodeBatch
    request_ids: Sequence[int]
    state: State


@dataclass(eq=False)
class _BatchEntry:
    """A decode batch with the request ids of its sentences (None where one has left) and its next input tokens.

    `waiting` holds sentences that have left, but whose results are built together with those of the others.
    """

    batch: DecodeBatch
    request_ids: list[int | None]
    tokens: Tokens
    until: InterruptCondition
    keep_state: bool
    num_active: int
    waiting: list[_DoneSentences] = field(default_factory=list)

    @property
    def active_indices(self) -> list[int]:
        """Indices of the sentences that have not left."""
        return [index for index, request_id in enumerate(self.request_ids) if request_id is not None]

    def release(self, indices: Sequence[int]) -> list[int]:
        """Let the sentences at these indices leave, and return the request ids of those that had not left."""
        request_ids = [request_id for index in indices if (request_id := self.request_ids[index]) is not None]
        for index in indices:
            self.request_ids[index] = None
        self.num_active -= len(request_ids)
        return request_ids

    def stop(self, indices: Sequence[int]) -> None:
        """Decode no further token of the sentences at these indices."""
        index_tensor = self.to_index_tensor(indices)
        self.batch = self.batch.finish(index_tensor)
        rows = RowSelection.keep_groups(index_tensor, self.batch.width).origin
        self.tokens = Tokens(self.tokens.ids, self.tokens.positions.index_fill(0, rows, -1), self.tokens.segments)

    def stop_all(self) -> list[int]:
        """Let all sentences leave and decode no further token of them; return their request ids."""
        indices = self.active_indices
        self.stop(indices)
        return self.release(indices)

    def keep_rows(self, indices: Sequence[int]) -> None:
        """Keep only the sentences at these indices."""
        index_tensor = self.to_index_tensor(indices)
        self.batch = self.batch.keep_rows(index_tensor)
        width = self.batch.width
        rows = index_tensor if width == 1 else RowSelection.keep_groups(index_tensor, width).origin
        self.tokens = select_rows(self.tokens, rows)
        self.request_ids = [self.request_ids[index] for index in indices]

    def merge(self, other: _BatchEntry) -> None:
        """Add the sentences of the entry `other` to this one, behind its own; `can_merge` must be true."""
        self.batch = self.batch.concat([other.batch])
        self.tokens = _concat_tokens([self.tokens, other.tokens])
        self.request_ids += other.request_ids
        self.num_active += other.num_active

    def can_merge(self, other: _BatchEntry) -> bool:
        """Return whether `merge` is possible: equal merge keys, and no condition that interrupts either."""
        merge_key = self.batch.merge_key
        is_interruptible = self.until is not never_interrupt or other.until is not never_interrupt
        return merge_key is not None and merge_key == other.batch.merge_key and not is_interruptible

    def partial_outputs(self, request_ids: set[int]) -> dict[int, list[int]]:
        """Return the best token ids so far of the sentences with these request ids, by request id; ids of sentences
        that are not in this entry are ignored.
        """
        indices = {
            index: request_id
            for index, request_id in enumerate(self.request_ids)
            if request_id is not None and request_id in request_ids
        }
        if not indices:
            return {}
        batch = self.batch.keep_rows(self.to_index_tensor([*indices]))
        return dict(zip(indices.values(), batch.partial_outputs(), strict=True))

    def to_index_tensor(self, indices: Sequence[int]) -> Int[Tensor, " B"]:
        """Convert sentence indices to a tensor."""
        return torch.tensor(indices, dtype=torch.long, device=self.tokens.ids.device)


@final
class ContinuousBatch:
    """Sentences of one engine that are decoded together, each with the same number of rows.

    Belongs to one thread. A call returns the sentences that it finds finished.

    Args:
        step: `Engine.step` of the model.
        width: rows of each sentence, equal for all searches that are added.

    Attributes:
        num_steps: number of steps that were decoded so far.
    """

    def __init__(self, step: Step, *, width: int) -> None:
        engine = getattr(step, "__self__", None)
        self._step = step
        self._engine = engine if isinstance(engine, MultiStepDecoder) else None
        self._width = width
        self._builds_together = False
        self._entries: list[_BatchEntry] = []
        self._state: State = None
        self._next_id = 0
        self.num_steps = 0

    def __len__(self) -> int:
        """Return the number of sentences that are still decoded."""
        return sum(entry.num_active for entry in self._entries)

    @torch.inference_mode()
    def add_requests(
        self, state: State, request: GenerationRequest, search: BatchableSearch
    ) -> tuple[range, list[FinishedRequest]]:
        """Add a sentence for each row of the state; return their request ids and those that have finished at once.

        Args:
            state: engine state before the prompts.
            request: prompt, limits and options.
            search: with `width` rows for each sentence.
        """
        search.check_request(request)
        prefill, state = prefill_prompt(self._step, state, request, eos=search.eos)
        return self.add_batch(search.init_batch(request, prefill, state), state, prefill.logits, request=request)

    @torch.inference_mode()
    def add_batch(
        self, batch: DecodeBatch, state: State, logits: Float[Tensor, "B V"], *, request: GenerationRequest
    ) -> tuple[range, list[FinishedRequest]]:
        """Add sentences whose prompts have been read; return their request ids and those that have finished at once.

        Args:
            batch: of the sentences, before their first token.
            state: engine state after the prompts.
            logits: for the first token.
            request: what was requested.
        """
        assert batch.width == self._width, f"{batch.width} rows of each sentence, where others have {self._width}"
        device, num_sentences = logits.device, len(batch.prefill.positions)
        request_ids = range(self._next_id, self._next_id + num_sentences)
        self._next_id = request_ids.stop
        no_positions = torch.full((num_sentences * self._width, 1), -1, device=device)
        no_tokens = Tokens(torch.zeros_like(no_positions), no_positions)
        entry = _BatchEntry(batch, [*request_ids], no_tokens, request.until, request.keep_state, num_sentences)
        if self._width > 1:
            state = select_rows(state, RowSelection.expand(num_sentences, self._width, device=device))
        self._compact(threshold=0.0)
        self._state = concat_rows([self._state, state]) if self._entries else state
        self._entries.append(entry)
        try:
            finished = self._finish_done(entry, int(batch.done_mask.sum())) + self._finish_interrupted(entry)
            if entry.num_active:
                finished += self._advance(entry, upcast_logits(logits), rows_per_sentence=1)[0]
                self._merge_newest()
        except Exception:
            entry.stop_all()  # the caller does not get the ids of these sentences, so their results are not needed
            raise
        return request_ids, finished

    @torch.inference_mode()
    def step(self, max_tokens: int = 1) -> list[FinishedRequest]:
        """Decode one token of every row, or up to `max_tokens` in one call of the engine if it supports that; return
        the sentences that have finished.
        """
        finished = self._prepare_step()
        if not self._entries:
            return finished
        ahead = self._decode_ahead(max_tokens) if max_tokens > 1 else None
        return finished + (self._decode_one() if ahead is None else ahead)

    @torch.inference_mode()
    def run(self) -> list[FinishedRequest]:
        """Decode until all sentences have finished, and return them.

        No caller waits for single sentences or tokens, which saves work: results are built together, and several tokens
        of every row are decoded in one call if the engine supports it.
        """
        finished, self._builds_together = list[FinishedRequest](), True
        try:
            while self._entries:
                finished += self._prepare_step()
                if self._entries:
                    ahead = self._decode_ahead(sys.maxsize)
                    finished += self._decode_one() if ahead is None else ahead
        finally:
            self._builds_together = False
        return finished

    @torch.inference_mode()
    def abort(self, request_ids: Iterable[int]) -> None:
        """Stop decoding the sentences with these request ids, without a result."""
        aborted = set(request_ids)
        for entry in self._entries:
            if indices := [index for index in entry.active_indices if entry.request_ids[index] in aborted]:
                entry.stop(indices)
                entry.release(indices)

    @torch.inference_mode()
    def partial_outputs(self, request_ids: Iterable[int]) -> dict[int, list[int]]:
        """Return the best token ids so far by request id; requests that are no longer decoded are left out."""
        wanted = set(request_ids)
        return {request_id: ids for entry in self._entries for request_id, ids in entry.partial_outputs(wanted).items()}

    def _prepare_step(self) -> list[FinishedRequest]:
        """Finish the sentences whose interrupt condition is True, and drop the rows of sentences that have left if they
        are many; return what has finished.
        """
        finished = [request for entry in self._entries for request in self._finish_interrupted(entry)]
        self._compact(threshold=_COMPACTION_THRESHOLD)
        return finished

    def _decode_one(self) -> list[FinishedRequest]:
        """Decode one token of every row, and return the sentences that have finished."""
        self.num_steps += 1
        logits, self._state = self._step(_concat_tokens([entry.tokens for entry in self._entries]), self._state)
        logits, finished, beams, row = upcast_logits(logits[:, -1]), list[FinishedRequest](), [], 0
        for entry in self._entries:
            num_rows = len(entry.request_ids) * self._width
            entry_logits = logits if num_rows == len(logits) else logits[row : row + num_rows]
            entry_finished, entry_beams = self._advance(entry, entry_logits, rows_per_sentence=self._width)
            finished += entry_finished
            beams.append(entry_beams)
            row += num_rows
        self._reorder_state(beams)
        return finished

    def _decode_ahead(self, max_tokens: int) -> list[FinishedRequest] | None:
        """Decode several tokens of every row, at most `max_tokens`, in one call of the engine, and return the sentences
        that have finished; None where that is not possible.
        """
        if self._engine is None or len(self._entries) > 1 or self._entries[0].until is not never_interrupt:
            return None
        (entry,) = self._entries
        try:
            ahead = entry.batch.advance_ahead(self._engine, entry.tokens, self._state, max_steps=max_tokens)
        except HeedfulError as error:
            return self._fail(entry, error)
        if ahead is None:
            return None
        entry.batch, result, self._state = ahead
        self.num_steps += result.num_steps
        entry.tokens = result.next_tokens
        finished = self._finish_done(entry, result.num_done)
        self._reorder_state([result.beams])
        return finished

    def _advance(
        self, entry: _BatchEntry, logits: Float[Tensor, "N V"], *, rows_per_sentence: int
    ) -> tuple[list[FinishedRequest], Int[Tensor, "G width"] | None]:
        """Decode one token of an entry from `logits`, which has `rows_per_sentence` rows for each sentence. Return the
        sentences that have finished (all of them after an error), and for each row the row of its sentence that it
        continues, or None if no row moved.
        """
        try:
            entry.batch, result = entry.batch.advance(logits, rows_per_sentence=rows_per_sentence)
        except HeedfulError as error:
            return self._fail(entry, error), None
        entry.tokens = result.next_tokens
        return self._finish_done(entry, result.num_done), result.beams

    def _reorder_state(self, beams: Sequence[Tensor | None]) -> None:
        """Reorder the model state to the chosen beams of each entry; an entry is None where no beam has moved."""
        moved = [chosen for chosen in beams if chosen is not None]
        if not moved:
            return
        if len(beams) > 1:
            own_rows = torch.arange(self._width, device=moved[0].device)
            moved = [
                own_rows.expand(len(entry.request_ids), -1) if chosen is None else chosen
                for entry, chosen in zip(self._entries, beams, strict=True)
            ]
        chosen_beams = moved[0] if len(moved) == 1 else torch.cat(moved)
        self._state = select_rows(self._state, RowSelection.within_groups(chosen_beams))

    def _merge_newest(self) -> None:
        """Merge the newest entry with the first older one that has an equal merge key, if there is one."""
        *older, newest = self._entries
        index = next((index for index, entry in enumerate(older) if entry.can_merge(newest)), None)
        if index is None:
            return
        sizes = [len(entry.request_ids) for entry in self._entries]
        insert_at, first_new, total = sum(sizes[: index + 1]), sum(sizes[:-1]), sum(sizes)
        if insert_at < first_new:
            order = [*range(insert_at), *range(first_new, total), *range(insert_at, first_new)]
            self._state = select_rows(self._state, RowSelection.keep_groups(newest.to_index_tensor(order), self._width))
        older[index].merge(newest)
        self._entries = older

    def _finish_interrupted(self, entry: _BatchEntry) -> list[FinishedRequest]:
        """Finish all active sentences of an entry with the best hypotheses so far, if the `until` function of the entry
        returns True; else return an empty list.
        """
        if entry.until is never_interrupt or not entry.num_active or not entry.until():
            return []
        indices = entry.active_indices
        finished = self._finish(entry, indices)
        entry.stop(indices)
        return finished

    def _finish_done(self, entry: _BatchEntry, num_done: int) -> list[FinishedRequest]:
        """Finish the sentences of an entry that are done; while results are built together, return them only when all
        are done. `num_done` counts all sentences of the entry that are done, those that have left included.
        """
        num_sentences = len(entry.request_ids)
        waits = self._builds_together and num_done < num_sentences
        if num_done == num_sentences - entry.num_active or (waits and num_done < _COMPACTION_THRESHOLD * num_sentences):
            return []
        done = entry.batch.done_mask.tolist()
        indices = [index for index in entry.active_indices if done[index]]
        if waits:
            entry.waiting.append(self._take_out(entry, indices))
            return []
        return self._finish(entry, indices)

    def _take_out(self, entry: _BatchEntry, indices: Sequence[int]) -> _DoneSentences:
        """Let the sentences at these indices leave an entry; return them with their part of the batch and, if it is
        kept, of the model state.
        """
        batch, state = entry.batch, self._select_state(entry) if entry.keep_state else None
        if len(indices) < len(entry.request_ids):
            index_tensor = entry.to_index_tensor(indices)
            batch = batch.keep_rows(index_tensor)
            state = select_rows(state, RowSelection.keep_groups(index_tensor, self._width))
        return _DoneSentences(batch, entry.release(indices), state)

    def _fail(self, entry: _BatchEntry, error: HeedfulError) -> list[FinishedRequest]:
        """Let the sentences of an entry leave with an error; those that wait for the others get their results."""
        failed = [FinishedRequest(request_id, (), error) for request_id in entry.stop_all()]
        return failed + self._finish(entry, []) if entry.waiting else failed

    def _finish(self, entry: _BatchEntry, indices: Sequence[int]) -> list[FinishedRequest]:
        """Let the sentences at these indices of an entry leave; return the hypotheses or errors of these and of those
        that wait.
        """
        first, *others = parts = [*entry.waiting, self._take_out(entry, indices)]
        entry.waiting = []
        batch = first.batch.concat([part.batch for part in others]) if others else first.batch
        request_ids = [request_id for part in parts for request_id in part.request_ids]
        state = concat_rows([part.state for part in parts])
        return self._build_results(_DoneSentences(batch, request_ids, state), keep_state=entry.keep_state)

    def _build_results(self, done: _DoneSentences, *, keep_state: bool) -> list[FinishedRequest]:
        """Build the results of sentences that have left; one without a hypothesis gets an error and does not affect the
        others. With `keep_state`, a result has the model state after its hypotheses.
        """
        batch, hypotheses = done.batch, done.batch.finalize()
        try:
            ranked = hypotheses.to_hypotheses(batch.prefill)
        except HeedfulError as error:
            if len(done.request_ids) == 1:
                return [FinishedRequest(done.request_ids[0], (), error)]
            rows = torch.arange(len(done.request_ids), device=batch.prefill.positions.device).unsqueeze(1)
            parts = [
                _DoneSentences(
                    batch.keep_rows(row),
                    [request_id],
                    select_rows(done.state, RowSelection.keep_groups(row, self._width)),
                )
                for row, request_id in zip(rows, done.request_ids, strict=True)
            ]
            return [result for part in parts for result in self._build_results(part, keep_state=keep_state)]
        resume_states: Sequence[ResumeState | None] = [None] * len(ranked)
        if keep_state:
            resume_state = batch.build_resume_state(hypotheses, step=self._step, state=done.state)
            resume_states = resume_state.split([len(found) for found in ranked])
        results = zip(done.request_ids, ranked, resume_states, strict=True)
        return [FinishedRequest(request_id, found, None, resume_state) for request_id, found, resume_state in results]

    def _select_state(self, entry: _BatchEntry) -> State:
        """Return the model state of the rows of an entry."""
        if len(self._entries) == 1:
            return self._state
        sizes = [len(each.request_ids) for each in self._entries]
        first = sum(sizes[: self._entries.index(entry)])
        indices = entry.to_index_tensor(range(first, first + len(entry.request_ids)))
        return select_rows(self._state, RowSelection.keep_groups(indices, self._width))

    def _compact(self, *, threshold: float) -> None:
        """Remove the rows of sentences that have left, if their share is at least `threshold`."""
        total = num_active = 0
        for entry in self._entries:
            total += len(entry.request_ids)
            num_active += entry.num_active
        if not num_active:
            self._entries, self._state = [], None
        if not num_active or num_active == total or total - num_active < threshold * total:
            return
        active, offset = [], 0
        for entry in self._entries:
            active += [offset + index for index in entry.active_indices]
            offset += len(entry.request_ids)
        indices = self._entries[0].to_index_tensor(active)
        self._state = select_rows(self._state, RowSelection.keep_groups(indices, self._width))
        self._entries = [entry for entry in self._entries if entry.num_active]
        for entry in self._entries:
            if entry.num_active < len(entry.request_ids):
                entry.keep_rows(entry.active_indices)


@torch.inference_mode()
def generate(step: Step, state: State, request: GenerationRequest, search: BatchableSearch) -> SearchResult:
    """Decode sentences until all have finished; return their hypotheses and, if requested, the model state after them.

    Args:
        step: `Engine.step` of the model.
        state: engine state before the prompts.
        request: prompt, limits and options.
        search: decodes the sentences.

    Raises:
        RunError: a sentence has no hypothesis.
    """
    batch = ContinuousBatch(step, width=search.rows_per_sentence)
    _, finished = batch.add_requests(state, request, search)
    finished = sort_finished([*finished, *batch.run()])
    resume_state = collect_resume_state(finished) if request.keep_state else None
    return SearchResult([list(sentence.hypotheses) for sentence in finished], resume_state)


def sort_finished(finished: Iterable[FinishedRequest]) -> list[FinishedRequest]:
    """Sort finished sentences by request id; raise the error of the first one that has one."""
    ordered = sorted(finished, key=lambda sentence: sentence.request_id)
    for sentence in ordered:
        if sentence.error is not None:
            raise sentence.error
    return ordered


def collect_resume_state(finished: Iterable[FinishedRequest]) -> ResumeState:
    """Return the model state after the hypotheses of all these sentences."""
    return concat_rows([sentence.resume_state for sentence in finished if sentence.resume_state is not None])


def _concat_tokens(parts: Sequence[Tokens]) -> Tokens:
    """Concatenate the rows of the tokens of several batches; tokens without segments get segment 0 if others have
    segments.
    """
    if len(parts) == 1:
        return parts[0]
    segments = None
    if any(part.segments is not None for part in parts):
        segments = torch.cat([torch.zeros_like(p.ids) if p.segments is None else p.segments for p in parts])
    return Tokens(torch.cat([p.ids for p in parts]), torch.cat([p.positions for p in parts]), segments)
