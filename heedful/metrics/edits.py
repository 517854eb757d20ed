"""How many edits lie between what was written and what should have been."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from heedful.metrics.metric import Ratio
from heedful.metrics.translation import check_pairs


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The fewest items to put in, take out or exchange so that one becomes the other (Levenshtein 1966).

    Columns of the table are whole numbers, a bit for each difference between neighbours (Hyyrö 2003, figure 3).
    """
    places: dict[Hashable, int] = {}
    for place, item in enumerate(one):
        places[item] = places.get(item, 0) | 1 << place
    every, last = (1 << len(one)) - 1, 1 << len(one) >> 1
    up, down, distance = every, 0, len(one)
    for item in other:
        same = places.get(item, 0)
        diagonal = (((same & up) + up) ^ up) | same | down
        right, left = down | ~(diagonal | up), diagonal & up
        distance += bool(right & last) - bool(left & last) if one else 1
        right, left = right << 1 | 1, left << 1
        up, down = (left | ~(diagonal | right)) & every, right & diagonal & every
    return distance


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Ratio:
    """Edits of words in all texts, in percent of the words of the references.

    Raises:
        DataError: no texts, or not as many hypotheses as references.
    """
    check_pairs(hypotheses, references)
    return _error_rate([text.split() for text in hypotheses], [text.split() for text in references])


def character_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Ratio:
    """The same of characters, with one space between words."""
    check_pairs(hypotheses, references)
    return _error_rate(*([" ".join(text.split()) for text in side] for side in (hypotheses, references)))


def _error_rate(found: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> Ratio:
    edits = [100.0 * edit_distance(one, other) for one, other in zip(found, right, strict=True)]
    return Ratio(np.array(edits), np.array([float(len(each)) for each in right]))
