from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.errors import RunError, TrainingError
from heedful.training.callbacks import LossSum
from heedful.training.distributed import DistributedContext
from heedful.training.optimizers import (
    SGD,
    AdaDelta,
    Adafactor,
    LinearSchedule,
    PlateauSchedule,
    TimeBasedSchedule,
)
from heedful.training.trainer import StoppingLimits, TrainerConfig

Make = Callable[..., Any]


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def assert_close(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(tensor, second[name], rtol=1e-9, atol=1e-12)


# --- what an update is ------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [None, 0.05])
def test_accumulated_batches_are_the_big_batch(bench: Make, toy: Make, clip: float | None) -> None:
    """Batches of 1, 2 and 3 examples hold different numbers of labels; a mean of means would show."""
    found = []
    for size, accumulate in ((6, 1), (3, 2), (2, 3), (1, 6)):
        habits = TrainerConfig(accumulate=accumulate, clip=clip, evaluate_every=2)
        found.append(bench(toy(size=size), habits=habits, limits=StoppingLimits(steps=8)))
        found[-1].trainer.run()
    whole, *others = found
    for other in others:
        assert_close(whole.weights, other.weights)
        for a, b in zip(whole.diary.updates, other.diary.updates, strict=True):
            assert (a.loss, a.nll, a.gradient_norm) == pytest.approx((b.loss, b.nll, b.gradient_norm))
            assert (a.step, a.epoch, a.labels) == (b.step, b.epoch, b.labels)


@pytest.mark.parametrize("clip", [None, 0.01, 100.0])
def test_an_update_is_adams_step_on_the_mean_over_labels(bench: Make, toy: Make, clip: float | None) -> None:
    made = bench(toy(size=5), habits=TrainerConfig(clip=clip, evaluate_every=100), limits=StoppingLimits(steps=1))
    reference = bench(toy(size=5))
    total = reference.task.loss(reference.model, reference.task.plan_epoch(0)[0])
    mean = total.total / total.count
    mean.backward()
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in reference.model.parameters()))
    if clip is not None and norm > clip:
        for parameter in reference.model.parameters():
            parameter.grad *= clip / norm
    torch.optim.AdamW(
        [
            {"params": [p for p in reference.model.parameters() if p.dim() == 2], "weight_decay": 0.01},
            {"params": [p for p in reference.model.parameters() if p.dim() == 1], "weight_decay": 0.0},
        ],
        lr=0.01,
        betas=(0.9, 0.98),
        eps=1e-9,
    ).step()
    made.trainer.run()
    assert_close(made.weights, reference.weights)
    (update,) = made.diary.updates
    expected = (mean.item(), mean.item() / 2, norm, 0.01)
    assert (update.loss, update.nll, update.gradient_norm, update.rate) == pytest.approx(expected)
    assert update.labels == total.count


class Together(DistributedContext):
    """Threads that play processes: each sends tensors, and gets what all of them sent."""

    def __init__(self, rank: int, table: list[Any], *, meet: threading.Barrier) -> None:
        super().__init__(rank, len(table), torch.device("cpu"))
        self.__dict__ |= {"table": table, "meet": meet}

    def exchange(self, mine: Any) -> list[Any]:
        self.table[self.rank] = mine
        self.meet.wait()
        everyone = list(self.table)
        self.meet.wait()
        return everyone

    def all_reduce_(self, tensors: Iterable[Tensor]) -> None:
        mine = list(tensors)
        everyone = self.exchange([tensor.detach().clone() for tensor in mine])
        for number, tensor in enumerate(mine):
            tensor.copy_(torch.stack([each[number] for each in everyone]).sum(0))

    def broadcast(self, numbers: list[float]) -> list[float]:
        return list(self.exchange(numbers)[0])


