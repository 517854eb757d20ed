"""A curve that never falls, held against all curves that could be."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from sklearn.isotonic import IsotonicRegression

from heedful.errors import DataError
from heedful.metrics.judge import MonotoneCurve, fit_isotonic


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_nearest_one_that_never_falls(seed: int) -> None:
    rng = random.Random(seed)
    xs = [rng.gauss(0, 1) for _ in range(60)]
    ys = [x + rng.gauss(0, 1) for x in xs]
    curve = fit_isotonic(xs, ys)
    expected = IsotonicRegression().fit(xs, ys).predict(sorted(xs))
    pooled = {round(float(each), 9) for each in expected}
    assert {round(y, 9) for _, y in curve.points} == pooled
    assert all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(curve.points))
    assert sum(map(curve, xs)) == pytest.approx(sum(ys), abs=12), "near the mean, pieces being straight"


def test_equal_scores_have_one_value() -> None:
    assert fit_isotonic([1, 1, 1, 2], [0.0, 1.0, 0.5, 0.9]).points == ((1.0, 0.5), (2, 0.9))
    assert fit_isotonic([3, 1], [0.0, 1.0]).points == ((2.0, 0.5),)


def test_heights_between_points_lie_on_a_line_and_outside_on_the_ends() -> None:
    curve = MonotoneCurve(((0.0, 0.2), (2.0, 0.4), (3.0, 0.9)))
    heights = [curve(x) for x in (-5.0, 0.0, 1.0, 2.0, 2.5, 3.0, 9.0)]
    assert heights == pytest.approx([0.2, 0.2, 0.3, 0.4, 0.65, 0.9, 0.9], abs=1e-12)
    assert MonotoneCurve(((1.0, 0.5),))(0.0) == 0.5


@pytest.mark.parametrize(("xs", "ys"), [([], []), ([1.0], []), ([1.0], [1.0, 2.0])])
def test_nothing_makes_no_curve(xs: list[float], ys: list[float]) -> None:
    with pytest.raises(DataError, match="do not make a curve"):
        fit_isotonic(xs, ys)
