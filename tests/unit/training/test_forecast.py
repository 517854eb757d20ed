from __future__ import annotations

from typing import Any

import pytest

from heedful.training.forecast import Forecast, duration
from heedful.training.listeners import Evaluation, Plan, Progress, Update
from heedful.training.trainer import Habits, Limits, Trainer


def update(step: int, *, seconds: float, elapsed: float) -> Update:
    return Update(step, 0, 2.0, 2.0, 0.1, 1.0, 300, seconds, examples=12, elapsed=elapsed)


def after(
    limits: Limits,
    *,
    updates: int = 10,
    per_update: float = 2.0,
    first: float | None = None,
    pause: float = 0.0,
    evaluate_every: int = 5,
    plan: Plan | None = None,
) -> Forecast:
    """What is known after so many updates, and the evaluations among them."""
    begun = plan or Plan(Progress(), updates=20, done=0, batches=20, examples=240, evaluate_every=evaluate_every)
    known, clock = Forecast(limits).planned(begun), begun.progress.seconds
    for step in range(begun.progress.step + 1, begun.progress.step + updates + 1):
        took = first if first is not None and step == begun.progress.step + 1 else per_update
        clock += took
        known = known.updated(update(step, seconds=took, elapsed=clock))
        if step % evaluate_every == 0:
            clock += pause
            known = known.evaluated(Evaluation(Progress(step=step, stale=1), {"loss": 1.0}, False, pause / 2))
    return known


@pytest.mark.parametrize(
    ("limits", "updates", "limit"),
    [
        (Limits(steps=110), 100, "steps"),
        (Limits(epochs=3), 50, "epochs"),
        (Limits(steps=40, epochs=3), 30, "steps"),
        (Limits(steps=100, epochs=3), 50, "epochs"),
        (Limits(epochs=3, min_steps=80), 70, "epochs"),
        (Limits(steps=70, epochs=3, min_steps=80), 60, "steps"),
        (Limits(minutes=5), 140, "minutes"),
        (Limits(minutes=5, steps=150), 140, "steps"),
        (Limits(minutes=5, steps=151), 140, "minutes"),
    ],
)
def test_whichever_limit_is_over_first_ends_it(limits: Limits, updates: int, limit: str) -> None:
    """After ten updates of two seconds."""
    ending = after(limits).ending()
    assert ending is not None
    assert (ending.updates, ending.limit, ending.seconds) == (updates, limit, pytest.approx(2 * updates))


def test_a_run_that_goes_on_has_less_left() -> None:
    """In the second epoch, of which three updates are done; the minutes of earlier sittings count."""
    progress = Progress(step=23, epoch=1, position=3, seconds=200)
    plan = Plan(progress, updates=20, done=3, batches=20, examples=240, evaluate_every=5)
    by_epochs, by_minutes = (after(each, plan=plan).ending() for each in (Limits(epochs=3), Limits(minutes=4)))
    assert by_epochs is not None
    assert by_minutes is not None
    assert by_epochs.updates == 60 - 33
    assert by_minutes.seconds == pytest.approx(240 - 200 - 20)


def test_evaluations_take_their_time_too() -> None:
    """As long as the last one did with its checkpoint, not only its metrics."""
    known = after(Limits(steps=111), updates=11, pause=30.0)
    ending = known.ending()
    assert known.pause == pytest.approx(30)
    assert ending is not None
    assert ending.seconds == pytest.approx(100 * 2 + 21 * 30), "at 15, 20 and so on to 110, and at the end"
    assert known.until_evaluation == pytest.approx(4 * 2)
    fresh = after(Limits(steps=111), updates=10, pause=30.0, evaluate_every=10)
    assert fresh.pause == pytest.approx(15), "before the next update, as long as measuring took"


def test_the_first_update_is_left_out() -> None:
    """It warms up what all others use."""
    known = after(Limits(steps=30), first=100.0)
    assert known.per_update == pytest.approx(2)
    assert known.labels_per_second == pytest.approx(150)
    assert known.examples_per_second == pytest.approx(6)


def test_nothing_is_told_before_it_is_known() -> None:
    assert after(Limits(steps=30), updates=1).ending() is None
    assert after(Limits(steps=30), updates=1).left() == ""
    assert Forecast(Limits(epochs=2)).updated(update(1, seconds=1, elapsed=1)).left() == ""


def test_patience_may_end_it_earlier() -> None:
    assert after(Limits(steps=3910)).left() == "2 h 10 min left"
    assert after(Limits(steps=3910, patience=4)).left() == "at most 2 h 10 min left (patience 1/4)"


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
    assert duration(seconds) == told


def test_a_trainer_tells_what_each_epoch_holds(bench: Any) -> None:
    """Twelve examples in batches of two, two batches for an update; a run that goes on begins behind the third."""

    def plans(trainer: Trainer[Any], diary: Any) -> list[Plan]:
        noted: list[Plan] = []
        diary.planned = noted.append
        trainer.run()
        return noted

    whole = bench(limits=Limits(epochs=2), habits=Habits(accumulate=2, evaluate_every=2))
    found = plans(whole.trainer, whole.diary)
    assert [(each.progress.epoch, each.updates, each.done, each.batches, each.examples) for each in found] == [
        (0, 3, 0, 6, 12),
        (1, 3, 0, 6, 12),
    ]
    assert [each.examples for each in whole.diary.updates] == [4] * 6
    clock = [each.elapsed for each in whole.diary.updates]
    assert clock == sorted(clock)
    again = bench(limits=Limits(epochs=2), habits=Habits(accumulate=2, evaluate_every=2))
    again.trainer.restore(whole.diary.saved[1][0])
    (rest,) = plans(again.trainer, again.diary)
    assert (rest.progress.step, rest.progress.epoch, rest.updates, rest.done) == (4, 1, 3, 1)
