from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from heedful.training.optimizers import (
    ConstantSchedule,
    CosineSchedule,
    InverseSquareRootSchedule,
    LearningRateSchedule,
    LinearSchedule,
    NoamSchedule,
    PlateauSchedule,
    StepDecaySchedule,
    TimeBasedSchedule,
)


def noam(step: int, *, d_model: int, warmup: int) -> float:
    """Equation 3 of Vaswani et al. 2017, in logarithms."""
    rising = math.log(step) - 1.5 * math.log(warmup)
    return math.exp(-0.5 * math.log(d_model) + min(-0.5 * math.log(step), rising))


def test_noam_is_the_papers_equation() -> None:
    for _ in range(200):
        d_model, warmup, step = random.randint(1, 2048), random.randint(1, 5000), random.randint(1, 20_000)
        found = NoamSchedule(d_model, warmup, 1.7).get_rate(step)
        assert found == pytest.approx(1.7 * noam(step, d_model=d_model, warmup=warmup), rel=1e-12)


def test_the_papers_base_model_peaks_where_it_is_known_to() -> None:
    rates = [NoamSchedule(512, 4000).get_rate(step) for step in range(1, 10_000)]
    assert rates.index(max(rates)) + 1 == 4000
    assert max(rates) == pytest.approx(6.98771e-4, rel=1e-5)


def test_the_inverse_root_is_noam_with_its_peak_as_dial() -> None:
    noam = NoamSchedule(64, 300)
    same = InverseSquareRootSchedule(noam.get_rate(300), 300)
    assert all(same.get_rate(step) == pytest.approx(noam.get_rate(step), rel=1e-12) for step in range(1, 3000, 7))
    assert all(same.get_rate(4 * step) == pytest.approx(same.get_rate(step) / 2) for step in range(300, 1000, 50))


ALL: dict[str, Callable[[int], LearningRateSchedule]] = {
    "noam": lambda warmup: NoamSchedule(16, warmup, 3.0 / NoamSchedule(16, warmup).get_rate(warmup)),
    "inverse_sqrt": lambda warmup: InverseSquareRootSchedule(3.0, warmup),
    "cosine": lambda warmup: CosineSchedule(3.0, warmup, 1000, 0.5),
    "linear": lambda warmup: LinearSchedule(3.0, warmup, 1000),
    "constant": lambda warmup: ConstantSchedule(3.0, warmup),
    "step": lambda warmup: StepDecaySchedule(3.0, 300, 100, 0.5, warmup),
    "plateau": lambda warmup: PlateauSchedule(3.0, warmup),
}


@pytest.mark.parametrize("name", ALL)
def test_each_warms_up_in_even_steps_to_its_peak_and_never_passes_it(name: str) -> None:
    schedule = ALL[name](200)
    assert [schedule.get_rate(s) for s in range(1, 201)] == pytest.approx([3.0 * s / 200 for s in range(1, 201)])
    after = [schedule.get_rate(s) for s in range(200, 1500)]
    assert all(0 <= later <= earlier <= 3.0 + 1e-12 for earlier, later in pairwise(after))


@pytest.mark.parametrize("warmup", [0, 1, 40])
def test_the_cosine_turns_around_its_middle_and_ends_at_its_floor(warmup: int) -> None:
    schedule = CosineSchedule(2.0, warmup, warmup + 100, 0.25)
    middle = warmup + 50
    for distance in range(1, 50):
        assert schedule.get_rate(middle - distance) + schedule.get_rate(middle + distance) == pytest.approx(2.25)
    assert schedule.get_rate(warmup + 25) == pytest.approx(0.25 + 1.75 * (2 + math.sqrt(2)) / 4)
    assert [schedule.get_rate(warmup + s) for s in (100, 101, 5000)] == pytest.approx([0.25] * 3)


@pytest.mark.parametrize("warmup", [0, 1, 40])
def test_the_line_falls_evenly_to_nothing(warmup: int) -> None:
    schedule = LinearSchedule(2.0, warmup, warmup + 100)
    falls = [schedule.get_rate(warmup + s) - schedule.get_rate(warmup + s + 1) for s in range(1, 100)]
    assert falls == pytest.approx([0.02] * 99)
    assert [schedule.get_rate(warmup + s) for s in (100, 101, 5000)] == [0.0] * 3


def test_a_warm_up_longer_than_training_never_peaks() -> None:
    for schedule in (CosineSchedule(2.0, 100, 50), LinearSchedule(2.0, 100, 50)):
        assert schedule.get_rate(50) == pytest.approx(1.0)
    assert ConstantSchedule(2.0).get_rate(1) == 2.0


