"""What a beam search holds: how far it is in each sentence, what may come next, and how each beam came about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.generation.ranking import Top
from heedful.generation.start import Start


@dataclass(frozen=True)
class Front:
    """The sentences that are still searched, each with `width` live hypotheses of the same length.

    Attributes:
        first: position of the first generated token.
        forced: tokens of the prefix.
        limits: most new tokens, the prefix included.
        counts: tokens generated so far.
        live: log-probabilities of the live hypotheses, falling; minus infinity where there is none.
        done: nothing can change the result any more; all else stays as it was.
        ended: of each kept finished hypothesis its score, its log-probability and that of its end of sentence.
        places: of each of them `tokens * width + beam`: where the trellis has it.
        last: the token at which each of them ended.
        segments: of the tokens; None where they have none.
    """

    sentences: Int[Tensor, " G"]
    first: Int[Tensor, " G"]
    forced: Int[Tensor, " G"]
    limits: Int[Tensor, " G"]
    counts: Int[Tensor, " G"]
    live: Float[Tensor, "G width"]
    done: Bool[Tensor, " G"]
    ended: Float[Tensor, "G n 3"]
    places: Int[Tensor, "G n"]
    last: Int[Tensor, "G n"]
    segments: Int[Tensor, "G 1"] | None

    @classmethod
    def of(cls, start: Start, *, width: int, n_best: int) -> Front:
        """One live hypothesis for each sentence: what was forced."""
        sums = start.log_probabilities.sum(1, keepdim=True)
        sentences = torch.arange(len(sums), device=sums.device)
        return cls(
            sentences=sentences,
            first=start.positions,
            forced=start.lengths,
            limits=start.limits,
            counts=torch.zeros_like(sentences),
            live=functional.pad(sums, (0, width - 1), value=-math.inf),
            done=start.lengths >= start.limits,
            ended=sums.new_full((len(sums), n_best, 3), -math.inf),
            places=sentences.new_zeros(len(sums), n_best),
            last=sentences.new_zeros(len(sums), n_best),
            segments=start.segments,
        )

    def moving(self) -> tuple[Tensor, ...]:
        """What each step changes."""
        return self.counts, self.live, self.done, self.ended, self.places, self.last

    def moved(self, fields: tuple[Tensor, ...]) -> Front:
        """With this in its place."""
        counts, live, done, ended, places, last = fields
        fixed = self.sentences, self.first, self.forced, self.limits
        return Front(*fixed, counts, live, done, ended, places, last, self.segments)


@dataclass(frozen=True)
class Candidates:
    """Continuations of live hypotheses.

    Attributes:
        totals: log-probabilities of the whole.
        values: log-probabilities of the new token.
        beams: the live hypothesis continued.
        ids: the new token.
        ends: whether the hypothesis ends with it.
        ranks: the number of the continuation.
    """

    totals: Float[Tensor, "G k"]
    values: Float[Tensor, "G k"]
    beams: Int[Tensor, "G k"]
    ids: Int[Tensor, "G k"]
    ends: Bool[Tensor, "G k"]
    ranks: Int[Tensor, "G k"]

    @classmethod
    def of(cls, values: Float[Tensor, "G k"], best: Top, *, wanted: int) -> Candidates:
        """The best ones, and behind them such as are impossible, where there are fewer than wanted."""
        missing = (0, wanted - best.ids.size(1))
        totals, beams, ids = best.values, best.members, best.ids
        if missing[1]:
            totals = functional.pad(totals, missing, value=-math.inf)
            values, beams, ids = (functional.pad(part, missing) for part in (values, beams, ids))
        ranks = torch.arange(wanted, device=values.device).expand(len(values), -1)
        return cls(totals, values, beams, ids, torch.zeros_like(ids, dtype=torch.bool), ranks)

    def fields(self) -> tuple[Tensor, ...]:
        """All of it, in the order of the attributes."""
        return self.totals, self.values, self.beams, self.ids, self.ends, self.ranks

    def take(self, places: Int[Tensor, "G m"]) -> Candidates:
        """Some of them, in this order."""
        return Candidates(*(part.gather(1, places) for part in self.fields()))


@dataclass(frozen=True)
class Growth:
    """What a step of the search found: the 2 * width best continuations of each sentence, best first.

    Those that end the sentence and are among the first `width` are finished; the best `width` others live on, and are
    the beams of the next step, in the order of their totals.

    Attributes:
        sentences: rows of the prompt that are still searched.
        done: of them, those whose search had ended already; what stands there means nothing.
        beams: the live hypothesis continued.
        ids: the new token.
        totals: log-probabilities of the whole; minus infinity where there is none.
        scores: what a hypothesis that ends here is ranked by.
        group: number of the beams that it belongs to, where groups of them are searched (`Diverse`).
    """

    sentences: Int[Tensor, " G"]
    done: Bool[Tensor, " G"]
    beams: Int[Tensor, "G k"]
    ids: Int[Tensor, "G k"]
    totals: Float[Tensor, "G k"]
    scores: Float[Tensor, "G k"]
    group: int = 0


@runtime_checkable
class Traced(Protocol):
    """Knows how each beam came about."""

    def trace(
        self, beams: Int[Tensor, "B n"], counts: Int[Tensor, "B n"], *, dtype: torch.dtype
    ) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n T"]]:
        """The ids that led to these beams, which have so many tokens, and their log-probabilities; a column is free."""
        ...


class Trellis:
    """Which token each beam took at each step, and which beam it continued.

    Growing it costs the same at every step, whereas carrying the tokens of each beam along would cost its length.
    """

    def __init__(self, sentences: int, width: int) -> None:
        self._shape = (sentences, width)
        self._steps: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def grow(
        self,
        sentences: Int[Tensor, " G"],
        *,
        origins: Int[Tensor, "G width"],
        ids: Int[Tensor, "G width"],
        log_probabilities: Float[Tensor, "G width"],
    ) -> None:
        """One more step of these sentences; the others have ended."""
        self._steps.append((sentences, origins, ids, log_probabilities))

    def trace(
        self, beams: Int[Tensor, "B n"], counts: Int[Tensor, "B n"], *, dtype: torch.dtype
    ) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n T"]]:
        """The ids that led to these beams, which have so many tokens, and their log-probabilities.

        One more column than steps is left free at the end; what stands at `counts` and behind it means nothing.
        """
        ids = beams.new_zeros(*beams.shape, len(self) + 1)
        scores = torch.zeros(ids.shape, dtype=dtype, device=ids.device)
        for at in reversed(range(len(self))):
            origins, taken, values = self._all_sentences(at)
            ids[:, :, at] = taken.gather(1, beams)
            scores[:, :, at] = values.gather(1, beams)
            beams = torch.where(at < counts, origins.gather(1, beams), beams)
        return ids, scores

    def _all_sentences(self, at: int) -> tuple[Tensor, Tensor, Tensor]:
        sentences, *columns = self._steps[at]
        if len(sentences) == self._shape[0]:
            return columns[0], columns[1], columns[2]
        origins, ids, scores = (column.new_zeros(self._shape).index_copy_(0, sentences, column) for column in columns)
        return origins, ids, scores
