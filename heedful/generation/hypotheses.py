"""What generation gives back, and where a model then stands."""

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
from heedful.generation.start import Start
from heedful.models.interface import State
from heedful.values import Tokens, select


class NoTokenError(RunError):
    """Nothing may follow in a sentence of a batch, which is counted from 0."""

    def __init__(self, sentence: int) -> None:
        super().__init__(
            f"sentence {sentence + 1} of the batch: no token may follow, because the filters forbid all of them "
            "or the model's logits are not numbers; forbid fewer tokens or load an earlier checkpoint"
        )


@dataclass(frozen=True)
class Hypothesis:
    """One answer, the forced prefix included, without begin and end of sentence.

    Attributes:
        ids: the tokens.
        log_probability: sum of all token log-probabilities of the model, in nats.
        score: what hypotheses are ranked by: `log_probability` after the length penalty.
        token_log_probabilities: one for each id and, if finished, one more for the end of sentence.
        finished: whether it ended by itself; otherwise the limit cut it, or whoever told the search to stop.
        cut: whether the search was told to stop before it was done with it, so that more or better might have come.
    """

    ids: tuple[int, ...]
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]
    finished: bool
    cut: bool = False


Hypotheses: TypeAlias = list[list[Hypothesis]]
"""For each sentence its hypotheses, best first."""


@dataclass(frozen=True)
class After:
    """A model behind the hypotheses of a search: a row for each, those of a sentence one after the other, best first.

    Searches run in torch's inference mode, so the state is one for inference mode.

    Attributes:
        state: of the model, which has read everything but the last token of each hypothesis.
        unread: that token; position -1 where nothing was written.
        positions: of what comes next.
    """

    state: State
    unread: Tokens
    positions: Int[Tensor, " N"]

    @classmethod
    def of(cls, state: State, written: Tokens, *, first: Int[Tensor, " N"]) -> After:
        """Behind what was written, of which the last token is unread; `first` is where it began."""
        sizes = (written.positions >= 0).sum(1)
        last = (sizes - 1).clamp(min=0).unsqueeze(1)
        segments = None if written.segments is None else written.segments.gather(1, last)
        unread = Tokens(written.ids.gather(1, last), written.positions.gather(1, last), segments)
        return cls(state, unread, first + sizes)

    def prompt(self, tokens: Tokens) -> Tokens:
        """What the next search begins with, together with `state`: the unread token and then these, counted from 0."""
        positions = torch.where(tokens.positions >= 0, self.positions.unsqueeze(1) + tokens.positions, -1)
        segments = None
        if self.unread.segments is not None or tokens.segments is not None:
            parts = (self.unread, tokens)
            given = [torch.zeros_like(part.ids) if part.segments is None else part.segments for part in parts]
            segments = torch.cat(given, 1)
        together = torch.cat((self.unread.ids, tokens.ids), 1)
        return Tokens(together, torch.cat((self.unread.positions, positions), 1), segments)


@dataclass(frozen=True)
class Found:
    """What a search gives back.

    Attributes:
        hypotheses: of each sentence, best first.
        after: where the model stands behind them, so that it can read on; None unless it was asked for.
    """

    hypotheses: Hypotheses
    after: After | None = None

    def ranked(self, order: Sequence[Sequence[tuple[int, float]]]) -> Found:
        """For each sentence the hypotheses at these places, with these scores."""
        hypotheses = [
            [replace(own[place], score=score) for place, score in each]
            for own, each in zip(self.hypotheses, order, strict=True)
        ]
        if self.after is None:
            return Found(hypotheses)
        firsts = accumulate(map(len, self.hypotheses), initial=0)
        rows = [first + place for first, each in zip(firsts, order, strict=False) for place, _ in each]
        return Found(hypotheses, select(self.after, torch.tensor(rows, device=self.after.positions.device)))


@dataclass(frozen=True)
class Ended:
    """Hypotheses of a batch as tensors, on their way to become objects.

    Attributes:
        counts: ids of each hypothesis that were generated, end of sentence and prefix not counted.
        scores: minus infinity where there is no hypothesis.
        ids, token_log_probabilities: generated ones; if finished, the end of sentence stands at `counts`.
        cut: see `Hypothesis`.
    """

    counts: Int[Tensor, "B n"]
    finished: Bool[Tensor, "B n"]
    scores: Float[Tensor, "B n"]
    log_probabilities: Float[Tensor, "B n"]
    ids: Int[Tensor, "B n T"]
    token_log_probabilities: Float[Tensor, "B n T"]
    cut: Bool[Tensor, "B n"]

    def written(self, start: Start) -> Tokens:
        """What was generated of each hypothesis that there is, the end of sentence included; -1 behind it."""
        real = self.scores > -math.inf
        ids, sizes = self.ids[real], (self.counts + self.finished)[real]
        sentences = real.nonzero()[:, 0]
        places = torch.arange(ids.size(1), device=ids.device)
        positions = torch.where(places < sizes.unsqueeze(1), start.positions[sentences].unsqueeze(1) + places, -1)
        segments = None if start.segments is None else start.segments[sentences].expand_as(ids)
        return Tokens(ids, positions, segments)

    def listed(self, start: Start) -> Hypotheses:
        """The hypotheses as objects, behind their forced prefixes and in the order given."""
        lengths = start.lengths.tolist()
        prefixes = [ids[:n] for ids, n in zip(start.prefix.tolist(), lengths, strict=True)]
        forced = [given[:n] for given, n in zip(start.log_probabilities.tolist(), lengths, strict=True)]
        columns = (self.counts, self.finished, self.cut, self.scores, self.log_probabilities, self.ids)
        fields = (*columns, self.token_log_probabilities)
        sentences = zip(prefixes, forced, *(field.tolist() for field in fields), strict=True)
        return [_one_sentence(index, *sentence) for index, sentence in enumerate(sentences)]


def _one_sentence(index: int, prefix: list[int], forced: list[float], *fields: list[Any]) -> list[Hypothesis]:
    found = [
        Hypothesis(
            ids=(*prefix, *ids[:count]),
            log_probability=log_probability,
            score=score,
            token_log_probabilities=(*forced, *each[: count + finished]),
            finished=finished,
            cut=cut,
        )
        for count, finished, cut, score, log_probability, ids, each in zip(*fields, strict=True)
        if score != -math.inf
    ]
    if not found or any(math.isnan(hypothesis.score) for hypothesis in found):
        raise NoTokenError(index)
    return found
