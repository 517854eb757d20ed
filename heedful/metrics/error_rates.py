"""Edit distance, word error rate and character error rate."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from heedful.metrics.metric import RatioMetric
from heedful.metrics.translation import check_pairs


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and substitutions that turn one sequence into the other (Levenshtein
    1966).

    Columns of the table are integers, with a bit for each difference between neighbours (Hyyrö 2003, figure 3).
    """
    masks: dict[Hashable, int] = {}
    for index, item in enumerate(first):
        masks[item] = masks.get(item, 0) | 1 << index
    all_bits, last_bit = (1 << len(first)) - 1, 1 << len(first) >> 1
    up, down, distance = all_bits, 0, len(first)
    for item in second:
        match_bits = masks.get(item, 0)
        diagonal = (((match_bits & up) + up) ^ up) | match_bits | down
        right, left = down | ~(diagonal | up), diagonal & up
        distance += bool(right & last_bit) - bool(left & last_bit) if first else 1
        right, left = right << 1 | 1, left << 1
        up, down = (left | ~(diagonal | right)) & all_bits, right & diagonal & all_bits
    return distance


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> RatioMetric:
    """Return the word edits of all texts, in percent of the reference words.

    Raises:
        DataError: no texts, or not as many hypotheses as references.
    """
    check_pairs(hypotheses, references)
    return _compute_error_rate([text.split() for text in hypotheses], [text.split() for text in references])


def character_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> RatioMetric:
    """Return the character edits of all texts, in percent of the reference characters, with one space between words."""
    check_pairs(hypotheses, references)
    return _compute_error_rate(*([" ".join(text.split()) for text in side] for side in (hypotheses, references)))


def _compute_error_rate(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> RatioMetric:
    """Return the edits in percent of the reference items."""
    edits = [
        100.0 * edit_distance(hypothesis, reference)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
    return RatioMetric(np.array(edits), np.array([float(len(reference_items)) for reference_items in references]))
