"""Minimum Bayes risk among translations that are there."""

from __future__ import annotations

from dataclasses import replace

from heedful.metrics.utility import PairwiseUtility
from heedful.tasks.minimum_bayes_risk import rank_by_expected_utility
from heedful.tasks.translation.translations import Translation, join_translations


def select_minimum_risk(
    translation: Translation, *, utility: PairwiseUtility, keep: int = 1, weighted: bool = False
) -> Translation:
    """The `keep` candidates of greatest expected utility, which becomes their score; see `rank_by_expected_utility`.

    A sentence that was read in parts is chosen part by part.

    Args:
        translation: with all its candidates.
        utility: what they are compared by.
        keep: how many stay.
        weighted: whether each counts by its probability, as what a beam found must; samples count alike.
    """
    if translation.parts:
        parts = [select_minimum_risk(part, utility=utility, keep=keep, weighted=weighted) for part in translation.parts]
        return join_translations(translation.source, parts)
    log_probabilities = [candidate.log_probability for candidate in translation.candidates] if weighted else None
    selected = rank_by_expected_utility(
        [candidate.text for candidate in translation.candidates], utility, log_probabilities=log_probabilities
    )[:keep]
    candidates = tuple(replace(translation.candidates[index], score=score) for index, score in selected)
    return replace(translation, candidates=candidates, doubts=())
