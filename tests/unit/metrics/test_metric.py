from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from heedful.errors import DataError, RecipeError
from heedful.metrics.bootstrap import Sampling, intervals, paired_tests
from heedful.metrics.classes import Matthews, accuracy, exact_groups, f1, macro_f1, parity
from heedful.metrics.correlation import Correlation
from heedful.metrics.likelihood import Perplexity, perplexity
from heedful.metrics.metric import Metric, grouped, mean

Labels = Sequence[Any]
CLASSES = "abc"


METRICS: dict[str, Callable[[Labels, Labels], Metric]] = {
    "accuracy": accuracy,
    "f1": lambda p, g: f1(p, g, positive="a"),
    "macro_f1": lambda p, g: macro_f1(p, g, classes=CLASSES),
    "matthews": Matthews,
    "pearson": Correlation,
    "spearman": lambda p, g: Correlation(p, g, ranked=True),
}
"""`test_classes` and `test_correlation` hold their values beside those of scikit-learn and scipy."""


def sides(name: str, dice: random.Random, count: int) -> tuple[list[Any], list[Any]]:
    if name in ("pearson", "spearman"):  # whole numbers, so that some are equal
        return [dice.randint(-3, 9) for _ in range(count)], [dice.randint(0, 5) for _ in range(count)]
    return dice.choices(CLASSES, k=count), dice.choices(CLASSES, k=count)


@pytest.mark.parametrize("name", METRICS)
def test_weights_are_repetitions(name: str) -> None:
    made, dice = METRICS[name], random.Random(name)
    for count in (2, 3, 5, 12, 40):
        predicted, gold = sides(name, dice, count)
        rows = [[dice.randrange(count) for _ in range(count)] for _ in range(30)]
        rows += [[0] * count, [0, 1] * (count // 2)]
        weights = np.array([np.bincount(row, minlength=count) for row in rows], dtype=np.float64)
        expected = [made([predicted[i] for i in row], [gold[i] for i in row]).value for row in rows]
        assert made(predicted, gold).scores(weights) == pytest.approx(np.array(expected), abs=1e-9)


def test_correlations_bear_large_and_constant_numbers() -> None:
    huge = Correlation([1e200, 2e200, 3e200], [1, 2, 4])
    assert huge.value == pytest.approx(Correlation([1, 2, 3], [1, 2, 4]).value)
    for ranked in (False, True):
        assert Correlation([0.1] * 4, [1, 2, 3, 4], ranked=ranked).value == 0
        assert Correlation([0, 0], [1, 2], ranked=ranked).value == 0


def test_perplexity_of_weighted_examples() -> None:
    nats, counts = np.array([3.0, 8.0, 1.0]), np.array([2.0, 4.0, 1.0])
    metric = Perplexity(nats, counts)
    assert metric.value == pytest.approx(perplexity(-12, 7))
    assert metric.scores(np.array([[2.0, 0, 1]]))[0] == pytest.approx(perplexity(-7, 5))
    assert Perplexity(np.array([5000.0]), np.ones(1)).value == np.inf


def test_groups_are_weighed_together() -> None:
    dice = random.Random(3)
    predicted, gold, groups = dice.choices("ab", k=30), dice.choices("ab", k=30), dice.choices("xyz", k=30)
    order = list(dict.fromkeys(groups))
    for weights in ([1, 1, 1], [2, 0, 1], [0, 3, 0]):
        rows = [(i, copy) for name, weight in zip(order, weights, strict=True) for copy in range(weight)
                for i in range(30) if groups[i] == name]  # fmt: skip
        mine, truth = [predicted[i] for i, _ in rows], [gold[i] for i, _ in rows]
        copies = [(groups[i], copy) for i, copy in rows]
        drawn = np.array([weights], dtype=np.float64)
        for metric, expected in (
            (grouped(f1(predicted, gold, positive="a"), groups), f1(mine, truth, positive="a")),
            (exact_groups(predicted, gold, groups=groups), exact_groups(mine, truth, groups=copies)),
            (parity(predicted, groups=groups), parity(mine, groups=copies)),
        ):
            assert metric.scores(drawn)[0] == pytest.approx(expected.value)


def answers(dice: random.Random, gold: Labels, right: float) -> list[str]:
    return [g if dice.random() < right else dice.choice(CLASSES) for g in gold]


def test_intervals_are_those_of_drawn_examples_longhand() -> None:
    dice = random.Random(1)
    gold = dice.choices(CLASSES, k=80)
    predicted = answers(dice, gold, 0.6)
    found = intervals({"matthews": Matthews(predicted, gold)}, Sampling(60, seed=4))["matthews"]
    rng = np.random.default_rng(4)
    drawn = []
    for _ in range(60):
        rows = rng.integers(80, size=80)
        drawn.append(Matthews([predicted[i] for i in rows], [gold[i] for i in rows]).value)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))
    assert (found.name, found.value) == ("matthews", pytest.approx(Matthews(predicted, gold).value))


