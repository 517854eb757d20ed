from __future__ import annotations

from collections import Counter

import pytest

from heedful.data.random_numbers import Subsample
from heedful.errors import RecipeError


@pytest.mark.parametrize("total", [1, 7, 16, 17, 300])
def test_a_smaller_draw_is_among_a_larger_one(total: int) -> None:
    everything = list(range(total))
    before: set[int] = set()
    for count in range(1, total + 1, max(1, total // 20)):
        drawn = list(Subsample(everything, count=count, seed=5))
        assert drawn == sorted(drawn), "in the order in which they stand"
        assert len(drawn) == len(set(drawn)) == count
        assert before <= set(drawn)
        before = set(drawn)
    assert list(Subsample(everything, count=total, seed=5)) == everything


def test_it_is_read_as_often_as_one_likes_and_decided_by_the_seed() -> None:
    drawn = Subsample(range(100), count=30, seed=1)
    assert list(drawn) == list(drawn) == list(Subsample(range(100), count=30, seed=1))
    assert list(drawn) != list(Subsample(range(100), count=30, seed=2))


def test_all_examples_are_drawn_alike() -> None:
    counts = Counter(each for seed in range(2000) for each in Subsample(range(8), count=2, seed=seed))
    # 500 each, with a standard deviation of 19
    assert set(counts) == set(range(8))
    assert max(abs(count - 500) for count in counts.values()) < 90


def test_more_than_there_are_is_an_error() -> None:
    with pytest.raises(RecipeError, match=r"data\.examples = 4: there are only 3 to learn from; set at most that"):
        list(Subsample("abc", count=4, seed=1))
