from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from heedful.errors import DataError, RecipeError
from heedful.metrics.classification import (
    CorrelationMetric,
    MatthewsCorrelation,
    accuracy,
    f1_score,
    group_exact_match,
    group_parity,
    macro_f1_score,
)
from heedful.metrics.likelihood import Perplexity, perplexity
from heedful.metrics.metric import (
    BootstrapOptions,
    Metric,
    build_mean_metric,
    compute_intervals,
    group_metric,
    run_paired_tests,
)

Labels = Sequence[Any]
CLASSES = "abc"


METRICS: dict[str, Callable[[Labels, Labels], Metric]] = {
    "accuracy": accuracy,
    "f1": lambda p, g: f1_score(p, g, positive="a"),
    "macro_f1": lambda p, g: macro_f1_score(p, g, classes=CLASSES),
    "matthews": MatthewsCorrelation,
    "pearson": CorrelationMetric,
    "spearman": lambda p, g: CorrelationMetric(p, g, use_ranks=True),
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
        assert made(predicted, gold).compute_scores(weights) == pytest.approx(np.array(expected), abs=1e-9)


def test_correlations_bear_large_and_constant_numbers() -> None:
    huge = CorrelationMetric([1e200, 2e200, 3e200], [1, 2, 4])
    assert huge.value == pytest.approx(CorrelationMetric([1, 2, 3], [1, 2, 4]).value)
    for ranked in (False, True):
        assert CorrelationMetric([0.1] * 4, [1, 2, 3, 4], use_ranks=ranked).value == 0
        assert CorrelationMetric([0, 0], [1, 2], use_ranks=ranked).value == 0


def test_perplexity_of_weighted_examples() -> None:
    nats, counts = np.array([3.0, 8.0, 1.0]), np.array([2.0, 4.0, 1.0])
    metric = Perplexity(nats, counts)
    assert metric.value == pytest.approx(perplexity(-12, 7))
    assert metric.compute_scores(np.array([[2.0, 0, 1]]))[0] == pytest.approx(perplexity(-7, 5))
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
            (group_metric(f1_score(predicted, gold, positive="a"), groups), f1_score(mine, truth, positive="a")),
            (group_exact_match(predicted, gold, groups=groups), group_exact_match(mine, truth, groups=copies)),
            (group_parity(predicted, groups=groups), group_parity(mine, groups=copies)),
        ):
            assert metric.compute_scores(drawn)[0] == pytest.approx(expected.value)


def answers(dice: random.Random, gold: Labels, right: float) -> list[str]:
    return [g if dice.random() < right else dice.choice(CLASSES) for g in gold]


def test_intervals_are_those_of_drawn_examples_longhand() -> None:
    dice = random.Random(1)
    gold = dice.choices(CLASSES, k=80)
    predicted = answers(dice, gold, 0.6)
    found = compute_intervals({"matthews": MatthewsCorrelation(predicted, gold)}, BootstrapOptions(60, seed=4))[
        "matthews"
    ]
    rng = np.random.default_rng(4)
    drawn = []
    for _ in range(60):
        rows = rng.integers(80, size=80)
        drawn.append(MatthewsCorrelation([predicted[i] for i in rows], [gold[i] for i in rows]).value)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))
    assert (found.name, found.value) == ("matthews", pytest.approx(MatthewsCorrelation(predicted, gold).value))


@pytest.mark.parametrize("name", METRICS)
def test_intervals_hold_the_value_and_shrink_with_more_examples(name: str) -> None:
    dice = random.Random(7)
    widths = []
    for count in (50, 800):
        predicted, gold = sides(name, dice, count)
        mixed = [g if dice.random() < 0.6 else p for p, g in zip(predicted, gold, strict=True)]
        found = compute_intervals({name: METRICS[name](mixed, gold)}, BootstrapOptions(300, seed=1))[name]
        assert found.low < found.value < found.high
        widths.append(found.high - found.low)
    assert widths[1] < 0.5 * widths[0]


def test_a_system_and_itself() -> None:
    gold = random.Random(1).choices(CLASSES, k=50)
    metric = {"accuracy": accuracy(gold[::-1], gold)}
    found = run_paired_tests(metric, metric, BootstrapOptions(50))["accuracy"]
    assert (found.difference.value, found.p_value, found.first) == (0, 1, found.second)


def test_p_is_symmetric_and_tells_real_differences_from_chance() -> None:
    dice = random.Random(2)
    gold = dice.choices(CLASSES, k=400)
    weak, same, strong = (answers(dice, gold, right) for right in (0.5, 0.5, 0.75))

    def p(one: Labels, two: Labels) -> float:
        metrics = (
            {"accuracy": accuracy(side, gold), "matthews": MatthewsCorrelation(side, gold)} for side in (one, two)
        )
        first, second = run_paired_tests(*metrics, BootstrapOptions(400, seed=3)).values()
        assert abs(first.p_value - second.p_value) < 0.2
        return first.p_value

    assert p(weak, strong) == p(strong, weak) < 0.01
    assert p(weak, same) == p(same, weak) > 0.05


def test_p_longhand() -> None:
    dice = random.Random(5)
    gold = dice.choices(CLASSES, k=60)
    one, two = answers(dice, gold, 0.4), answers(dice, gold, 0.6)
    found = run_paired_tests(
        {"m": MatthewsCorrelation(one, gold)}, {"m": MatthewsCorrelation(two, gold)}, BootstrapOptions(99, seed=8)
    )["m"]
    rng = np.random.default_rng(8)
    differences = []
    for _ in range(99):
        rows = rng.integers(60, size=60)
        scores = [MatthewsCorrelation([side[i] for i in rows], [gold[i] for i in rows]).value for side in (one, two)]
        differences.append(scores[1] - scores[0])
    real = MatthewsCorrelation(two, gold).value - MatthewsCorrelation(one, gold).value
    middle = sum(differences) / 99
    as_far = sum(abs(each - middle) >= abs(real) for each in differences)
    assert found.p_value == pytest.approx((as_far + 1) / 100)
    assert found.difference.value == pytest.approx(real)


def test_several_sizes_are_drawn_apart() -> None:
    """As each would be alone: the tasks of one model have their own examples."""
    dice = random.Random(6)
    one, two = (
        {name: build_mean_metric([dice.random() for _ in range(size)]) for name, size in (("few", 9), ("many", 30))}
        for _ in range(2)
    )
    sampling = BootstrapOptions(40, seed=2)
    assert compute_intervals(one, sampling) == {
        k: each for name in one for k, each in compute_intervals({name: one[name]}, sampling).items()
    }
    found = run_paired_tests(one, two, sampling)
    assert found["many"] == run_paired_tests({"many": one["many"]}, {"many": two["many"]}, sampling)["many"]


def test_what_cannot_be_compared() -> None:
    three, four = ({"accuracy": build_mean_metric([1.0] * count)} for count in (3, 4))
    with pytest.raises(DataError, match=r"metrics of \[3, 4\] examples: they must cover the same examples"):
        run_paired_tests(three, four, BootstrapOptions())
    with pytest.raises(DataError, match="at least one"):
        compute_intervals({"accuracy": build_mean_metric([])}, BootstrapOptions())
    with pytest.raises(RecipeError, match="a bootstrap of 1 samples"):
        BootstrapOptions(samples=1)
    with pytest.raises(RecipeError, match="between 0 and 1"):
        BootstrapOptions(confidence=95)
