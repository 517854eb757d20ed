"""Results of searches and of forced decoding: log-probabilities, hypotheses, and the model state after them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RunError
from heedful.models.interface import State, Step
from heedful.tensors import Tokens, concat_rows, pad_and_concat, select_rows


@dataclass(frozen=True)
class TargetScores:
    """Log-probabilities of given outputs, in nats.

    Attributes:
        token_log_probabilities: of each label; 0 where there is none.
        log_probability: their sum.
        count: number of labels in each row.
    """

    token_log_probabilities: Float[Tensor, "B T"]
    log_probability: Float[Tensor, " B"]
    count: Int[Tensor, " B"]


@torch.no_grad()
def score_target(step: Step, state: State, target: Tokens, *, labels: Int[Tensor, "B T"]) -> TargetScores:
    """Compute the log-probabilities of given labels. The model's `step` reads the target as one chunk, from `state` on.

    `labels[:, t]` is the token that should follow `target` up to column t, -1 to skip it. If `target` is an output
    after its begin of sentence, and `labels` the same output before its end of sentence, the sum is the
    `log_probability` that a search gives to that output. Labels are skipped where `target` has no token.
    """
    active_labels = torch.where(target.positions >= 0, labels, -1)
    log_probabilities = gather_log_probabilities(active_labels, step(target, state)[0])
    return TargetScores(log_probabilities, log_probabilities.sum(1), (active_labels >= 0).sum(1))


def gather_log_probabilities(labels: Int[Tensor, "B T"], logits: Float[Tensor, "B T V"]) -> Float[Tensor, "B T"]:
    """Return the log-probability of each label; 0 where it is -1."""
    logits = upcast_logits(logits)
    label_logits = logits.gather(2, labels.clamp(min=0).unsqueeze(2)).squeeze(2)
    return torch.where(labels >= 0, label_logits - logits.logsumexp(2), 0.0)


def upcast_logits(logits: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Convert logits to single precision if they are less precise; half is too coarse to rank or add."""
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()


class NoTokenError(RunError):
    """No token may follow in a sentence of the batch; `index` is its number there, from 0."""

    def __init__(self, index: int) -> None:
        super().__init__(
            f"sentence {index + 1} of the batch: no token may follow, because the filters forbid all of them "
            "or the model's logits are not numbers; forbid fewer tokens or load an earlier checkpoint"
        )


@dataclass(frozen=True)
class PrefillOutput:
    """State of each sentence after its prompt and forced prefix.

    Attributes:
        logits: for the first free token.
        sentence_indices: number of each sentence in its request.
        positions: position of the first free token.
        limits: largest number of new tokens, the forced ones included.
        prefix_lengths: number of forced tokens.
        prefix: ids forced before it; only the first `prefix_lengths` of a row count.
        prefix_log_probabilities: of the forced ids; 0 after them.
        segments: segment of all following tokens, that of the last prompt token; None where tokens have none.
    """

    logits: Float[Tensor, "B V"]
    sentence_indices: Int[Tensor, " B"]
    positions: Int[Tensor, " B"]
    limits: Int[Tensor, " B"]
    prefix_lengths: Int[Tensor, " B"]
    prefix: Int[Tensor, "B L"]
    prefix_log_probabilities: Float[Tensor, "B L"]
    segments: Int[Tensor, "B 1"] | None

    def without_logits(self) -> PrefillOutput:
        """Return the output without its logits, which are large."""
        return replace(self, logits=self.logits[:, :0])

    def concat(self, others: Sequence[PrefillOutput]) -> PrefillOutput:
        """Concatenate the sentences of this prefill output and of others, padding their prefixes to the longest one."""
        parts = (self, *others)
        prefix = pad_and_concat([part.prefix for part in parts], axis=1, fill=0)
        scores = pad_and_concat([part.prefix_log_probabilities for part in parts], axis=1, fill=0.0)
        columns = [
            (part.logits, part.sentence_indices, part.positions, part.limits, part.prefix_lengths, part.segments)
            for part in parts
        ]
        logits, numbers, positions, limits, lengths, segments = concat_rows(columns)
        return PrefillOutput(logits, numbers, positions, limits, lengths, prefix, scores, segments)


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search, with its forced prefix and without begin and end of sentence.

    Attributes:
        ids: the tokens.
        log_probability: sum of all token log-probabilities of the model, in nats.
        score: the ranking score: `log_probability` after the length penalty.
        token_log_probabilities: one for each id and, if finished, one more for the end of sentence.
        finished: whether it ended by itself; otherwise the limit or a stopping criterion cut it.
        interrupted: whether the search was interrupted before it was done with it, so that a longer or better one was
            possible.
    """

    ids: tuple[int, ...]
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]
    finished: bool
    interrupted: bool = False


Hypotheses: TypeAlias = list[list[Hypothesis]]
"""The hypotheses of each sentence, best first."""


@dataclass(frozen=True)
class ResumeState:
    """Model state after the hypotheses of a search, from which decoding can go on.

    It has a row for each hypothesis; those of a sentence follow each other, best first. Searches run in torch's
    inference mode, so the state can be used in inference mode only.

    Attributes:
        state: of the model, which has read all but the last token of each hypothesis.
        pending_tokens: that last token; position -1 where nothing was generated.
        positions: position of the next token.
    """

    state: State
    pending_tokens: Tokens
    positions: Int[Tensor, " N"]

    @classmethod
    def from_generated(cls, state: State, generated: Tokens, *, first_positions: Int[Tensor, " N"]) -> ResumeState:
        """Build the resume state from generated tokens, the last of which the model has not read; `first_positions` is
        the position of the first one in each row.
        """
        counts = (generated.positions >= 0).sum(1)
        last = (counts - 1).clamp(min=0).unsqueeze(1)
        segments = None if generated.segments is None else generated.segments.gather(1, last)
        pending_tokens = Tokens(generated.ids.gather(1, last), generated.positions.gather(1, last), segments)
        return cls(state, pending_tokens, first_positions + counts)

    def split(self, counts: Sequence[int]) -> list[ResumeState]:
        """Split the rows into consecutive parts; `counts` has the number of rows of each part."""
        if len(counts) == 1:
            return [self]
        rows = torch.arange(sum(counts), device=self.positions.device)
        return [select_rows(self, part) for part in torch.split(rows, [*counts])]

    def build_prompt(self, tokens: Tokens) -> Tokens:
        """Build the prompt of the next search: the pending token followed by `tokens`, whose positions count from 0."""
        positions = torch.where(tokens.positions >= 0, self.positions.unsqueeze(1) + tokens.positions, -1)
        segments = None
        if self.pending_tokens.segments is not None or tokens.segments is not None:
            parts = (self.pending_tokens, tokens)
            segment_parts = [torch.zeros_like(part.ids) if part.segments is None else part.segments for part in parts]
            segments = torch.cat(segment_parts, 1)
        ids = torch.cat((self.pending_tokens.ids, tokens.ids), 1)
        return Tokens(ids, torch.cat((self.pending_tokens.positions, positions), 1), segments)


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Attributes:
        hypotheses: of each sentence, best first.
        resume_state: model state after the hypotheses; None unless it was requested.
    """

    hypotheses: Hypotheses
    resume_state: ResumeState | None = None

    def rerank(self, ranking: Sequence[Sequence[tuple[int, float]]]) -> SearchResult:
        """Return the result with some hypotheses of each sentence in a new order. `ranking` has, for each sentence, the
        index of each chosen hypothesis and its new score.
        """
        hypotheses = [
            [replace(sentence[index], score=score) for index, score in ranked]
            for sentence, ranked in zip(self.hypotheses, ranking, strict=True)
        ]
        if self.resume_state is None:
            return SearchResult(hypotheses)
        first_rows = accumulate(map(len, self.hypotheses), initial=0)
        rows = [first + index for first, ranked in zip(first_rows, ranking, strict=False) for index, _ in ranked]
        return SearchResult(
            hypotheses, select_rows(self.resume_state, torch.tensor(rows, device=self.resume_state.positions.device))
        )


