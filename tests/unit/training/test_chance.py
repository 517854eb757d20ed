"""What dropout draws is a function of seed, update and process, and of nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.training.optimizers import ConstantSchedule
from heedful.training.trainer import StoppingLimits, TrainerConfig, _combine_seeds

Make = Callable[..., Any]


def losses(bench: Make, task: Any, *, dropout: float, seed: int = 1, evaluate_every: int = 100) -> list[float]:
    """Of updates that change nothing, on the same batch each time: only what is dropped can differ."""
    task.plan_epoch = lambda _epoch: [np.arange(12)]
    habits = TrainerConfig(seed=seed, evaluate_every=evaluate_every)
    made = bench(task, dropout=dropout, schedule=ConstantSchedule(0.0), limits=StoppingLimits(steps=6), habits=habits)
    made.trainer.run()
    return [update.loss for update in made.diary.updates]


def test_every_update_drops_other_entries(bench: Make, toy: Make) -> None:
    calm = losses(bench, toy(), dropout=0.0)
    assert len(set(calm)) == 1
    wild = losses(bench, toy(), dropout=0.5)
    assert len({*wild, calm[0]}) == 7
    assert losses(bench, toy(), dropout=0.5) == wild
    assert not set(losses(bench, toy(), dropout=0.5, seed=2)) & set(wild)


def test_evaluations_neither_end_dropout_nor_change_it(bench: Make, toy: Make) -> None:
    assert losses(bench, toy(), dropout=0.5, evaluate_every=1) == losses(bench, toy(), dropout=0.5)


def test_seeds_of_neighbours_are_unrelated_and_stay_the_same_for_good() -> None:
    seeds = {_combine_seeds(*numbers) for numbers in itertools.product(range(12), repeat=3)}
    assert len(seeds) == 12**3
    assert all(0 <= seed < 2**63 for seed in seeds)
    bits = np.array(
        [[seed >> bit & 1 for bit in range(63)] for seed in sorted(_combine_seeds(1, n, 0) for n in range(400))]
    )
    assert np.abs(bits[:, :40].mean(0) - 0.5).max() < 0.15
    assert _combine_seeds(1, 23, 0) != _combine_seeds(12, 3, 0)
    assert _combine_seeds(1, 2, 3) == 1540937338477698060, (
        "runs that are gone on with would drop other entries than before"
    )


def test_a_mean_gradient_within_the_limit_is_left_alone(bench: Make, toy: Make) -> None:
    """However long the sum over labels is; Adam itself would hide the difference, so gradients are looked at."""

    def first(clip: float | None) -> tuple[float, list[Tensor]]:
        made = bench(toy(size=12), habits=TrainerConfig(clip=clip, evaluate_every=100), limits=StoppingLimits(steps=1))
        made.trainer.run()
        moments = made.trainer.optimizer.state_dict()
        return made.diary.updates[0].gradient_norm, [m for name, m in moments.items() if name.endswith("exp_avg")]

    norm, free = first(None)
    for clip, share in ((1.001 * norm, 1.0), (norm / 2, 0.5), (norm / 100, 0.01)):
        again, clipped = first(clip)
        assert again == pytest.approx(norm)
        for one, other in zip(clipped, free, strict=True):
            torch.testing.assert_close(one, share * other)
