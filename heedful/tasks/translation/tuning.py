"""Weights of a noisy channel, found on translations whose references are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.inspection.page import Table
from heedful.metrics.counted import CorpusBLEU, CorpusChrF
from heedful.metrics.translation import tokenizer_for
from heedful.tasks.translation.channel import Judged, Weights

MetricName = Literal["bleu", "chrf"]
_NAMES: Final = {"bleu": "BLEU", "chrf": "chrF2"}
_STARTS: Final = ((0.0, 0.0, 0.0), (0.5, 0.25, 0.5), (1.0, 1.0, 1.0))
_STEPS: Final = (0.2, 0.05, 0.01)
_REACH: Final = 10
"""Steps that are tried on both sides of a weight."""


@dataclass(frozen=True)
class Tuned:
    """Weights, and what they are worth.

    Attributes:
        weights: learned from all sentences.
        sentences: how many these are.
        metric: by which was chosen, as people call it.
        before: of the candidates that came first, in percent.
        direct: of those that the translating model finds most probable.
        after: of those that the weights choose.
        held_out: of those that weights choose which were learned from the other half of the sentences.
    """

    weights: Weights
    sentences: int
    metric: str
    before: float
    direct: float
    after: float
    held_out: float

    def table(self) -> Table:
        """The values, one below the other."""
        rows = [
            ["as they came", self.before],
            ["most probable", self.direct],
            ["tuned", self.after],
            ["tuned on one half, measured on the other", self.held_out],
        ]
        notes = (f"{self.sentences:,} sentences; only the last line says what to expect of other text",)
        return Table("", ["chosen", self.metric], [[str(name), f"{value:.2f}"] for name, value in rows], notes)


class _Lists:
    """Lists of candidates as arrays, shorter ones padded with such as nobody chooses.

    Args:
        judged: of each sentence, not empty.
        references: of each sentence.
        metric: what they are measured by.
    """

    def __init__(self, judged: Sequence[Sequence[Judged]], references: Sequence[str], metric: MetricName) -> None:
        sizes = [len(own) for own in judged]
        real = np.arange(max(sizes)) < np.array(sizes)[:, None]
        pairs = [(each.candidate.text, right) for own, right in zip(judged, references, strict=True) for each in own]
        places = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
        texts, right = zip(*places, strict=True)
        self._metric = (
            CorpusBLEU(texts, right, tokenize=tokenizer_for(references))
            if metric == "bleu"
            else CorpusChrF(texts, right)
        )
        self._counts = np.zeros((*real.shape, self._metric.counts.shape[1]))
        self._counts[real] = self._metric.counts[[places[pair] for pair in pairs]]
        self._direct = np.full(real.shape, -np.inf)
        self._direct[real] = [each.candidate.log_probability for own in judged for each in own]
        self._features = np.zeros((*real.shape, 3))
        self._features[real] = [each.features for own in judged for each in own]

    def first(self, mask: slice) -> float:
        """Of those that came first."""
        return float(self._metric.score(self._counts[mask, 0].sum(0, keepdims=True))[0])

    def values(self, weights: Float[np.ndarray, "W 3"], mask: slice) -> Float[np.ndarray, " W"]:
        """Of those that each of some weights choose, among the sentences of a mask."""
        return self._metric.score(self._sums(weights, mask))

    def together(self, shares: Sequence[tuple[slice, Float[np.ndarray, " 3"]]]) -> float:
        """Of a corpus whose parts are chosen by weights of their own."""
        sums = sum(self._sums(weights[None], mask) for mask, weights in shares)
        assert isinstance(sums, np.ndarray)
        return float(self._metric.score(sums)[0])

    def _sums(self, weights: Float[np.ndarray, "W 3"], mask: slice) -> Float[np.ndarray, "W counts"]:
        counts = self._counts[mask]
        scores = self._direct[mask] + np.tensordot(weights, self._features[mask], (1, 2))
        best, rows = scores.argmax(2), np.arange(len(counts))
        return np.stack([counts[rows, each].sum(0) for each in best])

    def ascended(self, free: Sequence[int], mask: slice) -> Float[np.ndarray, " 3"]:
        """The best weights that coordinate ascent finds from a few starts; those that are not free stay 0."""
        found = []
        for start in _STARTS:
            weights = np.array([number if axis in free else 0.0 for axis, number in enumerate(start)])
            for step in _STEPS:
                weights = self._climbed(weights, free, mask, step=step)
            found.append((float(self.values(weights[None], mask)[0]), weights))
        return max(found, key=lambda each: each[0])[1]

    def _climbed(
        self, weights: Float[np.ndarray, " 3"], free: Sequence[int], mask: slice, *, step: float
    ) -> Float[np.ndarray, " 3"]:
        """Along one axis after the other, until no step is upwards; of equal ones the nearest."""
        value = float(self.values(weights[None], mask)[0])
        while True:
            before = value
            for axis in free:
                tried = np.repeat(weights[None], 2 * _REACH + 1, 0)
                tried[:, axis] += step * np.array(sorted(range(-_REACH, _REACH + 1), key=abs))
                if axis < 2:  # probabilities never count against a text
                    tried = tried[tried[:, axis] >= 0]
                values = self.values(tried, mask)
                if values.max() > value + 1e-9:
                    weights, value = tried[values.argmax()], float(values.max())
            if value <= before:
                return weights


def tuned(
    judged: Sequence[Sequence[Judged] | None], references: Sequence[str], *, metric: MetricName = "bleu"
) -> Tuned:
    """The weights with which the chosen candidates are nearest to the references, as a corpus.

    Coordinate ascent by steps that become smaller, from three starts; nothing is drawn, so the same candidates give the
    same weights. A model that said nothing gets the weight 0, and sentences that were not judged are left out.

    Raises:
        DataError: not as many references as sentences, or fewer than two sentences that were judged.
    """
    if len(judged) != len(references):
        raise DataError(f"{len(judged):,} sentences, and {len(references):,} references; give one for each")
    pairs = [(own, right) for own, right in zip(judged, references, strict=True) if own]
    if len(pairs) < 2:
        raise DataError("fewer than two sentences have candidates; give more, some hundreds to tune by")
    lists = _Lists([own for own, _ in pairs], [right for _, right in pairs], metric)
    heard = [own[0] for own, _ in pairs]
    free = [axis for axis, name in enumerate(("reverse", "language")) if getattr(heard[0], name) is not None] + [2]
    everything = slice(None)
    weights = lists.ascended(free, everything)
    halves = slice(0, None, 2), slice(1, None, 2)
    shares = [(halves[1 - at], lists.ascended(free, half)) for at, half in enumerate(halves)]
    reverse, language, length = (round(float(number), 4) for number in weights)
    return Tuned(
        Weights(reverse=reverse, language=language, length=length),
        len(pairs),
        _NAMES[metric],
        before=lists.first(everything),
        direct=float(lists.values(np.zeros((1, 3)), everything)[0]),
        after=float(lists.values(weights[None], everything)[0]),
        held_out=lists.together(shares),
    )
