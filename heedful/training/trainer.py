"""The loop: batches in, updates out; ignorant of models and of text."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from signal import SIGTERM
from typing import Any, Generic

import torch
from torch import Tensor, nn

from heedful.errors import TrainingError
from heedful.tasks.task import Batch, Loss, Rows, Task
from heedful.training.distributed import World, alone
from heedful.training.history import History
from heedful.training.interruption import interruption
from heedful.training.keepers import KeepNothing
from heedful.training.listeners import Evaluation, Keeper, Listener, Plan, Progress, Snapshot, Update
from heedful.training.optimizers import Adam, MovingAverage, Optimizer
from heedful.training.precision import Exact, Precision
from heedful.training.restoring import require_alike
from heedful.training.schedules import InverseSquareRoot, Schedule
from heedful.training.sums import Tally, scaled, summed


@dataclass(frozen=True)
class Limits:
    """When training ends, whichever comes first; None is no limit.

    Attributes:
        steps: updates.
        epochs: passes over what is learned from; further ones are begun until there were `min_steps` updates.
        minutes: on the clock.
        patience: evaluations without a new best.
        min_steps: see `epochs`.
    """

    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    patience: int | None = None
    min_steps: int = 0


@dataclass(frozen=True)
class Habits:
    """How training goes on from update to update.

    Attributes:
        seed: of dropout; the order of data is the task's.
        accumulate: batches summed into one update.
        clip: largest gradient norm; longer gradients are shortened to it (Pascanu et al. 2013). None leaves them.
        evaluate_every: updates between evaluations, each followed by a checkpoint.
        monitor: the metric whose best checkpoint is kept.
        higher_is_better: of that metric.
    """

    seed: int = 1
    accumulate: int = 1
    clip: float | None = None
    evaluate_every: int = 1000
    monitor: str = "loss"
    higher_is_better: bool = False


class Trainer(Generic[Batch]):
    """Trains a model on a task; the same seed, machine and number of threads give the same weights.

    The gradient of an update is the sum over all labels of its batches divided by their number, whatever the number of
    accumulated batches and processes, so both leave the mathematics alone.

    `Trainer(model, task, steps=1000).run()` is all that a loop of one's own needs; whatever is left out is:

    - `device`: the place where the task's batches are. An `ExampleTask` takes a GPU where there is one, a `CorpusTask`
      the device it was made with; others go where the model is. The model is moved there.
    - `precision`: fp32 (`Exact`).
    - `optimizer`: `Adam` with betas 0.9 and 0.98, without weight decay, of all parameters that want a gradient.
    - `schedule`: a rate that rises to 1e-3 in a tenth of `steps`, at most 4,000 (in 1,000 updates where nobody says how
      many there will be), and then falls with the root of the step.
    - `habits`: those of `Habits`, but that there are ten evaluations, as far as `steps` says when.
    - `listener`: a `History` that prints a line for each evaluation.
    - `keeper`: none; the model has the weights of the last update. `KeepBest` keeps the best.

    Args:
        model: learns; its parameters are changed in place.
        task: data, loss and metrics.
        steps: updates; says the same as `Limits(steps=...)`.
        limits: when training ends; with `steps` whichever comes first.
        device: where to compute; not to be given with a `world`, which has one.
        precision: made of the model on its device, such as `Half(model)` for bf16.
        optimizer: over `precision.trainable`.
        schedule: the learning rate of each update.
        world: which of several processes this is; see `heedful.training.distributed.world`.
        habits: seed, accumulation, clipping, evaluations.
        listener: told of updates and evaluations.
        keeper: given a snapshot after each evaluation.
        average: running average of the weights, which is then what is evaluated and kept.

    Attributes:
        progress: how far it is; `best` and `best_step` tell of the monitored metric.

    Raises:
        TrainingError: nothing says when training ends; the monitored metric is none of the task's; several processes
            were started and no `world` was given.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task[Batch],
        *,
        steps: int | None = None,
        limits: Limits | None = None,
        device: str | torch.device | None = None,
        precision: Precision | None = None,
        optimizer: Optimizer | None = None,
        schedule: Schedule | None = None,
        world: World | None = None,
        habits: Habits | None = None,
        listener: Listener | None = None,
        keeper: Keeper | None = None,
        average: MovingAverage | None = None,
    ) -> None:
        self.model = model
        self.task = task
        self.limits = _limited(limits, steps)
        if world is None:
            self.world = alone(task.settle(*_places(model, device, built=precision or optimizer)))
            model.to(self.world.device)
        else:
            self.world = world
            task.settle(world.device, world.device)
        self.precision = precision or Exact(model)
        self.optimizer = optimizer or Adam(self.precision.trainable)
        self.schedule = schedule or _usual_schedule(self.limits.steps)
        self.habits = habits or _usual_habits(self.limits.steps)
        self.listener = listener or History(print)
        self.keeper = keeper or KeepNothing()
        self.average = average
        self.progress = Progress()
        self._began = 0.0
        if self.habits.monitor not in task.metrics:
            raise TrainingError(
                f'habits: the task does not measure "{self.habits.monitor}"; give habits=Habits(monitor=...) with one '
                f"of {', '.join(sorted(task.metrics)) or 'its metrics, of which it has none'}"
            )

    def run(self) -> int:
        """Trains until a limit is reached or a signal asks to stop; returns that signal's number, or 0.

        Raises:
            TrainingError: the loss, its gradient or a metric is not finite; the last checkpoint stays as it was.
        """
        self._began = time.perf_counter() - self.progress.seconds
        self.model.train()
        with interruption() as interrupted:
            if self.progress.step % self.habits.evaluate_every == 0:
                self._evaluate()
            for batches in self._updates():
                self._update(batches)
                if stopping := self._look_up(interrupted.signal):
                    self._save(None)
                    return stopping
                if self.progress.step % self.habits.evaluate_every == 0:
                    self._evaluate()
            self._evaluate()
        return 0

    def snapshot(self) -> Snapshot:
        """Everything a later process needs."""
        masters = {name: p.detach() for name, p in self.precision.masters.items()}
        training = {f"adam.{name}": tensor for name, tensor in self.optimizer.tensors().items()}
        training |= {f"task.{name}": tensor for name, tensor in self.task.tensors().items()}
        gathered = self.listener.gathered()
        if self.average is None:
            return Snapshot(masters, training, self.progress, gathered)
        training |= {f"master.{name}": tensor for name, tensor in masters.items()}
        return Snapshot(self.average.weights, training, self.progress, gathered)

    def restore(self, snapshot: Snapshot) -> None:
        """Goes on where a snapshot was taken.

        Raises:
            RunError: a tensor is missing or not like what it is for; nothing was changed.
        """
        weights, training = snapshot.places
        parameters, masters = self.precision.masters, _under("master.", snapshot.training)
        require_alike(snapshot.weights, parameters, place=weights)
        if masters or self.average is not None:
            require_alike(masters, parameters, place=training, prefix="master.")
        taught = _under("task.", snapshot.training)
        require_alike(taught, self.task.tensors(), place=training, prefix="task.")
        self.optimizer.restore(_under("adam.", snapshot.training), place=training, prefix="adam.")
        _copy(masters or snapshot.weights, parameters)
        if self.average is not None:
            _copy(snapshot.weights, self.average.weights)
        self.precision.publish()
        self.task.restore(taught)
        self.progress = snapshot.progress

    def _updates(self) -> Iterator[Sequence[Rows]]:
        """The batches of each update, from where progress stands, until a limit is reached."""
        while not self._finished():
            updates = self.task.updates(self.progress.epoch, accumulate=self.habits.accumulate)
            if not updates:
                raise TrainingError(f"epoch {self.progress.epoch}: there is nothing to learn from; give more text")
            self.listener.planned(self._plan(updates))
            behind = 0
            for batches in updates:
                if behind >= self.progress.position:
                    if self._finished():
                        return
                    yield batches
                behind += len(batches)
            self.progress = replace(self.progress, epoch=self.progress.epoch + 1, position=0)

    def _plan(self, updates: Sequence[Sequence[Rows]]) -> Plan:
        sizes = [len(batches) for batches in updates]
        done = sum(behind < self.progress.position for behind in accumulate(sizes, initial=0))
        examples = sum(len(rows) for batches in updates for rows in batches)
        every = self.habits.evaluate_every
        return Plan(self.progress, len(updates), min(done, len(updates)), sum(sizes), examples, every)

    def _finished(self) -> bool:
        limits, progress = self.limits, self.progress
        return (
            (limits.steps is not None and progress.step >= limits.steps)
            or (limits.epochs is not None and progress.epoch >= limits.epochs and progress.step >= limits.min_steps)
            or (limits.minutes is not None and progress.seconds >= 60 * limits.minutes)
            or (limits.patience is not None and progress.stale >= limits.patience)
        )

    def _update(self, batches: Sequence[Rows]) -> None:
        began = time.perf_counter()
        step = self.progress.step + 1
        self._seed_generators(step)
        tally = Tally(self.task.parts)
        for rows in batches:
            share = rows[self.world.rank :: self.world.size]
            if len(share):
                tally.add(self._backward(share))
        gradients = summed(self.precision.trainable, self.world)
        tally.gather(self.world)
        loss, parts, member = tally.loss, tally.parts, self.task.member(batches[0])
        norm = scaled(gradients, count=loss.count, clip=self.habits.clip)
        if not (math.isfinite(loss.total) and math.isfinite(norm)):
            raise self._diverged(f"update {step}: the {'gradient' if math.isfinite(loss.total) else 'loss'}")
        rate = self.schedule.rate(step, spent=self._spent)
        self.optimizer.update(rate)
        self.precision.publish()
        if self.average is not None:
            self.average.update(self.precision.masters, step=step)
        nll = parts["nll"].mean
        self.task.learned(nll, member=member)
        progress = self.progress
        self.progress = replace(
            progress,
            step=step,
            position=progress.position + len(batches),
            labels=progress.labels + int(loss.count),
        )
        seconds = time.perf_counter() - began
        done = Update(step, progress.epoch, loss.mean, nll, rate, norm, int(loss.count), seconds, member, parts)
        examples = sum(len(rows) for rows in batches)
        self.listener.updated(replace(done, examples=examples, elapsed=self._elapsed()))

    def _seed_generators(self, step: int) -> None:
        """Dropout of an update; `torch.manual_seed` would look for every device there is, which takes its time."""
        seed = _seed(self.habits.seed, step, self.world.rank)
        torch.default_generator.manual_seed(seed)
        if self.world.device.type != "cpu":
            torch.manual_seed(seed)

    def _backward(self, rows: Rows) -> Loss:
        loss = self.task.loss(self.model, self.task.batch(rows))
        loss.total.backward()  # type: ignore[no-untyped-call]  # torch has no annotation here
        self.precision.collect()
        return loss

    def _look_up(self, signal: int) -> int:
        """Notes the time and returns the largest signal any process got; all go by the leading process's clock."""
        if self.world.orphaned:
            signal = signal or SIGTERM
        seconds = self._elapsed()
        if self.world.size > 1:
            told = torch.zeros(self.world.size + 1, dtype=torch.float64, device=self.world.device)
            told[self.world.rank] = signal
            told[-1] = seconds if self.world.leads else 0.0
            self.world.sum_([told])
            signal, seconds = int(told[:-1].max()), float(told[-1])
        self.progress = replace(self.progress, seconds=seconds)
        return signal

    def _evaluate(self) -> None:
        """Measures, tells and saves, unless that was done after the same update."""
        if self.progress.evaluated == self.progress.step:
            return
        started = time.perf_counter()
        metrics, seconds = self._metrics()
        value = metrics[self.habits.monitor]
        if not math.isfinite(value) or any(map(math.isnan, metrics.values())):
            raise self._diverged(f"update {self.progress.step}: a metric on the validation set")
        best = self.progress.best
        improved = best is None or (value > best if self.habits.higher_is_better else value < best)
        progress = replace(self.progress, seconds=seconds, evaluated=self.progress.step)
        if improved:
            progress = replace(progress, best=value, best_step=progress.step, stale=0)
        else:
            progress = replace(progress, stale=progress.stale + 1)
        self.progress = progress
        evaluation = Evaluation(progress, metrics, improved, time.perf_counter() - started)
        # told before it is saved: what a kill in between leaves is told again, but nothing is missing
        self.listener.evaluated(evaluation)
        self._save(evaluation)

    def _metrics(self) -> tuple[dict[str, float], float]:
        """Metrics as the leading process measures them, and its clock; the others wait for its numbers."""
        names = sorted(self.task.metrics)
        measured = self.world.lead(self._measure) or dict.fromkeys(names, 0.0)
        *numbers, seconds = self.world.agree([*(measured[name] for name in names), self._elapsed()])
        return dict(zip(names, numbers, strict=True)), seconds

    def _measure(self) -> Mapping[str, float]:
        self.model.eval()
        with torch.no_grad(), self._averaged():
            measured = self.task.evaluate(self.model)
        self.model.train()
        return measured

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """The running average in the model's place, while one evaluates."""
        if self.average is None:
            yield
            return
        model = self.precision.parameters
        own = {name: p.detach().clone() for name, p in model.items()}
        _copy(self.average.weights, model)
        try:
            yield
        finally:
            _copy(own, model)

    def _save(self, evaluation: Evaluation | None) -> None:
        norms = torch._foreach_norm([master.detach() for master in self.precision.masters.values()])
        if not math.isfinite(float(torch.stack(norms).sum())):
            raise self._diverged(f"update {self.progress.step}: a weight")
        self.world.lead(lambda: self.keeper.save(self.snapshot(), evaluation))

    @property
    def _spent(self) -> float:
        """The share of the time that is over, by the leading process's clock."""
        minutes = self.limits.minutes
        return 0.0 if minutes is None else min(1.0, self.progress.seconds / (60 * minutes))

    def _elapsed(self) -> float:
        return time.perf_counter() - self._began

    def _diverged(self, what: str) -> TrainingError:
        rate = self.schedule.rate(self.progress.step or 1, spent=self._spent)
        return TrainingError(
            f"{what} is not finite; lower the learning rate (now {rate:.2g}), "
            "lengthen the warm-up or set training.clip. Checkpoints saved before are untouched"
        )