@pytest.mark.parametrize("size", [2, 3, 5])
def test_processes_share_the_work_and_change_nothing(bench: Make, toy: Make, size: int) -> None:
    """Batches of four examples: some processes get two, one or none of them."""
    arguments = {"limits": StoppingLimits(steps=7), "habits": TrainerConfig(accumulate=2, clip=0.5, evaluate_every=3)}
    alone = bench(toy(size=4), **arguments)
    alone.trainer.run()
    table, meet = [None] * size, threading.Barrier(size, timeout=60)
    made = [bench(toy(size=4), world=Together(rank, table, meet=meet), **arguments) for rank in range(size)]
    run_together(made)
    leader, *others = made
    assert_close(leader.weights, alone.weights)
    assert all(same(leader.weights, other.weights) for other in others)
    losses = [[u.loss for u in each.diary.updates] for each in (alone, *made)]
    assert all(each == pytest.approx(losses[0]) for each in losses)
    assert [e.progress.step for e in leader.diary.evaluations] == [3, 6, 7]
    assert [len(each.diary.saved) for each in made] == [3] + [0] * (size - 1), "only the first one saves"
    assert all(each.trainer.progress == leader.trainer.progress for each in others)
    shares = sorted(row for each in made for batch in each.task.seen for row in batch)
    assert shares == sorted(row for batch in alone.task.seen for row in batch)


