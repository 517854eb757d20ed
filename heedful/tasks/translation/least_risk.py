"""Minimum Bayes risk among translations that are there."""

from __future__ import annotations

from dataclasses import replace

from heedful.metrics.utility import Utility
from heedful.tasks.least_risk import by_risk
from heedful.tasks.translation.translations import Translation, joined


def least_risk(translation: Translation, *, utility: Utility, keep: int = 1) -> Translation:
    """The `keep` candidates of greatest expected utility, which becomes their score; see `by_risk`.

    A sentence that was read in parts is chosen part by part.
    """
    if translation.parts:
        parts = [least_risk(part, utility=utility, keep=keep) for part in translation.parts]
        return joined(translation.source, parts)
    best = by_risk([each.text for each in translation.candidates], utility)[:keep]
    chosen = tuple(replace(translation.candidates[at], score=score) for at, score in best)
    return replace(translation, candidates=chosen, doubts=())
