"""Edit distances and error rates."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

from heedful import DataError
from heedful.metrics.error_rates import character_error_rate, edit_distance, word_error_rate


def longhand(one: str, other: str) -> int:
    """Levenshtein's definition, word by word."""

    @cache
    def between(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        same = one[i - 1] == other[j - 1]
        return min(between(i - 1, j) + 1, between(i, j - 1) + 1, between(i - 1, j - 1) + (not same))

    return between(len(one), len(other))


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("ab", "ba", 2), ("flaw", "lawn", 2), ("same", "same", 0)],
)
def test_distances_by_hand(one: str, other: str, edits: int) -> None:
    assert edit_distance(one, other) == edits == edit_distance(other, one)


def test_distances_are_those_of_the_definition() -> None:
    dice = random.Random(1)
    for longest in (7,) * 100 + (100,) * 5:
        one, other = ("".join(dice.choices("abc", k=dice.randint(0, longest))) for _ in range(2))
        assert edit_distance(one, other) == longhand(one, other)
        assert edit_distance(one.split("a"), other.split("a")) <= max(one.count("a"), other.count("a")) + 1


def test_rates_sum_before_they_divide() -> None:
    """Two of three words, then none of one: 2 edits, 4 words; 33 % would be the mean of the texts."""
    said, right = ["a x y z", "b"], ["a b", "b"]
    assert word_error_rate(said, right).value == pytest.approx(100 * 3 / 3)
    assert word_error_rate(["a x c", "d"], ["a b e", "d"]).value == pytest.approx(100 * 2 / 4)
    assert word_error_rate(["a b c d e"], ["a"]).value == pytest.approx(400), "more than all may be wrong"
    rate = word_error_rate(["a x c", "d"], ["a b e", "d"])
    assert rate.compute_scores(np.array([[0.0, 3.0], [2.0, 0.0]])).tolist() == pytest.approx([0, 100 * 4 / 6])


def test_characters_have_one_space_between_words() -> None:
    assert character_error_rate(["ab  cd"], ["ab cd"]).value == 0
    assert character_error_rate(["abcd"], ["ab cd"]).value == pytest.approx(100 / 5)


def test_nothing_and_too_little_are_refused() -> None:
    for rate in (word_error_rate, character_error_rate):
        with pytest.raises(DataError, match="no sentences"):
            rate([], [])
        with pytest.raises(DataError, match="each line needs its own"):
            rate(["a"], ["a", "b"])
