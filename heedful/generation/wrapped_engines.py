"""Engines made of other engines: several models decoded as one, and texts beyond the longest context of a model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.errors import RecipeError
from heedful.generation.results import upcast_logits
from heedful.models.interface import Engine, MultiStepDecoder, Source, State
from heedful.tensors import (
    GreedySteps,
    MultiStepSearch,
    RowSelection,
    StepsOutput,
    Tokens,
    concat_rows,
    require_same_width,
    select_rows,
)


class EnsembleAverage(ABC):
    """Abstract base of ways to average the predictions of several models."""

    @abstractmethod
    def __call__(self, logits: Sequence[Float[Tensor, "B T V"]]) -> Float[Tensor, "B T V"]:
        """Return the averaged logits."""


@final
class ProbabilityMean(EnsembleAverage):
    """Arithmetic mean of the probabilities: a token is likely if any model finds it likely."""

    def __call__(self, logits: Sequence[Float[Tensor, "B T V"]]) -> Float[Tensor, "B T V"]:
        """Return log(sum of softmax / number of models)."""
        log_probabilities = torch.stack([upcast_logits(model_logits).log_softmax(-1) for model_logits in logits])
        return log_probabilities.logsumexp(0) - math.log(len(logits))


@final
class LogProbabilityMean(EnsembleAverage):
    """Geometric mean of the probabilities: a token is likely only if no model finds it unlikely."""

    def __call__(self, logits: Sequence[Float[Tensor, "B T V"]]) -> Float[Tensor, "B T V"]:
        """Return the mean of the log-softmax, which is not normalised."""
        return torch.stack([upcast_logits(model_logits).log_softmax(-1) for model_logits in logits]).mean(0)


@final
class Ensemble(Generic[Source]):
    """Engine that predicts the average of its models, which share source, vocabulary and device."""

    def __init__(self, models: Sequence[Engine[Source]], average: EnsembleAverage | None = None) -> None:
        if not models:
            raise RecipeError("ensemble: no models; name at least one")
        self.models = tuple(models)
        self.average = average or ProbabilityMean()

    @property
    def device(self) -> torch.device:
        """Device of all models."""
        return self.models[0].device

    def init_state(self, source: Source) -> tuple[State, ...]:
        """Return the initial states of all models."""
        return tuple(model.init_state(source) for model in self.models)

    def step(self, tokens: Tokens, state: tuple[State, ...]) -> tuple[Float[Tensor, "B T V"], tuple[State, ...]]:
        """Run one step of every model with the same tokens, and average the logits; `state` has the states of all
        models. Raise `RecipeError` if the vocabularies differ in size.
        """
        logits, states = zip(
            *(model.step(tokens, model_state) for model, model_state in zip(self.models, state, strict=True)),
            strict=True,
        )
        sizes = [model_logits.size(-1) for model_logits in logits]
        if len(set(sizes)) > 1:
            raise RecipeError(f"ensemble: vocabularies of {sizes} tokens; all models must share one")
        return self.average(logits), states


_CHUNK_COLUMNS = 128
"""Columns that are read again at one time; the logits of a whole context would fill the memory."""


@dataclass(frozen=True)
class RollingContextState:
    """State of a model and the tokens that it has read.

    Attributes:
        inner: the model's own state.
        text: id and segment of the tokens of each row, left-aligned; None before the first one.
        counts: number of tokens of each row.
        has_segments: whether any token had a segment; if none had, the model is given none.
        width: rows of a group, see `RowSelection`.
    """

    inner: State
    text: Int[Tensor, "N L 2"] | None = None
    counts: Int[Tensor, " N"] | None = None
    has_segments: bool = False
    width: int = 1

    def reorder(self, rows: RowSelection) -> RollingContextState:
        """Return the state with its rows reordered."""
        inner, text, counts = select_rows((self.inner, self.text, self.counts), rows)
        return RollingContextState(inner, text, counts, self.has_segments, 1 if rows.ignores_groups else rows.width)

    def concat(self, others: Sequence[RollingContextState]) -> RollingContextState:
        """Concatenate the rows of this state and of others."""
        parts = (self, *others)
        inner, text, counts = concat_rows([(part.inner, part.text, part.counts) for part in parts])
        has_segments = any(part.has_segments for part in parts)
        return RollingContextState(inner, text, counts, has_segments, require_same_width(part.width for part in parts))


@final
class RollingContextEngine:
    """Engine that decodes texts longer than the context of the model.

    A row reads at positions 0, 1, ... until it has `max_context` tokens. The next token does not fit. So the newest
    `kept_tokens` tokens, this one included, are read again at positions 0 to `kept_tokens` - 1, and so on. When that
    happens depends on the row's own tokens only; other rows are read again unchanged at that moment.

    Args:
        engine: a model without a source.
        max_context: number of tokens that have a position.
        kept_tokens: number of tokens that are read again; half of them unless given. `max_context` reads all again
            for every token.
    """

    def __init__(self, engine: Engine[None], *, max_context: int, kept_tokens: int | None = None) -> None:
        kept_tokens = max(1, max_context // 2) if kept_tokens is None else kept_tokens
        if not 1 <= kept_tokens <= max_context:
            raise RecipeError(f"context: keeping {kept_tokens} of {max_context} tokens; must be from 1 to all of them")
        self.max_context = max_context
        self.kept_tokens = kept_tokens
        self._engine = engine

    @property
    def device(self) -> torch.device:
        """Device of the engine."""
        return self._engine.device

    def init_state(self, source: None = None) -> RollingContextState:
        """Return the state before the first token."""
        return RollingContextState(self._engine.init_state(None))

    def step(self, tokens: Tokens, state: RollingContextState) -> tuple[Float[Tensor, "B T V"], RollingContextState]:
        """Run `Engine.step` after the tokens of `state`, and read the newest tokens again where the context is full.
        Positions of tokens are only used to find padding (-1).
        """
        state = self._init_buffers(state, tokens)
        if state.has_segments and tokens.segments is None:
            tokens = replace(tokens, segments=torch.zeros_like(tokens.ids))
        if not tokens.ids.size(1):
            logits, inner = self._engine.step(tokens, state.inner)
            return logits, replace(state, inner=inner)
        is_token, logits_parts, start = tokens.positions >= 0, [], 0
        while start < is_token.size(1):
            assert state.counts is not None
            sizes = state.counts.unsqueeze(1) + is_token[:, start:].cumsum(1)
            num_columns = int((sizes <= self.max_context).all(0).sum())
            chunk = tokens.slice_columns(start, start + max(num_columns, 1))
            logits, state = (
                self._step_within_context(chunk, state, sizes=sizes[:, :num_columns])
                if num_columns
                else self._step_with_overflow(chunk, state)
            )
            logits_parts.append(logits)
            start += max(num_columns, 1)
        return torch.cat(logits_parts, 1), state

    def decode_steps(
        self, tokens: Tokens, state: RollingContextState, *, search: MultiStepSearch[StepsOutput]
    ) -> tuple[StepsOutput, RollingContextState] | None:
        """Run the next steps of a greedy search in one call, at most as many as fit into the context; return their
        output with the new state. Return None for another search, if the engine does not support it, or if fewer than
        two steps fit.
        """
        if not isinstance(search, GreedySteps) or not isinstance(self._engine, MultiStepDecoder):
            return None
        if state.text is None or state.counts is None:
            return None
        steps = replace(search, max_steps=min(search.max_steps, self.max_context - int(state.counts.amax())))
        if steps.max_steps < 2:
            return None
        is_token = tokens.positions >= 0
        positions = torch.where(is_token, state.counts.unsqueeze(1), -1)
        result: Any = self._engine.decode_steps(replace(tokens, positions=positions), state.inner, search=steps)
        if result is None:
            return None
        output, inner = result
        ids = torch.cat((tokens.ids, output.ids[:-1].T), 1)
        is_read = torch.cat((is_token, output.positions[1:].T >= 0), 1)
        segments = None if tokens.segments is None else tokens.segments.expand_as(ids)
        read_tokens = Tokens(ids, torch.where(is_read, 0, -1), segments)
        sizes = state.counts.unsqueeze(1) + is_read.cumsum(1)
        return output, self._append_tokens(read_tokens, replace(state, inner=inner), sizes=sizes)

    def _init_buffers(self, state: RollingContextState, tokens: Tokens) -> RollingContextState:
        """Return the state with buffers for the tokens of each row, created if this is its first step."""
        has_segments, rows = state.has_segments or tokens.segments is not None, len(tokens.ids)
        if state.text is not None:
            return replace(state, has_segments=has_segments)
        text = tokens.ids.new_zeros(rows, self.max_context, 2)
        return replace(state, text=text, counts=tokens.ids.new_zeros(rows), has_segments=has_segments)

    def _step_within_context(
        self, tokens: Tokens, state: RollingContextState, *, sizes: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], RollingContextState]:
        """Run a step with tokens that fit into the context after those of `state`.

        `sizes` counts the tokens of each row up to and including each of these.
        """
        assert state.text is not None
        is_token = tokens.positions >= 0
        positions = torch.where(is_token, sizes - 1, -1)
        logits, inner = self._engine.step(replace(tokens, positions=positions), state.inner)
        return logits, self._append_tokens(tokens, replace(state, inner=inner), sizes=sizes)

    def _append_tokens(
        self, tokens: Tokens, state: RollingContextState, *, sizes: Int[Tensor, "B T"]
    ) -> RollingContextState:
        """Append the tokens to the buffers of the state. `sizes` counts the tokens of each row up to and including each
        of these.
        """
        assert state.text is not None
        is_token = tokens.positions >= 0
        columns = torch.where(is_token, sizes - 1, self.max_context)
        padded = functional.pad(state.text, (0, 0, 0, 1))  # entries that are not tokens fall into the last column
        text = padded.scatter_(1, columns.unsqueeze(2).expand(-1, -1, 2), _stack_ids_and_segments(tokens))[:, :-1]
        return replace(state, text=text, counts=sizes[:, -1])

    def _step_with_overflow(
        self, token: Tokens, state: RollingContextState
    ) -> tuple[Float[Tensor, "B 1 V"], RollingContextState]:
        """Decode one token of each row where some rows exceed the context with it; these keep only their newest
        `kept_tokens` tokens. All rows are read again.
        """
        assert state.text is not None and state.counts is not None
        is_token = token.positions[:, 0] >= 0
        sizes = state.counts + is_token
        counts = torch.where(sizes > self.max_context, self.kept_tokens, sizes)
        columns = (sizes - counts).unsqueeze(1) + torch.arange(self.max_context, device=is_token.device)
        buffer = torch.cat((state.text, torch.zeros_like(state.text[:, :1])), 1)
        rows = torch.arange(len(is_token), device=is_token.device)
        buffer[rows, state.counts] = torch.where(is_token.unsqueeze(1), _stack_ids_and_segments(token)[:, 0], 0)
        text = buffer[rows.unsqueeze(1), columns.clamp(max=self.max_context)]
        logits, inner = self._reencode(text, counts, state)
        return logits, replace(state, inner=inner, text=text, counts=counts)

    def _reencode(
        self, text: Int[Tensor, "B L 2"], counts: Int[Tensor, " B"], old_state: RollingContextState
    ) -> tuple[Float[Tensor, "B 1 V"], State]:
        """Read the first `counts` tokens of each row of `text` (ids and segments) from position 0; return the logits of
        the last one and the new model state.

        Groups and segments are those of `old_state`.
        """
        inner, last_logits, width = self._engine.init_state(None), None, old_state.width
        if width > 1:
            inner = select_rows(inner, RowSelection.expand(len(text) // width, width, device=text.device))
        rows, columns = torch.arange(len(text), device=text.device), int(counts.max())
        columns_of_rows = torch.arange(columns, device=text.device).expand(len(text), -1)
        positions = torch.where(columns_of_rows < counts.unsqueeze(1), columns_of_rows, -1)
        ids, segments = text[:, :columns].unbind(2)
        tokens = Tokens(ids, positions, segments if old_state.has_segments else None)
        for start in range(0, columns, _CHUNK_COLUMNS):
            chunk = tokens.slice_columns(start, start + _CHUNK_COLUMNS)
            logits, inner = self._engine.step(chunk, inner)
            last_columns = (counts - 1 - start).clamp(0, logits.size(1) - 1)
            chunk_logits = logits[rows, last_columns]
            last_logits = (
                chunk_logits
                if last_logits is None
                else torch.where((counts > start).unsqueeze(1), chunk_logits, last_logits)
            )
        assert last_logits is not None
        return last_logits.unsqueeze(1), inner


def _stack_ids_and_segments(tokens: Tokens) -> Int[Tensor, "B T 2"]:
    """Stack ids and segments along a last axis."""
    return torch.stack((tokens.ids, torch.zeros_like(tokens.ids) if tokens.segments is None else tokens.segments), 2)


def count_kept_tokens(length: int, *, max_context: int, kept_tokens: int | None = None) -> int:
    """Return how many of `length` tokens are in the context of a `RollingContextEngine` with these settings after all
    are read.
    """
    kept_tokens = max(1, max_context // 2) if kept_tokens is None else kept_tokens
    tokens_per_shift = max_context + 1 - kept_tokens
    return length - -(-max(0, length - max_context) // tokens_per_shift) * tokens_per_shift
