from __future__ import annotations

import pytest

from heedful.training.callbacks import TrainState
from heedful.training.history import LossTrend, describe_overfitting, describe_stall


def told(losses: list[tuple[float, float]]) -> dict[int, str]:
    """What is said at each evaluation, of pairs of training and validation loss."""
    trend, found = LossTrend(), {}
    for step, (training, validation) in enumerate(losses, 1):
        before = trend.add_update(training, num_labels=10)
        trend = before.add_evaluation(validation, step=step)
        if text := describe_overfitting(before, trend):
            found[step] = text
    return found


def test_losses_that_part_are_told_once_when_they_do() -> None:
    apart = [(3.0, 3.0), (2.0, 2.5), (1.5, 2.6), (1.2, 2.7), (0.9, 2.9), (0.5, 3.5)]
    found = told(apart)
    assert list(found) == [4], "the second evaluation above the lowest"
    assert found[4].startswith(
        "training and validation loss diverge (overfitting): since step 2 validation has risen from 2.500 to 2.700 and "
        "training has fallen from 2.000 to 1.200; "
    )


def test_it_is_told_again_where_it_begins_again() -> None:
    apart = [(3.0, 3.0), (2.0, 3.5), (1.5, 3.6), (1.4, 2.0), (1.3, 2.1), (1.0, 2.2), (0.9, 2.3)]
    assert list(told(apart)) == [3, 6]


@pytest.mark.parametrize(
    "losses",
    [
        [(3.0, 3.0), (2.0, 2.5), (1.0, 2.4), (0.5, 2.3), (0.1, 2.2)],
        [(3.0, 3.0), (2.0, 2.5), (1.0, 2.51), (0.5, 2.52), (0.1, 2.519)],
        [(3.0, 3.0), (2.0, 2.5), (2.0, 2.9), (2.1, 3.0), (1.99, 3.1)],
        [(3.0, 3.0), (2.0, 2.5), (1.5, 2.9), (1.0, 2.4), (0.5, 2.9), (0.4, 2.3)],
    ],
    ids=["a gap that both losses narrow", "noise", "training gets no better either", "one bad evaluation at a time"],
)
def test_what_is_no_overfitting_is_not_called_so(losses: list[tuple[float, float]]) -> None:
    assert told(losses) == {}


def test_training_losses_are_weighed_by_their_labels() -> None:
    trend = LossTrend().add_update(1.0, num_labels=30).add_update(5.0, num_labels=10).add_evaluation(2.0, step=1)
    assert trend.lowest is not None
    assert trend.lowest.training == pytest.approx(2.0)
    assert trend.add_evaluation(9.0, step=1) == trend, "nothing was learned since"


@pytest.mark.parametrize(
    ("stale", "patience", "expected"),
    [
        (2, None, ""),
        (3, None, "; training.patience would end a training that does not improve"),
        (4, None, ""),
        (3, 5, "; after 2 more without improvement training ends (training.patience)"),
        (3, 3, "; training ends here (training.patience = 3)"),
        (1, 1, "; training ends here (training.patience = 1)"),
        (2, 3, ""),
        (0, 3, ""),
    ],
)
def test_validation_that_stops_improving_is_told_once(stale: int, patience: int | None, expected: str) -> None:
    progress = TrainState(step=9000, best=2.345, best_step=6000, stale=stale)
    said = describe_stall(progress, monitor="loss", patience=patience)
    ago = "1 evaluation ago" if stale == 1 else f"{stale} evaluations ago"
    whole = f"validation has stopped improving: loss was best {ago}, 2.345 at step 6,000{expected}"
    assert said == (whole if expected else "")
