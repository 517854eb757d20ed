"""Edits between texts, and their rates."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from heedful.errors import DataError
from heedful.metrics.edits import character_error_rate, edit_distance, word_error_rate


def longhand(one: str, other: str) -> int:
    @cache
    def far(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(far(i - 1, j) + 1, far(i, j - 1) + 1, far(i - 1, j - 1) + (one[i - 1] != other[j - 1]))

    return far(len(one), len(other))


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("abcd", "acbd", 2), ("aaa", "aa", 1)],
)
def test_distances_are_known_and_those_of_the_definition(one: str, other: str, edits: int) -> None:
    assert edit_distance(one, other) == edit_distance(other, one) == longhand(one, other) == edits


def test_distances_of_random_texts_are_those_of_the_definition() -> None:
    dice = np.random.default_rng(1)
    for _ in range(50):
        one, other = ("".join(dice.choice(list("abc"), dice.integers(0, 9))) for _ in range(2))
        assert edit_distance(one, other) == longhand(one, other)


def test_rates_count_over_all_texts_and_may_exceed_everything() -> None:
    words = word_error_rate(["one two", "a b c"], ["one three four", "a"])
    assert words.value == pytest.approx(100 * (2 + 2) / 4)
    assert words.scores(np.array([[1.0, 0.0], [0.0, 1.0]])).tolist() == pytest.approx([200 / 3, 200.0])
    assert character_error_rate(["ab  c"], ["ab c d"]).value == pytest.approx(100 * 2 / 6)
    with pytest.raises(DataError):
        word_error_rate(["a"], [])
