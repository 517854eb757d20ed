"""Minimum Bayes risk selection among existing candidates."""

from __future__ import annotations

from dataclasses import replace

from heedful.metrics.utility import PairwiseUtility
from heedful.tasks.minimum_bayes_risk import rank_by_expected_utility
from heedful.tasks.translation.translations import Translation, join_translations


def select_minimum_risk(
    translation: Translation, *, utility: PairwiseUtility, keep: int = 1, weighted: bool = False
) -> Translation:
    """Keep the `keep` candidates with the highest expected utility, which becomes their score.

    See `rank_by_expected_utility`.

    Each part of a split sentence is selected separately.

    Args:
        translation: with all its candidates.
        utility: compares two candidates.
        keep: number of candidates to keep.
        weighted: whether candidates are weighted by their probability, as needed for beam search; samples count
            equally.
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