def _limited(limits: Limits | None, steps: int | None) -> Limits:
    if limits is None and steps is None:
        raise TrainingError("nothing says when training ends; give steps=..., or limits=Limits(...)")
    given = limits or Limits()
    if steps is None:
        return given
    return replace(given, steps=steps if given.steps is None else min(steps, given.steps))


def _places(
    model: nn.Module, device: str | torch.device | None, *, built: object
) -> tuple[torch.device, torch.device | None]:
    """Where the model is, and where it shall be: where it is, if something was built of it there."""
    found = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    given = torch.device(device) if device is not None else None
    return found, given or (found if built is not None else None)


def _usual_schedule(steps: int | None) -> Schedule:
    return InverseSquareRoot(1e-3, 1000 if steps is None else max(1, min(4000, steps // 10)))


def _usual_habits(steps: int | None) -> Habits:
    return Habits() if steps is None else Habits(evaluate_every=max(1, steps // 10))


def _copy(weights: Mapping[str, Tensor], parameters: Mapping[str, Any]) -> None:
    with torch.no_grad():
        for name, weight in weights.items():
            parameters[name].copy_(weight)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _seed(*numbers: int) -> int:
    """One seed from several numbers, unrelated for neighbours."""
    digest = hashlib.blake2b(" ".join(map(str, numbers)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
