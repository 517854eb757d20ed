"""Selection of translations that deserve attention: worst, unexpected, too short or long, suspicious."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.data.readers import SentencePair
from heedful.metrics.weighted_sacrebleu import CorpusChrF
from heedful.tasks.translation.evaluation import TranslationEvaluator, TranslationOutputs, TranslationStats
from heedful.tasks.translation.hallucination_signs import find_text_signs

_NUM_WORST: Final = 20
_MAX_OTHERS: Final = 10
"""Maximum number of sentences of each other kind."""
_MIN_LENGTH_RATIO, _MAX_LENGTH_RATIO = 0.75, 1.33
"""Letters of a translation per letter of the reference; a translation outside this range is reported."""
_MIN_SURPRISE: Final = 0.1
"""Minimum difference from the expectation."""


@final
@dataclass(frozen=True)
class ErrorCase:
    """A sentence with its reference and a system's translation.

    Attributes:
        number: of the sentence, from 1.
        pair: the sentence and its reference.
        text: the translation.
        score: its chrF, from 0 to 100.
        stats: statistics of the translation, if a model made it.
    """

    number: int
    pair: SentencePair
    text: str
    score: float
    stats: TranslationStats | None

    @property
    def warning_signs(self) -> tuple[str, ...]:
        """Signs that the translation may be wrong."""
        return find_text_signs(self.pair.source, self.text) if self.stats is None else self.stats.signs

    @property
    def length_ratio(self) -> float:
        """Number of letters of the translation divided by that of the reference."""
        return len("".join(self.text.split())) / max(1, len("".join(self.pair.target.split())))


@final
@dataclass(frozen=True)
class ErrorCases:
    """All sentences of an evaluation, and those that deserve attention.

    Attributes:
        evaluator: of the text.
        answers: its translations.
    """

    evaluator: TranslationEvaluator
    answers: TranslationOutputs

    @cached_property
    def scores(self) -> Float[np.ndarray, " N"]:
        """chrF of each sentence, from 0 to 100."""
        metric = CorpusChrF(self.answers.texts, self.evaluator.references, lowercase=self.evaluator.options.lowercase)
        return metric.score_sums(metric.counts)

    @cached_property
    def all_cases(self) -> list[ErrorCase]:
        """All sentences in order."""
        stats: Sequence[TranslationStats | None] = self.answers.stats or [None] * self.evaluator.size
        rows = zip(self.evaluator.pairs, self.answers.texts, self.scores.tolist(), stats, strict=True)
        return [ErrorCase(number, *row) for number, row in enumerate(rows, 1)]

    @cached_property
    def surprise(self) -> Float[np.ndarray, " N"] | None:
        """How much better (above 0) or worse each translation is than its model was certain, from -1 to 1.

        This is chrF minus the expected chrF if the model was calibrated; otherwise the share of sentences with lower
        chrF minus the share with lower certainty. None if no model made the translations.
        """
        if not self.answers.stats:
            return None
        expected = [stats.expected for stats in self.answers.stats]
        expected_values = [value for value in expected if value is not None]
        if len(expected_values) == len(expected):
            return np.asarray(self.scores / 100 - np.array(expected_values))
        certainties = np.array([stats.certainty for stats in self.answers.stats])
        return np.asarray(_rank_shares(self.scores) - _rank_shares(certainties))

    @property
    def is_calibrated(self) -> bool:
        """Whether all translations have an expected chrF."""
        return bool(self.answers.stats) and all(stats.expected is not None for stats in self.answers.stats)

    @cached_property
    def selected_cases(self) -> Mapping[str, list[ErrorCase]]:
        """Selected sentences by kind of problem, most severe first; kinds without sentences are left out."""
        surprise = np.zeros(self.evaluator.size) if self.surprise is None else self.surprise
        ratios = np.array([case.length_ratio for case in self.all_cases])
        signs = np.array([len(case.warning_signs) for case in self.all_cases])
        errors = 100 - self.scores
        severities = {
            "worst": errors,
            "worse than sure": -surprise - _MIN_SURPRISE,
            "better than sure": surprise - _MIN_SURPRISE,
            "too short": _MIN_LENGTH_RATIO - ratios,
            "too long": ratios - _MAX_LENGTH_RATIO,
            "with signs": np.where(signs > 0, signs + errors / 1000, 0),
        }
        selected = {
            name: self._select_most_severe(severity, _NUM_WORST if name == "worst" else _MAX_OTHERS)
            for name, severity in severities.items()
        }
        return {name: cases for name, cases in selected.items() if cases}

    def _select_most_severe(self, severity: Float[np.ndarray, " N"], count: int) -> list[ErrorCase]:
        """Return the sentences with the highest severity above 0."""
        order = np.argsort(-severity, kind="stable")[:count]
        return [self.all_cases[index] for index in order if severity[index] > 0]


def _rank_shares(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Return the share of values that each value exceeds; equal values count half."""
    order = np.sort(values)
    below, below_or_equal = (np.searchsorted(order, values, side=side) for side in ("left", "right"))
    return np.asarray((below + below_or_equal) / 2 / len(values))