def run_together(made: list[Any]) -> None:
    threads = [threading.Thread(target=each.trainer.run) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(("size", "accumulate", "processes"), [(12, 1, 1), (4, 3, 1), (2, 6, 1), (4, 3, 2), (2, 6, 5)])
def test_parts_have_counts_of_their_own_however_a_batch_is_dealt_out(
    bench: Make, parted: Make, size: int, accumulate: int, processes: int
) -> None:
    """Some processes and some batches have nothing to tell of a part; a mean of means would show."""
    arguments = {"limits": StoppingLimits(steps=3), "habits": TrainerConfig(accumulate=accumulate, evaluate_every=100)}
    table, meet = [None] * processes, threading.Barrier(processes, timeout=60)
    worlds = [Together(rank, table, meet=meet) for rank in range(processes)] if processes > 1 else [None]
    made = [bench(parted(size=size), world=each, **arguments) for each in worlds]
    run_together(made)
    for each in made:
        for update in each.diary.updates:
            assert update.parts.keys() == {"nll", "third"}, "what was never asked has no mean"
            assert update.parts["third"] == LossSum(0 + 3 + 6 + 9, 4)
            assert update.parts["nll"].mean == update.nll
            assert update.parts["nll"].count == update.labels == sum(1 + row % 5 for row in range(12))


def test_an_update_names_its_task(bench: Make, parted: Make) -> None:
    made = bench(parted(size=5), limits=StoppingLimits(steps=3))
    made.trainer.run()
    assert [update.task for update in made.diary.updates] == ["odd", "odd", ""]


def test_a_part_that_the_task_does_not_announce_is_its_authors_mistake(bench: Make, parted: Make) -> None:
    made = bench(parted(size=12), limits=StoppingLimits(steps=1))
    made.task.part_names = frozenset({"never"})
    with pytest.raises(AssertionError, match=r"the task does not announce \['third'\]"):
        made.trainer.run()


@pytest.mark.parametrize("size", [2, 5])
def test_the_task_hears_in_every_process_what_all_of_them_learned(bench: Make, remembering: Make, size: int) -> None:
    arguments = {"limits": StoppingLimits(steps=6), "habits": TrainerConfig(accumulate=2, evaluate_every=100)}
    alone = bench(remembering(size=4), **arguments)
    alone.trainer.run()
    table, meet = [None] * size, threading.Barrier(size, timeout=60)
    made = [bench(remembering(size=4), world=Together(rank, table, meet=meet), **arguments) for rank in range(size)]
    run_together(made)
    assert alone.task.told == [update.nll for update in alone.diary.updates]
    assert len(alone.task.told) == 6
    for each in made:
        assert each.task.told == made[0].task.told == pytest.approx(alone.task.told)
        assert_close(each.weights, alone.weights)


@pytest.mark.parametrize("deaf", [0, 1])
def test_a_signal_to_any_process_stops_all_of_them(bench: Make, toy: Make, deaf: int) -> None:
    table, meet = [None, None], threading.Barrier(2, timeout=60)
    made = [bench(toy(size=4), world=Together(rank, table, meet=meet)) for rank in range(2)]
    heard = made[1 - deaf].trainer
    look_up = heard._sync_signal_and_time
    heard._sync_signal_and_time = lambda signal: look_up(15 if heard.progress.step == 2 else signal)
    ends: list[int] = []
    threads = [threading.Thread(target=lambda each=each: ends.append(each.trainer.run())) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [15, 15]
    assert [(s.progress.step, e) for s, e in made[0].diary.saved] == [(2, None)]


def test_a_rate_by_the_clock_reaches_its_end_with_the_time(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    schedule = TimeBasedSchedule(LinearSchedule(1.0, 0, TimeBasedSchedule.TICKS))
    made = bench(schedule=schedule, limits=StoppingLimits(minutes=1.0), habits=TrainerConfig(evaluate_every=1000))

    def pass_time(_: int) -> None:
        clock[0] += 10

    made.task.before_loss = pass_time
    made.trainer.run()
    assert [u.rate for u in made.diary.updates] == pytest.approx([1 - each / 6 for each in range(6)], abs=2e-4)


def test_the_rate_is_the_schedules(bench: Make) -> None:
    made = bench(schedule=LinearSchedule(0.5, 3, 10))
    made.trainer.run()
    assert [u.rate for u in made.diary.updates] == [LinearSchedule(0.5, 3, 10).get_rate(step) for step in range(1, 11)]


def test_same_seed_same_weights_and_another_seed_another_dropout(bench: Make) -> None:
    def weights(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(torch.seed() % 2**31)  # what happened before must not matter
        made = bench(dropout=0.5, habits=TrainerConfig(seed=seed, evaluate_every=3))
        made.trainer.run()
        return dict(made.weights)

    assert same(weights(1), weights(1))
    assert not same(weights(1), weights(2))


# --- when it ends -----------------------------------------------------------------------------------------


def test_every_example_once_an_epoch_also_where_batches_do_not_go_round(bench: Make, toy: Make) -> None:
    made = bench(toy(size=5), limits=StoppingLimits(epochs=3), habits=TrainerConfig(accumulate=2, evaluate_every=100))
    assert made.trainer.run() == 0
    assert [u.epoch for u in made.diary.updates] == [0, 0, 1, 1, 2, 2], "three batches make two updates"
    rows = [row for batch in made.task.seen for row in batch]
    assert [sorted(rows[start : start + 12]) for start in (0, 12, 24)] == [list(range(12))] * 3
    assert made.trainer.progress.labels == 3 * sum(1 + i % 5 for i in range(12))


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        (StoppingLimits(steps=7), 7),
        (StoppingLimits(steps=7, epochs=1), 6),
        (StoppingLimits(steps=5, epochs=1), 5),
        (StoppingLimits(epochs=1, min_steps=8), 8),
        (StoppingLimits(epochs=2, min_steps=8), 12),
        (StoppingLimits(steps=7, epochs=1, min_steps=100), 7),
        (StoppingLimits(steps=100, minutes=0.5), 3),
        (StoppingLimits(minutes=1.0), 6),
        (StoppingLimits(steps=2, minutes=1.0), 2),
    ],
)
def test_whatever_is_over_first_ends_it(
    bench: Make, monkeypatch: pytest.MonkeyPatch, limits: StoppingLimits, steps: int
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    made = bench(limits=limits, habits=TrainerConfig(evaluate_every=1000))

    def pass_time(_: int) -> None:
        clock[0] += 10

    made.task.before_loss = pass_time
    made.trainer.run()
    assert len(made.diary.updates) == steps
    assert [e.progress.step for e in made.diary.evaluations] == [steps]
    assert made.diary.saved[-1][0].progress.step == steps


def test_time_before_a_resumption_counts(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    made = bench(limits=StoppingLimits(minutes=1.0), habits=TrainerConfig(evaluate_every=1000))
    made.trainer.progress = replace(made.trainer.progress, seconds=30.0)

    def pass_time(_: int) -> None:
        clock[0] += 10

    made.task.before_loss = pass_time
    made.trainer.run()
    assert len(made.diary.updates) == 3


@pytest.mark.parametrize("higher", [False, True])
def test_patience_counts_evaluations_without_a_new_best(bench: Make, toy: Make, higher: bool) -> None:
    values = [5.0, 4.0, 4.5, 3.0, 3.0, 3.5, 9.0, 1.0]
    scripted: Iterator[float] = iter([-v for v in values] if higher else values)
    habits = TrainerConfig(evaluate_every=2, monitor="score", higher_is_better=higher)
    made = bench(toy(metric=lambda _: next(scripted)), limits=StoppingLimits(steps=1000, patience=3), habits=habits)
    made.trainer.run()
    assert [e.improved for e in made.diary.evaluations] == [True, True, False, True, False, False, False]
    progress = made.trainer.progress
    assert (progress.step, progress.best, progress.best_step) == (14, -3.0 if higher else 3.0, 8)
    assert next(scripted) == (-1.0 if higher else 1.0), "nothing was measured after patience was lost"


def test_evaluations_come_on_time_and_once(bench: Make) -> None:
    made = bench(limits=StoppingLimits(steps=10), habits=TrainerConfig(evaluate_every=4))
    made.trainer.run()
    assert [e.progress.step for e in made.diary.evaluations] == [4, 8, 10]
    assert [s.progress.step for s, _ in made.diary.saved] == [4, 8, 10]
    assert all(e is not None for _, e in made.diary.saved)
    made.trainer.run()
    assert len(made.diary.evaluations) == 3, "what is finished is not measured again"


# --- what must not happen ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_stops_before_it_does_harm(bench: Make, value: float) -> None:
    made = bench()
    made.task.spoil = lambda call: value if call == 7 else 1.0
    before: list[dict[str, Tensor]] = []
    made.task.before_loss = lambda _: before.append(made.weights)
    with pytest.raises(TrainingError, match=r"update 7: the loss is not finite; lower the learning rate \(now 0\.01\)"):
        made.trainer.run()
    assert same(made.weights, before[-1])
    assert [s.progress.step for s, _ in made.diary.saved] == [4]
    assert len(made.diary.updates) == 6


def test_a_gradient_that_is_not_finite_stops_too(bench: Make) -> None:
    class Cliff(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, *upstream: Tensor) -> Tensor:
            return upstream[0] * math.inf

    made = bench()
    loss = made.task.loss

    def cliff(model: nn.Module, batch: Any) -> Any:
        found = loss(model, batch)
        return replace(found, total=Cliff.apply(found.total)) if made.task.calls == 3 else found

    made.task.loss = cliff
    with pytest.raises(TrainingError, match="update 3: the gradient is not finite"):
        made.trainer.run()
    assert not made.diary.saved


@pytest.mark.parametrize(("value", "higher"), [(math.nan, False), (-math.inf, False), (math.inf, True)])
def test_a_metric_that_is_not_finite_never_becomes_best(bench: Make, toy: Make, value: float, higher: bool) -> None:
    scripted = iter([2.0, value])
    habits = TrainerConfig(evaluate_every=2, monitor="score", higher_is_better=higher)
    made = bench(toy(metric=lambda _: next(scripted)), habits=habits)
    with pytest.raises(TrainingError, match="update 4: a metric on the validation set is not finite"):
        made.trainer.run()
    assert [e.progress.step for e in made.diary.evaluations] == [2]
    assert [s.progress.best for s, _ in made.diary.saved] == [2.0]


def test_weights_that_are_not_finite_are_never_saved(bench: Make, toy: Make) -> None:
    made = bench(toy(), habits=TrainerConfig(evaluate_every=100), limits=StoppingLimits(steps=3))
    made.task.evaluate = lambda _: {"loss": 1.0, "score": 1.0}

    def spoil(_: Any) -> None:
        with torch.no_grad():
            made.model[0].bias[0] = math.nan

    made.diary.on_evaluate = spoil
    with pytest.raises(TrainingError, match="update 3: a weight is not finite"):
        made.trainer.run()
    assert not made.diary.saved


# --- the running average ----------------------------------------------------------------------------------


def test_the_running_average_is_what_is_measured_and_saved(bench: Make, toy: Make) -> None:
    measured: list[dict[str, Tensor]] = []

    def measure(model: nn.Module) -> float:
        measured.append({name: p.detach().clone() for name, p in model.named_parameters()})
        return 0.0

    plain = bench(limits=StoppingLimits(steps=8))
    made = bench(toy(metric=measure), ema=0.8, limits=StoppingLimits(steps=8))
    seen: list[dict[str, Tensor]] = []
    made.task.before_loss = lambda _: seen.append(made.weights)
    plain.trainer.run()
    made.trainer.run()
    assert same(made.weights, plain.weights), "the average looks on and changes nothing"
    weights, training = made.diary.saved[-1][0].weights, made.diary.saved[-1][0].training
    assert same(dict(weights), measured[-1])
    assert not same(dict(weights), made.weights)
    assert same({n.removeprefix("master."): t for n, t in training.items() if n.startswith("master.")}, made.weights)


# --- going on ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("ema", [None, 0.7])
@pytest.mark.parametrize("accumulate", [1, 4])
def test_going_on_from_any_checkpoint_is_as_if_nothing_happened(
    bench: Make, half: bool, ema: float | None, accumulate: int
) -> None:
    """With dropout, in the middle of an epoch, and where the last updates of an epoch have fewer batches."""
    arguments = {
        "half": half,
        "ema": ema,
        "dropout": 0.3,
        "habits": TrainerConfig(accumulate=accumulate, evaluate_every=3),
        "limits": StoppingLimits(steps=11),
    }
    whole = bench(**arguments)
    whole.trainer.run()
    for snapshot, _ in whole.diary.saved[:-1]:
        later = bench(**arguments)
        with torch.no_grad():
            for master in later.trainer.precision.masters.values():
                master.add_(1)  # nothing of the fresh start may be left
        later.trainer.restore(snapshot)
        later.trainer.run()
        assert same(later.weights, whole.weights)
        last, expected = later.diary.saved[-1][0], whole.diary.saved[-1][0]
        assert same(dict(last.weights), dict(expected.weights))
        assert same(dict(last.training), dict(expected.training))
        assert replace(last.progress, seconds=0) == replace(expected.progress, seconds=0)


@pytest.mark.parametrize(
    ("prefix", "optimizer"),
    [("sgd", partial(SGD, momentum=0.9, nesterov=True)), ("adadelta", AdaDelta), ("adafactor", Adafactor)],
)
def test_every_optimizer_goes_on_from_any_checkpoint(bench: Make, prefix: str, optimizer: Callable[..., Any]) -> None:
    arguments = {"half": True, "dropout": 0.3, "optimizer": optimizer, "habits": TrainerConfig(evaluate_every=3)}
    whole = bench(**arguments)
    whole.trainer.run()
    for snapshot, _ in whole.diary.saved[:-1]:
        assert snapshot.training
        assert {name.partition(".")[0] for name in snapshot.training} == {prefix}
        later = bench(**arguments)
        later.trainer.restore(snapshot)
        later.trainer.run()
        assert same(later.weights, whole.weights)
        assert same(dict(later.diary.saved[-1][0].training), dict(whole.diary.saved[-1][0].training))


@pytest.mark.parametrize("higher", [False, True])
def test_a_plateau_reduces_the_rate_also_after_a_resumption(bench: Make, toy: Make, higher: bool) -> None:
    """Two evaluations without a new best reduce the rate; one in which the best is reached again is no new best."""
    values = [5.0, 4.0, 4.5, 4.0, 3.0, 3.5, 9.0, 3.2, 3.1, 3.0]
    signed = [-value if higher else value for value in values]

    def make(used: int) -> Any:
        scripted = iter(signed[used:])
        return bench(
            toy(metric=lambda _: next(scripted)),
            schedule=PlateauSchedule(0.5, patience=2, factor=0.1),
            habits=TrainerConfig(evaluate_every=1, monitor="score", higher_is_better=higher),
            limits=StoppingLimits(steps=9),
        )

    whole = make(0)
    whole.trainer.run()
    rates = [update.rate for update in whole.diary.updates]
    assert rates == pytest.approx([0.5] * 4 + [0.05] * 3 + [0.005] * 2)
    for used, (snapshot, _) in enumerate(whole.diary.saved[:-1], 1):
        later = make(used)
        later.trainer.restore(snapshot)
        later.trainer.run()
        assert [update.rate for update in later.diary.updates] == rates[snapshot.progress.step :]
        assert later.trainer.progress.reductions == whole.trainer.progress.reductions == 3


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        ("weights", "0.bias", r"w: 0\.bias is float64 of shape \(1,\), this run needs float64 of shape \(8,\)"),
        ("training", "master.0.bias", r"t: master\.0\.bias is float64 of shape \(1,\)"),
        ("training", "adam.0.bias.exp_avg", r"t: adam\.0\.bias\.exp_avg is float64 of shape \(1,\)"),
        ("training", "task.past", r"t: task\.past is float64 of shape \(1,\), this run needs float64 of shape \(\)"),
    ],
)
def test_a_snapshot_of_another_shape_is_refused_before_anything_changes(
    bench: Make, remembering: Make, kind: str, name: str, sentence: str
) -> None:
    """A tensor of one number would silently be spread over a parameter of any shape."""
    arguments = {"ema": 0.7, "limits": StoppingLimits(steps=3)}
    whole = bench(remembering(), **arguments)
    whole.trainer.run()
    snapshot = whole.diary.saved[-1][0]
    tensors = dict(getattr(snapshot, kind))
    tensors[name] = tensors[name].flatten()[:1].clone()
    later = bench(remembering(), **arguments)
    before = later.weights
    with pytest.raises(RunError, match=sentence):
        later.trainer.restore(replace(snapshot, file_names=("w", "t"), **{kind: tensors}))
    assert same(later.weights, before)
    assert (later.trainer.progress.step, later.task.past) == (0, 0.0)
    del tensors[name]
    with pytest.raises(RunError, match=rf": has no {name}, which this run needs; restore it from a copy or train"):
        later.trainer.restore(replace(snapshot, **{kind: tensors}))


def test_what_a_task_remembers_is_saved_and_taken_up(bench: Make, remembering: Make) -> None:
    arguments = {"ema": 0.7, "limits": StoppingLimits(steps=9), "habits": TrainerConfig(evaluate_every=4)}
    whole = bench(remembering(), **arguments)
    whole.trainer.run()
    for snapshot, _ in whole.diary.saved[:-1]:
        later = bench(remembering(), **arguments)
        later.trainer.restore(snapshot)
        later.trainer.run()
        assert later.task.told == whole.task.told[snapshot.progress.step :]
        assert same(later.weights, whole.weights)
        assert same(dict(later.diary.saved[-1][0].training), dict(whole.diary.saved[-1][0].training))
    assert float(whole.diary.saved[-1][0].training["task.past"]) == whole.task.past
