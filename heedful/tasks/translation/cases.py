"""Which translations of a measured text are worth reading: the worst, misjudged, too short or long, odd ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.data.readers import Pair
from heedful.metrics.counted import CorpusChrF
from heedful.tasks.translation.exam import Seen, Translated, TranslationExam
from heedful.tasks.translation.signs import signs_of_text

_WORST: Final = 20
_OTHERS: Final = 10
"""Sentences of each kind, at most."""
_SHORT, _LONG = 0.75, 1.33
"""Letters of a translation for each of the reference, beyond which it is told of."""
_SURPRISING: Final = 0.1
"""How far from what was expected, likewise."""


@final
@dataclass(frozen=True)
class Case:
    """A sentence and what a system made of it.

    Attributes:
        number: of the sentence, from 1.
        pair: the sentence and its reference.
        text: the translation.
        score: its chrF, from 0 to 100.
        seen: what else is known of it, where a model made it.
    """

    number: int
    pair: Pair
    text: str
    score: float
    seen: Seen | None

    @property
    def signs(self) -> tuple[str, ...]:
        """What is suspicious of the translation."""
        return signs_of_text(self.pair.source, self.text) if self.seen is None else self.seen.signs

    @property
    def ratio(self) -> float:
        """Letters of the translation for each of the reference."""
        return len("".join(self.text.split())) / max(1, len("".join(self.pair.target.split())))


@final
@dataclass(frozen=True)
class Cases:
    """All sentences of a measured text.

    Attributes:
        exam: the text.
        answers: its translations.
    """

    exam: TranslationExam
    answers: Translated

    @cached_property
    def scores(self) -> Float[np.ndarray, " N"]:
        """chrF of each sentence, from 0 to 100."""
        metric = CorpusChrF(self.answers.texts, self.exam.references, lowercase=self.exam.asking.lowercase)
        return metric.score(metric.counts)

    @cached_property
    def all(self) -> list[Case]:
        """In their order."""
        seen: Sequence[Seen | None] = self.answers.seen or [None] * self.exam.size
        rows = zip(self.exam.pairs, self.answers.texts, self.scores.tolist(), seen, strict=True)
        return [Case(number, *row) for number, row in enumerate(rows, 1)]

    @cached_property
    def surprise(self) -> Float[np.ndarray, " N"] | None:
        """How much better (above 0) or worse each translation is than its model was sure of, from -1 to 1.

        That is chrF less the confidence, where the model was calibrated; else the share of sentences with less chrF,
        less that of sentences of which the model was less sure. None where no model made the translations.
        """
        if not self.answers.seen:
            return None
        expected = [each.expected for each in self.answers.seen]
        known = [value for value in expected if value is not None]
        if len(known) == len(expected):
            return np.asarray(self.scores / 100 - np.array(known))
        certainties = np.array([each.certainty for each in self.answers.seen])
        return np.asarray(_shares(self.scores) - _shares(certainties))

    @property
    def is_calibrated(self) -> bool:
        """Whether models told what chrF to expect."""
        return bool(self.answers.seen) and all(each.expected is not None for each in self.answers.seen)

    @cached_property
    def chosen(self) -> Mapping[str, list[Case]]:
        """By what is the matter with them, those first that it is the matter most with; no kind without any."""
        surprise = np.zeros(self.exam.size) if self.surprise is None else self.surprise
        ratios = np.array([each.ratio for each in self.all])
        signs = np.array([len(each.signs) for each in self.all])
        wrong = 100 - self.scores
        matter = {
            "worst": wrong,
            "worse than sure": -surprise - _SURPRISING,
            "better than sure": surprise - _SURPRISING,
            "too short": _SHORT - ratios,
            "too long": ratios - _LONG,
            "with signs": np.where(signs > 0, signs + wrong / 1000, 0),
        }
        found = {name: self._most(much, _WORST if name == "worst" else _OTHERS) for name, much in matter.items()}
        return {name: cases for name, cases in found.items() if cases}

    def _most(self, much: Float[np.ndarray, " N"], count: int) -> list[Case]:
        """Those of which it is more than nothing, the most first."""
        order = np.argsort(-much, kind="stable")[:count]
        return [self.all[row] for row in order if much[row] > 0]


def _shares(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """The share of values that each exceeds; half of those that are the same count."""
    order = np.sort(values)
    below, upto = (np.searchsorted(order, values, side=side) for side in ("left", "right"))
    return np.asarray((below + upto) / 2 / len(values))