@pytest.mark.parametrize("name", METRICS)
def test_intervals_hold_the_value_and_shrink_with_more_examples(name: str) -> None:
    dice = random.Random(7)
    widths = []
    for count in (50, 800):
        predicted, gold = sides(name, dice, count)
        mixed = [g if dice.random() < 0.6 else p for p, g in zip(predicted, gold, strict=True)]
        found = intervals({name: METRICS[name](mixed, gold)}, Sampling(300, seed=1))[name]
        assert found.low < found.value < found.high
        widths.append(found.high - found.low)
    assert widths[1] < 0.5 * widths[0]


def test_a_system_and_itself() -> None:
    gold = random.Random(1).choices(CLASSES, k=50)
    metric = {"accuracy": accuracy(gold[::-1], gold)}
    found = paired_tests(metric, metric, Sampling(50))["accuracy"]
    assert (found.difference.value, found.p_value, found.first) == (0, 1, found.second)


def test_p_is_symmetric_and_tells_real_differences_from_chance() -> None:
    dice = random.Random(2)
    gold = dice.choices(CLASSES, k=400)
    weak, same, strong = (answers(dice, gold, right) for right in (0.5, 0.5, 0.75))

    def p(one: Labels, two: Labels) -> float:
        metrics = ({"accuracy": accuracy(side, gold), "matthews": Matthews(side, gold)} for side in (one, two))
        first, second = paired_tests(*metrics, Sampling(400, seed=3)).values()
        assert abs(first.p_value - second.p_value) < 0.2
        return first.p_value

    assert p(weak, strong) == p(strong, weak) < 0.01
    assert p(weak, same) == p(same, weak) > 0.05


def test_p_longhand() -> None:
    dice = random.Random(5)
    gold = dice.choices(CLASSES, k=60)
    one, two = answers(dice, gold, 0.4), answers(dice, gold, 0.6)
    found = paired_tests({"m": Matthews(one, gold)}, {"m": Matthews(two, gold)}, Sampling(99, seed=8))["m"]
    rng = np.random.default_rng(8)
    differences = []
    for _ in range(99):
        rows = rng.integers(60, size=60)
        scores = [Matthews([side[i] for i in rows], [gold[i] for i in rows]).value for side in (one, two)]
        differences.append(scores[1] - scores[0])
    real = Matthews(two, gold).value - Matthews(one, gold).value
    middle = sum(differences) / 99
    as_far = sum(abs(each - middle) >= abs(real) for each in differences)
    assert found.p_value == pytest.approx((as_far + 1) / 100)
    assert found.difference.value == pytest.approx(real)


def test_several_sizes_are_drawn_apart() -> None:
    """As each would be alone: the tasks of one model have their own examples."""
    dice = random.Random(6)
    one, two = ({"few": mean([dice.random() for _ in range(9)]), "many": mean([dice.random() for _ in range(30)])}
                for _ in range(2))  # fmt: skip
    sampling = Sampling(40, seed=2)
    assert intervals(one, sampling) == {
        k: each for name in one for k, each in intervals({name: one[name]}, sampling).items()
    }
    found = paired_tests(one, two, sampling)
    assert found["many"] == paired_tests({"many": one["many"]}, {"many": two["many"]}, sampling)["many"]


def test_what_cannot_be_compared() -> None:
    three, four = ({"accuracy": mean([1.0] * count)} for count in (3, 4))
    with pytest.raises(DataError, match=r"metrics of \[3, 4\] examples: they must be of the same ones"):
        paired_tests(three, four, Sampling())
    with pytest.raises(DataError, match="at least of one"):
        intervals({"accuracy": mean([])}, Sampling())
    with pytest.raises(RecipeError, match="a bootstrap of 1 samples"):
        Sampling(samples=1)
    with pytest.raises(RecipeError, match="between 0 and 1"):
        Sampling(confidence=95)