def test_by_the_clock_a_rate_goes_with_the_time_and_not_with_the_updates() -> None:
    line = TimeBasedSchedule(LinearSchedule(2.0, TimeBasedSchedule.TICKS // 10, TimeBasedSchedule.TICKS))
    for spent, rate in ((0.05, 1.0), (0.1, 2.0), (0.55, 1.0), (0.775, 0.5), (1.0, 0.0)):
        # a tick is a ten thousandth of the time, in which the rate rises by a thousandth of its peak
        assert [line.get_rate(step, time_fraction=spent) for step in (1, 7, 900)] == pytest.approx(
            [rate] * 3, abs=2.1e-3
        )
    assert line.get_rate(1) > 0


@pytest.mark.parametrize("schedule", [LinearSchedule(2.0, 10, 100), CosineSchedule(2.0, 10, 100, 0.5)])
def test_where_updates_and_time_are_limited_a_rate_goes_with_what_ends_first(
    schedule: LinearSchedule | CosineSchedule,
) -> None:
    for step in (1, 10, 11, 60, 100):
        assert schedule.get_rate(step, time_fraction=(step - 1) / 100) == schedule.get_rate(step), (
            "a clock that is behind says nothing"
        )
    assert schedule.get_rate(20, time_fraction=0.75) == schedule.get_rate(75)
    assert schedule.get_rate(20, time_fraction=1.0) == schedule.get_rate(100)


def test_by_the_clock_a_warm_up_is_still_counted_in_updates() -> None:
    wave = TimeBasedSchedule(CosineSchedule(2.0, 0, TimeBasedSchedule.TICKS, 0.5), 20)
    assert wave.get_rate(5, time_fraction=0.5) == pytest.approx((0.5 + 1.5 / 2) * 5 / 20, abs=1e-3)
    assert wave.get_rate(20, time_fraction=1.0) == wave.get_rate(500, time_fraction=1.0) == pytest.approx(0.5)


@pytest.mark.parametrize(("peak", "hold", "multiple"), [(1e-2, 10_000, 1.0), (0.5, 25, 2.5)])
def test_the_schedule_of_t5_holds_its_rate_and_then_falls(peak: float, hold: int, multiple: float) -> None:
    """Raffel et al. 2020, 3.1.2: 1/sqrt(max(n, k)), k = 10^4; Shazeer and Stern 2018, table 4: min(1e-2, 1/sqrt(t))."""
    schedule = InverseSquareRootSchedule(peak, 0, hold)
    for step in (1, 7, hold - 1, hold, hold + 1, 4 * hold, 77_777):
        assert schedule.get_rate(step) == pytest.approx(multiple / math.sqrt(max(step, hold)), rel=1e-12)


def test_a_warm_up_may_come_before_the_hold() -> None:
    schedule = InverseSquareRootSchedule(2.0, 10, 30)
    assert [schedule.get_rate(step) for step in (1, 5, 10, 11, 40, 160)] == pytest.approx([0.2, 1, 2, 2, 2, 1])
    assert [InverseSquareRootSchedule(2.0, 0).get_rate(step) for step in (1, 4)] == pytest.approx([2, 1])


def test_luongs_rate_is_halved_after_every_epoch_from_the_fifth_on() -> None:
    """Luong et al. 2015, 4.1: 10 epochs; after 5, the rate is halved every epoch."""
    updates = 7
    schedule = StepDecaySchedule(1.0, start=5 * updates, every=updates)
    rates = [schedule.get_rate(step) for step in range(1, 10 * updates + 1)]
    assert rates == [rate for rate in (1, 1, 1, 1, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32) for _ in range(updates)]


def test_a_plateau_is_reduced_by_its_factor_down_to_its_floor() -> None:
    schedule = PlateauSchedule(2.0, patience=3, factor=0.1, floor=0.05)
    assert [stale for stale in range(10) if schedule.is_reduced_after(stale)] == [3, 6, 9]
    assert [2.0 * schedule.get_reduction(count) for count in range(4)] == pytest.approx([2, 0.2, 0.05, 0.05])
    assert PlateauSchedule(1.0, floor=5.0).get_reduction(3) == 1.0, "a floor never raises the rate"
    others = [make(10) for name, make in ALL.items() if name != "plateau"]
    assert not any(other.is_reduced_after(stale) for other in others for stale in range(10))