@dataclass(frozen=True)
class HypothesisBatch:
    """Finished hypotheses of a batch, as tensors.

    Attributes:
        counts: number of generated ids of each hypothesis, without end of sentence and prefix.
        scores: minus infinity where there is no hypothesis.
        ids, token_log_probabilities: of the generated tokens; if finished, the end of sentence is at `counts`.
        interrupted: see `Hypothesis.interrupted`.
    """

    counts: Int[Tensor, "B n"]
    finished: Bool[Tensor, "B n"]
    scores: Float[Tensor, "B n"]
    log_probabilities: Float[Tensor, "B n"]
    ids: Int[Tensor, "B n T"]
    token_log_probabilities: Float[Tensor, "B n T"]
    interrupted: Bool[Tensor, "B n"]

    def to_tokens(self, prefill: PrefillOutput) -> Tokens:
        """Return the generated tokens of each existing hypothesis, end of sentence included; position -1 after it.
        Positions go on from those of `prefill`.
        """
        exists = self.scores > -math.inf
        ids, counts = self.ids[exists], (self.counts + self.finished)[exists]
        sentences = exists.nonzero()[:, 0]
        columns = torch.arange(ids.size(1), device=ids.device)
        positions = torch.where(columns < counts.unsqueeze(1), prefill.positions[sentences].unsqueeze(1) + columns, -1)
        segments = None if prefill.segments is None else prefill.segments[sentences].expand_as(ids)
        return Tokens(ids, positions, segments)

    def to_hypotheses(self, prefill: PrefillOutput) -> Hypotheses:
        """Convert to `Hypothesis` objects in the same order, and prepend the forced prefixes, which `prefill` has."""
        lengths = prefill.prefix_lengths.tolist()
        prefixes = [ids[:n] for ids, n in zip(prefill.prefix.tolist(), lengths, strict=True)]
        prefix_scores = [
            scores[:n] for scores, n in zip(prefill.prefix_log_probabilities.tolist(), lengths, strict=True)
        ]
        columns = (self.counts, self.finished, self.interrupted, self.scores, self.log_probabilities, self.ids)
        values = (*columns, self.token_log_probabilities)
        numbers = prefill.sentence_indices.tolist()
        sentences = zip(numbers, prefixes, prefix_scores, *(column.tolist() for column in values), strict=True)
        return [_build_hypotheses(*sentence) for sentence in sentences]


def _build_hypotheses(
    index: int, prefix: list[int], prefix_scores: list[float], *fields: list[Any]
) -> list[Hypothesis]:
    """Build the hypotheses of one sentence from its forced prefix and its rows of `HypothesisBatch`. Raise
    `NoTokenError`, which names the sentence by `index`, if there are none or a score is not a number.
    """
    hypotheses = [
        Hypothesis(
            ids=(*prefix, *ids[:count]),
            log_probability=log_probability,
            score=score,
            token_log_probabilities=(*prefix_scores, *scores[: count + finished]),
            finished=finished,
            interrupted=cut,
        )
        for count, finished, cut, score, log_probability, ids, scores in zip(*fields, strict=True)
        if score != -math.inf
    ]
    if not hypotheses or any(math.isnan(hypothesis.score) for hypothesis in hypotheses):
        raise NoTokenError(index)
    return hypotheses
