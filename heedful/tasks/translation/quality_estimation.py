"""Quality of translations without a reference: warning signs, scattered attention, and calibrated expected chrF."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, Literal

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel

from heedful.metrics.judge import MonotoneCurve
from heedful.tasks.decoder_target import TextCandidate

REPEATS_SIGN: Final = "the translation repeats itself"
UNFINISHED_SIGN: Final = "the translation was cut at the maximum length"
COPIED_SIGN: Final = "the translation is the source"
UNSURE_SIGN: Final = "the model is less sure of it than of 99 in 100 calibration translations"
SCATTERED_SIGN: Final = "its attention is more scattered than that of 99 in 100 calibration translations"

_NGRAM: Final = 4
_MIN_EXCESS: Final = 2
"""Minimum excess of the most frequent n-gram's count over that of the source (Raunak et al. 2021, 5.1: n = 4, t =
2)."""
_LOOP_PATTERN: Final = re.compile(r"(.{1,12}?)\1{3,}")
"""Up to twelve letters repeated four times in a row."""


def hallucination_signs(source: str, candidate: TextCandidate) -> tuple[str, ...]:
    """Return the signs that a translation is wrong; empty for most."""
    text_signs = find_text_signs(source, candidate.text)
    return text_signs if candidate.finished else (*text_signs, UNFINISHED_SIGN)


def find_text_signs(source: str, text: str) -> tuple[str, ...]:
    """Return the signs that can be seen in the text of a translation alone.

    Repetition is the most frequent sign of hallucination: the most frequent word n-gram of the text occurs at least
    twice more often than that of the source (Raunak et al. 2021, section 5.1).
    """
    found = [REPEATS_SIGN] if has_repetition(source, text) else []
    if len(source.split()) > _NGRAM and source.casefold().split() == text.casefold().split():
        found.append(COPIED_SIGN)
    return tuple(found)


def has_repetition(source: str, text: str) -> bool:
    """Return whether a text repeats itself while its source does not."""
    if _max_ngram_count(text) - _max_ngram_count(source) >= _MIN_EXCESS:
        return True
    return _LOOP_PATTERN.search(_keep_letters(text)) is not None and _LOOP_PATTERN.search(_keep_letters(source)) is None


def _max_ngram_count(text: str) -> int:
    """Return the count of the most frequent word n-gram; 1 if there is none, as in most texts."""
    words = text.casefold().split()
    counts = Counter(tuple(words[start : start + _NGRAM]) for start in range(len(words) - _NGRAM + 1))
    return max(counts.values(), default=1)


def _keep_letters(text: str) -> str:
    """Return the letters of a text; rows of dots, dashes or digits are ignored."""
    return "".join(filter(str.isalpha, text.casefold()))


def attention_entropy(weights: Float[np.ndarray, "T S"]) -> float:
    """Return the normalised mean entropy of attention over the source, from 0 (each token attends to one) to 1.

    The mean entropy of the attention of each token (Rikters and Fishel 2017, the absentmindedness penalty), divided by
    the maximum for this number of source tokens.

    Args:
        weights: attention of each target token, end included (T), to the source tokens (S); rows need not sum to 1.
    """
    if weights.shape[1] < 2:
        return 0.0
    shares = np.asarray(weights, dtype=np.float64).clip(0)
    shares = shares / np.maximum(shares.sum(1, keepdims=True), np.finfo(np.float64).tiny)
    logs = np.log(np.where(shares > 0, shares, 1))
    return float(-(shares * logs).sum(1).mean() / np.log(weights.shape[1]))


CONFIDENCE_FILE: Final = "confidence.json"


class ConfidenceCurve(BaseModel, extra="forbid", allow_inf_nan=False):
    """A curve from the mean log-probability of a token, in nats, to the expected chrF (0 to 1).

    Attributes:
        weights: digest of the model's file, for which alone the curve is valid.
        points: of the curve.
        least: log-probability in nats per token that 99 in 100 calibration translations exceed; None if not computed.
        widest: attention entropy (`attention_entropy`) below which 99 in 100 are; None also if the model has no
            attention.
    """

    format: Literal[1] = 1
    weights: str
    points: tuple[tuple[float, float], ...]
    least: float | None = None
    widest: float | None = None

    def predict_chrf(self, candidate: TextCandidate) -> float:
        """Return the expected chrF of a translation, from 0 to 1."""
        return MonotoneCurve(self.points)(get_certainty(candidate))

    def find_doubts(self, candidate: TextCandidate, weights: Float[np.ndarray, "T S"] | None) -> tuple[str, ...]:
        """Return warning signs of a translation: that the model is less certain of this candidate than `least`, and, if
        its attention weights are given, that they are more scattered than `widest`.
        """
        signs = [UNSURE_SIGN] if self.least is not None and get_certainty(candidate) < self.least else []
        if self.widest is not None and weights is not None and attention_entropy(weights) > self.widest:
            signs.append(SCATTERED_SIGN)
        return tuple(signs)


def get_certainty(candidate: TextCandidate) -> float:
    """Return the mean log-probability of a token, the end included."""
    return candidate.log_probability / (len(candidate.ids) + 1)
