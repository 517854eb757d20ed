"""Minimum Bayes risk among translations that are there."""

from __future__ import annotations

from dataclasses import replace

from heedful.metrics.utility import Utility
from heedful.tasks.least_risk import by_risk
from heedful.tasks.translation.translations import Translation, joined


def least_risk(translation: Translation, *, utility: Utility, keep: int = 1, weighed: bool = False) -> Translation:
    """The `keep` candidates of greatest expected utility, which becomes their score; see `by_risk`.

    A sentence that was read in parts is chosen part by part.

    Args:
        translation: with all its candidates.
        utility: what they are compared by.
        keep: how many stay.
        weighed: whether each counts by its probability, as what a beam found must; samples count alike.
    """
    if translation.parts:
        parts = [least_risk(part, utility=utility, keep=keep, weighed=weighed) for part in translation.parts]
        return joined(translation.source, parts)
    chances = [each.log_probability for each in translation.candidates] if weighed else None
    best = by_risk([each.text for each in translation.candidates], utility, log_probabilities=chances)[:keep]
    chosen = tuple(replace(translation.candidates[at], score=score) for at, score in best)
    return replace(translation, candidates=chosen, doubts=())
