from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from heedful.errors import DataError, RecipeError
from heedful.metrics.classes import accuracy, binary_f1, macro_f1, matthews
from heedful.metrics.correlation import pearson, spearman
from heedful.metrics.weighted import (
    Correlation,
    Matthews,
    Mean,
    Weighted,
    comparisons,
    f1,
    grouped,
    hits,
    intervals,
    mean,
)

Labels = Sequence[Any]
CLASSES = "abc"


def numbers(values: Labels) -> np.ndarray:
    return np.array(values, dtype=np.float64)


METRICS: dict[str, tuple[Callable[[Labels, Labels], Weighted], Callable[[Labels, Labels], float]]] = {
    "accuracy": (lambda p, g: mean(hits(p, g)), accuracy),
    "f1": (lambda p, g: f1(p, g, positive="a"), lambda p, g: binary_f1(p, g, positive="a").f1),
    "macro_f1": (
        lambda p, g: Mean(tuple(f1(p, g, positive=c) for c in CLASSES)),
        lambda p, g: macro_f1(p, g, classes=CLASSES).f1,
    ),
    "matthews": (Matthews, matthews),
    "pearson": (lambda p, g: Correlation(numbers(p), numbers(g)), pearson),
    "spearman": (lambda p, g: Correlation(numbers(p), numbers(g), ranked=True), spearman),
}


def sides(name: str, dice: random.Random, count: int) -> tuple[list[Any], list[Any]]:
    if name in ("pearson", "spearman"):  # whole numbers, so that some are equal
        return [dice.randint(-3, 9) for _ in range(count)], [dice.randint(0, 5) for _ in range(count)]
    return dice.choices(CLASSES, k=count), dice.choices(CLASSES, k=count)


@pytest.mark.parametrize("name", METRICS)
def test_weights_are_repetitions(name: str) -> None:
    made, official = METRICS[name]
    dice = random.Random(name)
    for count in (2, 3, 5, 12, 40):
        predicted, gold = sides(name, dice, count)
        metric = made(predicted, gold)
        assert metric.value == pytest.approx(official(predicted, gold))
        rows = [[dice.randrange(count) for _ in range(count)] for _ in range(30)]
        rows += [[0] * count, [0, 1] * (count // 2)]
        weights = np.array([np.bincount(row, minlength=count) for row in rows], dtype=np.float64)
        expected = [official([predicted[i] for i in row], [gold[i] for i in row]) for row in rows]
        assert metric.scores(weights) == pytest.approx(np.array(expected), abs=1e-9)


def test_correlations_bear_large_and_constant_numbers() -> None:
    huge = Correlation(numbers([1e200, 2e200, 3e200]), numbers([1, 2, 4]))
    assert huge.value == pytest.approx(pearson([1, 2, 3], [1, 2, 4]))
    for ranked in (False, True):
        assert Correlation(numbers([0.1] * 4), numbers([1, 2, 3, 4]), ranked=ranked).value == 0
        assert Correlation(numbers([0, 0]), numbers([1, 2]), ranked=ranked).value == 0


def test_groups_are_weighed_together() -> None:
    dice = random.Random(3)
    predicted, gold, groups = dice.choices("ab", k=30), dice.choices("ab", k=30), dice.choices("xyz", k=30)
    metric = grouped(f1(predicted, gold, positive="a"), groups)
    order = list(dict.fromkeys(groups))
    for weights in ([1, 1, 1], [2, 0, 1], [0, 3, 0]):
        rows = [i for name, weight in zip(order, weights, strict=True) for _ in range(weight) for i in range(30)
                if groups[i] == name]  # fmt: skip
        expected = binary_f1([predicted[i] for i in rows], [gold[i] for i in rows], positive="a").f1
        assert metric.scores(np.array([weights], dtype=np.float64))[0] == pytest.approx(expected)


def answers(dice: random.Random, gold: Labels, right: float) -> list[str]:
    return [g if dice.random() < right else dice.choice(CLASSES) for g in gold]


def test_intervals_are_those_of_drawn_examples_longhand() -> None:
    dice = random.Random(1)
    gold = dice.choices(CLASSES, k=80)
    predicted = answers(dice, gold, 0.6)
    (found,) = intervals({"matthews": Matthews(predicted, gold)}, samples=60, seed=4)
    rng = np.random.default_rng(4)
    drawn = []
    for _ in range(60):
        rows = rng.integers(80, size=80)
        drawn.append(matthews([predicted[i] for i in rows], [gold[i] for i in rows]))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))
    assert (found.name, found.value) == ("matthews", pytest.approx(matthews(predicted, gold)))


@pytest.mark.parametrize("name", METRICS)
def test_intervals_hold_the_value_and_shrink_with_more_examples(name: str) -> None:
    dice = random.Random(7)
    widths = []
    for count in (50, 800):
        predicted, gold = sides(name, dice, count)
        mixed = [g if dice.random() < 0.6 else p for p, g in zip(predicted, gold, strict=True)]
        (found,) = intervals({name: METRICS[name][0](mixed, gold)}, samples=300, seed=1)
        assert found.low < found.value < found.high
        widths.append(found.high - found.low)
    assert widths[1] < 0.5 * widths[0]


def test_a_system_and_itself() -> None:
    gold = random.Random(1).choices(CLASSES, k=50)
    metric = {"accuracy": mean(hits(gold[::-1], gold))}
    (found,) = comparisons(metric, metric, samples=50)
    assert (found.difference.value, found.p_value, found.first) == (0, 1, found.second)


def test_p_is_symmetric_and_tells_real_differences_from_chance() -> None:
    dice = random.Random(2)
    gold = dice.choices(CLASSES, k=400)
    weak, same, strong = (answers(dice, gold, right) for right in (0.5, 0.5, 0.75))

    def p(one: Labels, two: Labels) -> float:
        metrics = ({"accuracy": mean(hits(side, gold)), "matthews": Matthews(side, gold)} for side in (one, two))
        first, second = comparisons(*metrics, samples=400, seed=3)
        assert abs(first.p_value - second.p_value) < 0.2
        return first.p_value

    assert p(weak, strong) == p(strong, weak) < 0.01
    assert p(weak, same) == p(same, weak) > 0.05


def test_p_longhand() -> None:
    dice = random.Random(5)
    gold = dice.choices(CLASSES, k=60)
    one, two = answers(dice, gold, 0.4), answers(dice, gold, 0.6)
    (found,) = comparisons({"m": Matthews(one, gold)}, {"m": Matthews(two, gold)}, samples=99, seed=8)
    rng = np.random.default_rng(8)
    differences = []
    for _ in range(99):
        rows = rng.integers(60, size=60)
        scores = [matthews([side[i] for i in rows], [gold[i] for i in rows]) for side in (one, two)]
        differences.append(scores[1] - scores[0])
    real = matthews(two, gold) - matthews(one, gold)
    middle = sum(differences) / 99
    as_far = sum(abs(each - middle) >= abs(real) for each in differences)
    assert found.p_value == pytest.approx((as_far + 1) / 100)
    assert found.difference.value == pytest.approx(real)


def test_what_cannot_be_compared() -> None:
    three, four = ({"accuracy": mean([1.0] * count)} for count in (3, 4))
    with pytest.raises(DataError, match=r"metrics of \[3, 4\] examples: they must be of the same ones"):
        comparisons(three, four)
    with pytest.raises(DataError, match="at least of one"):
        intervals({"accuracy": mean([])})
    with pytest.raises(RecipeError, match="a bootstrap of 1 samples"):
        intervals(three, samples=1)
