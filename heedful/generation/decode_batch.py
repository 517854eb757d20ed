"""Interface of decode batches: the decoding state of sentences that one search decodes together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.generation.prefill import GenerationRequest
from heedful.generation.processors import LogitsPipeline
from heedful.generation.results import HypothesisBatch, PrefillOutput, ResumeState
from heedful.models.interface import MultiStepDecoder, State, Step
from heedful.tensors import RowSelection, Tokens, pad_and_concat

_LOOKAHEAD_TOKENS: Final = 64
"""Tokens of all rows that one call of an engine decodes, if it supports several steps in one call."""
_MIN_LOOKAHEAD_STEPS: Final = 8
"""Smallest number of steps in one call. A small Transformer of 16 sentences with a beam of 5 was 1.4 times as fast with
8 steps in a call as with one."""


@dataclass(frozen=True)
class StepHistory:
    """What each step gave for each row, such as its tokens, while rows join and leave.

    New steps are only listed, which costs the same at every step; they are packed into one tensor when rows change. All
    rows share their last step, so a row that has joined later begins at a later column.

    Attributes:
        starts: column of the first step of each row.
        packed: older steps, [rows, steps, ...] for each field.
        newer: newer steps in parts, each [rows, steps, ...] for each field.
    """

    starts: Int[Tensor, " N"]
    packed: tuple[Tensor, ...]
    newer: tuple[tuple[Tensor, ...], ...] = ()

    @classmethod
    def empty_like(cls, *fields: Tensor) -> StepHistory:
        """Return a history without steps, whose fields have the shape and type of these."""
        starts = torch.zeros(len(fields[0]), dtype=torch.long, device=fields[0].device)
        return cls(starts, tuple(field.unsqueeze(1)[:, :0] for field in fields))

    @property
    def counts(self) -> Int[Tensor, " N"]:
        """Number of steps of each row."""
        return len(self) - self.starts

    def __len__(self) -> int:
        """Return the number of steps of the rows that have been there longest."""
        return sum(fields[0].size(1) for fields in (self.packed, *self.newer))

    def append(self, step: tuple[Tensor, ...]) -> StepHistory:
        """Return the history with one more step, [rows, ...] for each field."""
        return self.extend(tuple([field.unsqueeze(1) for field in step]))

    def extend(self, columns: tuple[Tensor, ...]) -> StepHistory:
        """Return the history with several more steps, [rows, steps, ...] for each field."""
        return StepHistory(self.starts, self.packed, (*self.newer, columns))

    def reorder(self, rows: RowSelection) -> StepHistory:
        """Return the history of the selected rows."""
        packed = tuple(field.index_select(0, rows.origin) for field in self._all_packed)
        return StepHistory(self.starts.index_select(0, rows.origin), packed)

    def concat(self, others: Sequence[StepHistory]) -> StepHistory:
        """Concatenate the rows of this history and of others, all of which end at the same step; drop steps that no row
        has.
        """
        parts = [(history.starts, history._all_packed) for history in (self, *others)]
        size = max(fields[0].size(1) for _, fields in parts)
        starts = torch.cat([starts + (size - fields[0].size(1)) for starts, fields in parts])
        unused = int(starts.min()) if len(starts) else 0
        columns = zip(*(fields for _, fields in parts), strict=True)
        packed = (pad_and_concat(column, axis=1, fill=0, pad_left=True) for column in columns)
        return StepHistory(starts - unused, tuple(field[:, unused:] for field in packed))

    def to_columns(self) -> tuple[Tensor, ...]:
        """Return each field as [rows, steps, ...], with rows in the order of this history. Rows are aligned on the
        left: column 0 has the first step of each row, and rows with fewer steps are padded at the end.

        What comes after the last step of a row means nothing.
        """
        packed, device = self._all_packed, self.starts.device
        if not bool(self.starts.any()):
            return packed
        columns = self.starts.unsqueeze(1) + torch.arange(len(self), device=device)
        rows = torch.arange(len(self.starts), device=device).unsqueeze(1)
        return tuple(field[rows, columns.clamp(max=len(self) - 1)] for field in packed)

    @cached_property
    def _all_packed(self) -> tuple[Tensor, ...]:
        """Return each field of all steps, [rows, steps, ...]."""
        if not self.newer:
            return self.packed
        return tuple(torch.cat(parts, 1) for parts in zip(self.packed, *self.newer, strict=True))


@dataclass(frozen=True)
class StepResult:
    """Result of one decoding step: which tokens to feed next, and how to reorder the model state before.

    Attributes:
        next_tokens: the next input tokens of all rows; position -1 where a sentence is done.
        num_done: number of sentences that are done.
        beams: the row of the same sentence that each row continues; None if every row continues itself.
        num_steps: number of steps, where several were decoded in one call.
    """

    next_tokens: Tokens
    num_done: int
    beams: Int[Tensor, "G width"] | None = None
    num_steps: int = 1


class DecodeBatch(ABC):
    """Abstract base: sentences decoded by one search, with `width` rows (beams or samples) each.

    Attributes:
        width: number of rows of each sentence.
        merge_key: batches with equal keys can be concatenated; None forbids it.
    """

    width: int
    merge_key: Any

    @property
    @abstractmethod
    def prefill(self) -> PrefillOutput:
        """What was read of each sentence before the search."""

    @property
    @abstractmethod
    def done_mask(self) -> Bool[Tensor, " G"]:
        """Mask of the sentences that need no further step."""

    @abstractmethod
    def advance(self, logits: Float[Tensor, "N V"], *, rows_per_sentence: int) -> tuple[DecodeBatch, StepResult]:
        """Decode one token of every row; return the new batch and the changes to the model state. `logits` has
        `rows_per_sentence` rows for each sentence: one before the first token, then `width`.

        Args:
            logits: of the rows, which are 1 or `width` in each sentence so far.
            rows_per_sentence: 1 or `width`.

        Raises:
            RunError: no token may follow in some row.
        """

    def advance_ahead(
        self, engine: MultiStepDecoder, tokens: Tokens, state: State, *, max_steps: int
    ) -> tuple[DecodeBatch, StepResult, State] | None:
        """Decode several tokens of each row, at most `max_steps`, in one call of the engine; return the new batch, the
        step result and the new model state, or None where that is not possible.

        Args:
            engine: that may support it.
            tokens: the next input tokens.
            state: model state before these tokens.
            max_steps: tokens of each row at most.

        Raises:
            RunError: no token may follow in some row.
        """
        return None

    @abstractmethod
    def keep_rows(self, indices: Int[Tensor, " G"]) -> DecodeBatch:
        """Keep only the sentences at these indices."""

    @abstractmethod
    def concat(self, others: Sequence[Any]) -> DecodeBatch:
        """Concatenate the sentences of this batch and of others of its class.

        They have the same merge key, or take no further step: states of logits processors are not concatenated.
        """

    @abstractmethod
    def finish(self, indices: Int[Tensor, " B"]) -> DecodeBatch:
        """Mark the sentences at these indices as done."""

    @abstractmethod
    def finalize(self) -> HypothesisBatch:
        """Return the best hypotheses found for each sentence."""

    @abstractmethod
    def partial_outputs(self) -> list[list[int]]:
        """Return the best token ids so far of each sentence; they may still change."""

    @abstractmethod
    def build_resume_state(self, hypotheses: HypothesisBatch, *, step: Step, state: State) -> ResumeState:
        """Return the model state after the hypotheses, from `state`, the model state of all rows before their newest
        tokens.

        The request must have asked for it with `keep_state`.

        Args:
            hypotheses: of all sentences, from `finalize`.
            step: `Engine.step` of the model.
            state: model state of all rows, which has read all tokens but the newest.
        """


class BatchableSearch(ABC):
    """Abstract base of searches whose sentences can join and leave a running batch.

    Attributes:
        eos: the token that ends a sentence.
    """

    eos: int

    @property
    @abstractmethod
    def rows_per_sentence(self) -> int:
        """Number of model rows of each sentence."""

    @abstractmethod
    def check_request(self, request: GenerationRequest) -> None:
        """Raise `RecipeError` if the search cannot answer the request."""

    @abstractmethod
    def init_batch(self, request: GenerationRequest, prefill: PrefillOutput, state: State) -> DecodeBatch:
        """Return the batch of a request before its first token. `prefill` is what was read of the sentences, and
        `state` is the model state after that.

        Args:
            request: what was requested.
            prefill: what was read.
            state: model state after the prompts.
        """


def count_lookahead_steps(rows: int) -> int:
    """Return how many steps of this number of rows an engine should run in one call.

    Rows that are done are removed between calls, and new sentences join then.
    """
    return max(_MIN_LOOKAHEAD_STEPS, _LOOKAHEAD_TOKENS // rows)


def build_merge_key(
    search: BatchableSearch, request: GenerationRequest, prefill: PrefillOutput, pipeline: LogitsPipeline
) -> Any:
    """Return a key for the batch of a request that is equal for batches that may be merged, or None if it must not be
    merged. `prefill` is what was read before the search.

    It is None where something knows the rows of its own request: a processor or criterion with a state, lexical
    constraints, or the state that is to be returned.
    """
    is_mergeable = pipeline.is_plain and request.constraints is None and not request.keep_state
    return (search, prefill.segments is None) if is_mergeable else None
