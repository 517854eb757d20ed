from __future__ import annotations

from typing import Any

import pytest

from heedful.training.callbacks import EpochPlan, StepMetrics, TrainState, ValidationResult
from heedful.training.eta import TrainingForecast, format_duration
from heedful.training.trainer import StoppingLimits, Trainer, TrainerConfig


def update(step: int, *, seconds: float, elapsed: float) -> StepMetrics:
    return StepMetrics(step, 0, 2.0, 2.0, 0.1, 1.0, 300, seconds, examples=12, elapsed=elapsed)


def after(
    limits: StoppingLimits,
    *,
    updates: int = 10,
    per_update: float = 2.0,
    first: float | None = None,
    pause: float = 0.0,
    evaluate_every: int = 5,
    plan: EpochPlan | None = None,
) -> TrainingForecast:
    """What is known after so many updates, and the evaluations among them."""
    begun = plan or EpochPlan(TrainState(), updates=20, done=0, batches=20, examples=240, evaluate_every=evaluate_every)
    known, clock = TrainingForecast(limits).with_plan(begun), begun.progress.seconds
    for step in range(begun.progress.step + 1, begun.progress.step + updates + 1):
        took = first if first is not None and step == begun.progress.step + 1 else per_update
        clock += took
        known = known.with_update(update(step, seconds=took, elapsed=clock))
        if step % evaluate_every == 0:
            clock += pause
            known = known.with_evaluation(
                ValidationResult(TrainState(step=step, stale=1), {"loss": 1.0}, False, pause / 2)
            )
    return known


@pytest.mark.parametrize(
    ("limits", "updates", "limit"),
    [
        (StoppingLimits(steps=110), 100, "steps"),
        (StoppingLimits(epochs=3), 50, "epochs"),
        (StoppingLimits(steps=40, epochs=3), 30, "steps"),
        (StoppingLimits(steps=100, epochs=3), 50, "epochs"),
        (StoppingLimits(epochs=3, min_steps=80), 70, "epochs"),
        (StoppingLimits(steps=70, epochs=3, min_steps=80), 60, "steps"),
        (StoppingLimits(minutes=5), 140, "minutes"),
        (StoppingLimits(minutes=5, steps=150), 140, "steps"),
        (StoppingLimits(minutes=5, steps=151), 140, "minutes"),
    ],
)
def test_whichever_limit_is_over_first_ends_it(limits: StoppingLimits, updates: int, limit: str) -> None:
    """After ten updates of two seconds."""
    ending = after(limits).estimate_end()
    assert ending is not None
    assert (ending.updates, ending.limit, ending.seconds) == (updates, limit, pytest.approx(2 * updates))


def test_a_run_that_goes_on_has_less_left() -> None:
    """In the second epoch, of which three updates are done; the minutes of earlier sittings count."""
    progress = TrainState(step=23, epoch=1, position=3, seconds=200)
    plan = EpochPlan(progress, updates=20, done=3, batches=20, examples=240, evaluate_every=5)
    by_epochs, by_minutes = (
        after(each, plan=plan).estimate_end() for each in (StoppingLimits(epochs=3), StoppingLimits(minutes=4))
    )
    assert by_epochs is not None
    assert by_minutes is not None
    assert by_epochs.updates == 60 - 33
    assert by_minutes.seconds == pytest.approx(240 - 200 - 20)


def test_evaluations_take_their_time_too() -> None:
    """As long as the last one did with its checkpoint, not only its metrics."""
    known = after(StoppingLimits(steps=111), updates=11, pause=30.0)
    ending = known.estimate_end()
    assert known.evaluation_seconds == pytest.approx(30)
    assert ending is not None
    assert ending.seconds == pytest.approx(100 * 2 + 21 * 30), "at 15, 20 and so on to 110, and at the end"
    assert known.seconds_to_evaluation == pytest.approx(4 * 2)
    fresh = after(StoppingLimits(steps=111), updates=10, pause=30.0, evaluate_every=10)
    assert fresh.evaluation_seconds == pytest.approx(15), "before the next update, as long as measuring took"


def test_the_first_update_is_left_out() -> None:
    """It warms up what all others use."""
    known = after(StoppingLimits(steps=30), first=100.0)
    assert known.seconds_per_update == pytest.approx(2)
    assert known.labels_per_second == pytest.approx(150)
    assert known.examples_per_second == pytest.approx(6)


def test_nothing_is_told_before_it_is_known() -> None:
    assert after(StoppingLimits(steps=30), updates=1).estimate_end() is None
    assert after(StoppingLimits(steps=30), updates=1).format_time_left() == ""
    assert (
        TrainingForecast(StoppingLimits(epochs=2)).with_update(update(1, seconds=1, elapsed=1)).format_time_left() == ""
    )


def test_patience_may_end_it_earlier() -> None:
    assert after(StoppingLimits(steps=3910)).format_time_left() == "2 h 10 min left"
    assert after(StoppingLimits(steps=3910, patience=4)).format_time_left() == "at most 2 h 10 min left (patience 1/4)"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (41.6, "42 s"),
        (89.9, "90 s"),
        (91, "2 min"),
        (59.4 * 60, "59 min"),
        (59.6 * 60, "1 h"),
        (7799, "2 h 10 min"),
        (47 * 3600, "47 h"),
        (48 * 3600, "2 days"),
        (76 * 3600, "3 days 4 h"),
    ],
)
def test_hours_are_told_where_it_is_hours(seconds: float, told: str) -> None:
    assert format_duration(seconds) == told


def test_a_trainer_tells_what_each_epoch_holds(bench: Any) -> None:
    """Twelve examples in batches of two, two batches for an update; a run that goes on begins behind the third."""

    def plans(trainer: Trainer[Any], diary: Any) -> list[EpochPlan]:
        noted: list[EpochPlan] = []
        diary.on_epoch_begin = noted.append
        trainer.run()
        return noted

    whole = bench(limits=StoppingLimits(epochs=2), habits=TrainerConfig(accumulate=2, evaluate_every=2))
    found = plans(whole.trainer, whole.diary)
    assert [(each.progress.epoch, each.updates, each.done, each.batches, each.examples) for each in found] == [
        (0, 3, 0, 6, 12),
        (1, 3, 0, 6, 12),
    ]
    assert [each.examples for each in whole.diary.updates] == [4] * 6
    clock = [each.elapsed for each in whole.diary.updates]
    assert clock == sorted(clock)
    again = bench(limits=StoppingLimits(epochs=2), habits=TrainerConfig(accumulate=2, evaluate_every=2))
    again.trainer.restore(whole.diary.saved[1][0])
    (rest,) = plans(again.trainer, again.diary)
    assert (rest.progress.step, rest.progress.epoch, rest.updates, rest.done) == (4, 1, 3, 1)
