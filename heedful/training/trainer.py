"""The training loop, independent of models and of text."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from signal import SIGTERM
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from heedful.errors import TrainingError
from heedful.tasks.objective import Batch, Loss, RowIndices, TrainingObjective, combine_passes
from heedful.training.callbacks import (
    Callback,
    CheckpointSaver,
    EpochPlan,
    NullCheckpointSaver,
    SavedCheckpoint,
    StepMetrics,
    TrainingSnapshot,
    TrainState,
    ValidationResult,
    require_same_tensors,
)
from heedful.training.distributed import (
    DistributedContext,
    LossAccumulator,
    catch_stop_signals,
    convert_lost_peers,
    normalize_and_clip,
    single_process,
)
from heedful.training.history import TrainingHistory
from heedful.training.optimizers import (
    Adam,
    InverseSquareRootSchedule,
    LearningRateSchedule,
    MovingAverage,
    Optimizer,
)
from heedful.training.precision import FullPrecision, Precision

Result = TypeVar("Result")


@dataclass(frozen=True)
class StoppingLimits:
    """Limits that end training, whichever is reached first; None is no limit.

    Attributes:
        steps: number of updates.
        epochs: passes over the training data; more are made until there were `min_steps` updates.
        minutes: wall-clock time.
        patience: evaluations without an improvement.
        min_steps: see `epochs`.
    """

    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    patience: int | None = None
    min_steps: int = 0


@dataclass(frozen=True)
class TrainerConfig:
    """Options of the training loop.

    Attributes:
        seed: of dropout; the order of data belongs to the objective.
        accumulate: number of batches summed into one update.
        clip: largest gradient norm; larger gradients are scaled down to it (Pascanu et al. 2013). None does not clip.
        evaluate_every: updates between evaluations, each followed by a checkpoint.
        monitor: the metric whose best checkpoint is kept.
        higher_is_better: whether a higher value of that metric is better.
        r_drop: weight of the divergence between two passes with different dropout (`combine_passes`); 0 makes one pass.
    """

    seed: int = 1
    accumulate: int = 1
    clip: float | None = None
    evaluate_every: int = 1000
    monitor: str = "loss"
    higher_is_better: bool = False
    r_drop: float = 0.0


class Trainer(Generic[Batch]):
    """Trains a model on an objective; the same seed, machine and number of threads give the same weights.

    The gradient of an update is the sum over all labels of its batches divided by their number, whatever the number of
    accumulated batches and processes, so neither changes the mathematics.

    `Trainer(model, objective, steps=1000).run()` is enough for a training loop of your own. The defaults are:

    - `device`: where the objective's batches are. An `ExampleObjective` takes a GPU if there is one, a
      `CorpusObjective` the device it was made with; others use the model's device. The model is moved there.
    - `precision`: fp32 (`FullPrecision`).
    - `optimizer`: `Adam` with betas 0.9 and 0.98, without weight decay, of all parameters that require a gradient.
    - `schedule`: a warm-up to 1e-3 in a tenth of `steps`, at most 4,000 (in 1,000 updates if `steps` is not given),
      then a fall with the inverse square root of the step.
    - `config`: that of `TrainerConfig`, but with ten evaluations if `steps` is given.
    - `callback`: a `TrainingHistory` that prints a line for each evaluation.
    - `checkpoint_saver`: none; the model ends with the weights of the last update. `BestWeightsSaver` keeps the best.

    Args:
        model: the model to train; its parameters are changed in place.
        objective: data, loss and metrics.
        steps: number of updates; the same as `StoppingLimits(steps=...)`.
        limits: when training ends; together with `steps`, whichever comes first.
        device: where to compute; not to be given with `distributed`, which has one.
        precision: built from the model on its device, such as `BF16WithMasters(model)`.
        optimizer: of `precision.trainable`.
        schedule: the learning rate of each update.
        distributed: the process group; see `heedful.training.distributed.init_distributed`.
        config: seed, accumulation, clipping, evaluations.
        callback: called after updates, evaluations and checkpoints.
        checkpoint_saver: called with a snapshot after each evaluation.
        average: running average of the weights, which is then evaluated and saved.

    Attributes:
        progress: state of training; `best` and `best_step` are those of the monitored metric.

    Raises:
        TrainingError: no limit is given; the objective does not have the monitored metric; several processes were
            started and `distributed` was not given.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: TrainingObjective[Batch],
        *,
        steps: int | None = None,
        limits: StoppingLimits | None = None,
        device: str | torch.device | None = None,
        precision: Precision | None = None,
        optimizer: Optimizer | None = None,
        schedule: LearningRateSchedule | None = None,
        distributed: DistributedContext | None = None,
        config: TrainerConfig | None = None,
        callback: Callback | None = None,
        checkpoint_saver: CheckpointSaver | None = None,
        average: MovingAverage | None = None,
    ) -> None:
        self.model = model
        self.objective = objective
        self.limits = _merge_limits(limits, steps)
        if distributed is None:
            self.distributed = single_process(
                objective.choose_device(*_find_devices(model, device, dependent=precision or optimizer))
            )
            model.to(self.distributed.device)
        else:
            self.distributed = distributed
            objective.choose_device(distributed.device, distributed.device)
        self.precision = precision or FullPrecision(model)
        self.optimizer = optimizer or Adam(self.precision.trainable)
        self.schedule = schedule or _default_schedule(self.limits.steps)
        self.config = config or _default_config(self.limits.steps)
        self.callback = callback or TrainingHistory(print)
        self.checkpoint_saver = checkpoint_saver or NullCheckpointSaver()
        self.average = average
        self.progress = TrainState()
        self._start_time = 0.0
        if self.config.monitor not in objective.metric_names:
            known = ", ".join(sorted(objective.metric_names)) or "its metrics, of which it has none"
            raise TrainingError(
                f'config: the task does not measure "{self.config.monitor}"; give config=TrainerConfig(monitor=...) '
                f"with one of {known}"
            )

        if self.config.r_drop and not objective.has_predictions:
            raise TrainingError(
                f"config: r_drop = {self.config.r_drop:g} compares predicted distributions, but this task's losses "
                "have no predictions; set it to 0"
            )

    def run(self) -> int:
        """Train until a limit is reached or a signal asks to stop; return the number of that signal, or 0.

        Raises:
            TrainingError: the loss, its gradient or a metric is not finite; the last checkpoint stays as it was.
        """
        self._start_time = time.perf_counter() - self.progress.seconds
        self.model.train()
        with catch_stop_signals() as interrupted:
            if self.progress.step % self.config.evaluate_every == 0:
                self._evaluate()
            for batches in self._iter_updates():
                self._run_update(batches)
                if signal_number := self._sync_signal_and_time(interrupted.signal):
                    self._save_checkpoint(None)
                    return signal_number
                if self.progress.step % self.config.evaluate_every == 0:
                    self._evaluate()
            self._evaluate()
        return 0

    def take_snapshot(self) -> TrainingSnapshot:
        """Return everything that another process needs to go on with training; of parameters that are split over
        processes, the parts of this process.
        """
        masters = {name: p.detach() for name, p in self.precision.masters.items()}
        prefix = self.optimizer.state_prefix
        training = {f"{prefix}.{name}": tensor for name, tensor in self.optimizer.state_dict().items()}
        training |= {f"task.{name}": tensor for name, tensor in self.objective.state_dict().items()}
        callback_state = self.callback.get_state()
        if self.average is None:
            return TrainingSnapshot(masters, training, self.progress, callback_state)
        training |= {f"master.{name}": tensor for name, tensor in masters.items()}
        return TrainingSnapshot(self.average.weights, training, self.progress, callback_state)

    def restore(self, snapshot: TrainingSnapshot) -> None:
        """Continue from a snapshot of training.

        Raises:
            RunError: a tensor is missing or does not fit; nothing was changed then.
        """
        snapshot = self.precision.split_snapshot(snapshot)
        weights_file, training_file = snapshot.file_names
        parameters, masters = self.precision.masters, _select_prefix("master.", snapshot.training)
        require_same_tensors(snapshot.weights, parameters, location=weights_file)
        if masters or self.average is not None:
            require_same_tensors(masters, parameters, location=training_file, prefix="master.")
        objective_tensors = _select_prefix("task.", snapshot.training)
        require_same_tensors(objective_tensors, self.objective.state_dict(), location=training_file, prefix="task.")
        prefix = f"{self.optimizer.state_prefix}."
        self.optimizer.load_state_dict(_select_prefix(prefix, snapshot.training), location=training_file, prefix=prefix)
        _copy_weights(masters or snapshot.weights, parameters)
        if self.average is not None:
            _copy_weights(snapshot.weights, self.average.weights)
        self.precision.copy_to_model()
        self.objective.load_state_dict(objective_tensors)
        self.progress = snapshot.progress

    def call_with_weights(self, weights: Mapping[str, Tensor], function: Callable[[nn.Module], Result]) -> Result:
        """Copy whole weights, given by name, into the model, which is put into evaluation mode, and return
        `function(model)`. Training cannot continue afterwards.

        Raises:
            RunError: a tensor is missing or does not fit.
        """
        own_weights = self.precision.split_snapshot(TrainingSnapshot(weights, {}, self.progress)).weights
        require_same_tensors(own_weights, self.precision.masters, location="weights")
        _copy_weights(own_weights, self.precision.masters)
        self.precision.copy_to_model()
        self.model.eval()
        with torch.no_grad():
            return self.precision.call(function)

    def _iter_updates(self) -> Iterator[Sequence[RowIndices]]:
        """Yield the batches of each update, as indices of their examples, from the current progress until a limit is
        reached. Raise `TrainingError` if there is no training data.
        """
        while not self._is_finished():
            updates = self.objective.plan_updates(self.progress.epoch, accumulate=self.config.accumulate)
            if not updates:
                raise TrainingError(f"epoch {self.progress.epoch}: there is no training data; give more text")
            self.callback.on_epoch_begin(self._build_plan(updates))
            position = 0
            for batches in updates:
                if position >= self.progress.position:
                    if self._is_finished():
                        return
                    yield batches
                position += len(batches)
            self.progress = replace(self.progress, epoch=self.progress.epoch + 1, position=0)

    def _build_plan(self, updates: Sequence[Sequence[RowIndices]]) -> EpochPlan:
        """Build the plan of an epoch from the batches of its updates: numbers of updates, batches and examples, and how
        many updates are done.
        """
        sizes = [len(batches) for batches in updates]
        num_done = sum(offset < self.progress.position for offset in accumulate(sizes, initial=0))
        examples = sum(len(rows) for batches in updates for rows in batches)
        evaluate_every = self.config.evaluate_every
        return EpochPlan(self.progress, len(updates), min(num_done, len(updates)), sum(sizes), examples, evaluate_every)

    def _is_finished(self) -> bool:
        """Return whether a limit is reached: on updates, epochs, minutes, or evaluations without improvement."""
        limits, progress = self.limits, self.progress
        return (
            (limits.steps is not None and progress.step >= limits.steps)
            or (limits.epochs is not None and progress.epoch >= limits.epochs and progress.step >= limits.min_steps)
            or (limits.minutes is not None and progress.seconds >= 60 * limits.minutes)
            or (limits.patience is not None and progress.stale >= limits.patience)
        )

    def _run_update(self, batches: Sequence[RowIndices]) -> None:
        """Run one update on its batches, given as indices of examples: backward passes, gradient sum, optimizer step,
        and callbacks. Of each batch, this process takes its share.
        """
        start_time = time.perf_counter()
        step = self.progress.step + 1
        self._seed_generators(step)
        losses = LossAccumulator(self.objective.part_names | ({"r_drop"} if self.config.r_drop else frozenset()))
        for rows in batches:
            own_rows = rows[self.distributed.rank :: self.distributed.size]
            if len(own_rows):
                losses.add(self._run_backward(own_rows))
            elif self.precision.is_sharded:
                self._run_backward(rows[:1], weight=0.0)  # the other processes need its parts of the parameters
        gradients = self.precision.reduce_gradients(self.distributed)
        losses.all_reduce(self.distributed)
        loss, parts, member_name = losses.loss, losses.parts, self.objective.member_name(batches[0])
        norm_of_sum = self.precision.measure_norm(gradients, self.distributed)
        gradient_norm = normalize_and_clip(
            gradients.values(), norm_of_sum=norm_of_sum, num_labels=loss.count, max_norm=self.config.clip
        )
        if not (math.isfinite(loss.total) and math.isfinite(gradient_norm)):
            raise self._build_divergence_error(
                f"update {step}: the {'gradient' if math.isfinite(loss.total) else 'loss'}"
            )
        rate = self._get_rate(step)
        self.optimizer.step(rate)
        self.precision.copy_to_model()
        if self.average is not None:
            self.average.update(self.precision.masters, step=step)
        nll, num_labels = parts["nll"].mean, int(parts["nll"].count)
        self.objective.on_update(nll, member=member_name)
        progress = self.progress
        self.progress = replace(
            progress,
            step=step,
            position=progress.position + len(batches),
            labels=progress.labels + num_labels,
        )
        seconds = time.perf_counter() - start_time
        metrics = StepMetrics(
            step, progress.epoch, loss.mean, nll, rate, gradient_norm, num_labels, seconds, member_name, parts
        )
        examples = sum(len(rows) for rows in batches)
        self.callback.on_step_end(replace(metrics, examples=examples, elapsed=self._elapsed_seconds()))

    def _seed_generators(self, step: int) -> None:
        """Seed the random generators for the dropout of update `step`.

        `torch.manual_seed` would visit every device, which takes time.
        """
        seed = _combine_seeds(self.config.seed, step, self.distributed.rank)
        torch.default_generator.manual_seed(seed)
        if self.distributed.device.type != "cpu":
            torch.manual_seed(seed)

    def _run_backward(self, rows: RowIndices, *, weight: float = 1.0) -> Loss:
        """Run forward pass (two with R-Drop) and backward pass of the batch of these examples; return its loss. Its
        gradient is multiplied by `weight`.
        """
        batch = self.objective.build_batch(rows)

        def compute_loss(model: nn.Module) -> Loss:
            loss = self.objective.loss(model, batch)
            if self.config.r_drop:
                loss = combine_passes(loss, self.objective.loss(model, batch), alpha=self.config.r_drop)
            return loss

        loss = self.precision.call(compute_loss)
        total = loss.total if weight == 1.0 else weight * loss.total
        with convert_lost_peers():
            total.backward()  # type: ignore[no-untyped-call]  # torch has no annotation here
        self.precision.collect_gradients()
        return loss

    def _sync_signal_and_time(self, signal_number: int) -> int:
        """Update the training time, and return the largest signal number that any process received; `signal_number` is
        that of this process, 0 for none.

        All processes use the clock of the leader.
        """
        if self.distributed.is_orphaned:
            signal_number = signal_number or SIGTERM
        seconds = self._elapsed_seconds()
        if self.distributed.size > 1:
            shared = torch.zeros(self.distributed.size + 1, dtype=torch.float64, device=self.distributed.device)
            shared[self.distributed.rank] = signal_number
            shared[-1] = seconds if self.distributed.is_leader else 0.0
            self.distributed.all_reduce_([shared])
            signal_number, seconds = int(shared[:-1].max()), float(shared[-1])
        self.progress = replace(self.progress, seconds=seconds)
        return signal_number

    def _evaluate(self) -> None:
        """Evaluate, call the callback and save a checkpoint, unless that was done after the same update."""
        if self.progress.evaluated == self.progress.step:
            return
        start_time = time.perf_counter()
        metrics, seconds = self._collect_metrics()
        value = metrics[self.config.monitor]
        if not math.isfinite(value) or any(map(math.isnan, metrics.values())):
            raise self._build_divergence_error(f"update {self.progress.step}: a metric on the validation set")
        best = self.progress.best
        improved = best is None or (value > best if self.config.higher_is_better else value < best)
        progress = replace(self.progress, seconds=seconds, evaluated=self.progress.step)
        if improved:
            progress = replace(progress, best=value, best_step=progress.step, stale=0)
        else:
            progress = replace(progress, stale=progress.stale + 1)
            if self.schedule.is_reduced_after(progress.stale):
                progress = replace(progress, reductions=progress.reductions + 1)
        self.progress = progress
        evaluation = ValidationResult(progress, metrics, improved, time.perf_counter() - start_time)
        # logged before it is saved: after a kill in between, a line may come twice, but none is missing
        self.callback.on_evaluate(evaluation)
        self._save_checkpoint(evaluation)

    def _collect_metrics(self) -> tuple[dict[str, float], float]:
        """Return the metrics of the leading process on the validation set and its training time in seconds, in all
        processes.
        """
        names = sorted(self.objective.metric_names)
        if self.precision.is_sharded:
            leader_metrics = self._evaluate_model()
        else:
            leader_metrics = self.distributed.run_on_leader(self._evaluate_model) or dict.fromkeys(names, 0.0)
        *numbers, seconds = self.distributed.broadcast(
            [*(leader_metrics[name] for name in names), self._elapsed_seconds()]
        )
        return dict(zip(names, numbers, strict=True)), seconds

    def _evaluate_model(self) -> Mapping[str, float]:
        """Return the metrics of the model on the validation set, with averaged weights if there are any."""
        self.model.eval()
        with torch.no_grad(), self._use_average():
            metrics = self.precision.call(self.objective.evaluate)
        self.model.train()
        return metrics

    @contextmanager
    def _use_average(self) -> Iterator[None]:
        """Put the averaged weights into the model inside the block, and its own ones back at the end; does nothing
        without an average.
        """
        if self.average is None:
            yield
            return
        model = self.precision.parameters
        model_weights = {name: p.detach().clone() for name, p in model.items()}
        _copy_weights(self.average.weights, model)
        try:
            yield
        finally:
            _copy_weights(model_weights, model)

    def _save_checkpoint(self, evaluation: ValidationResult | None) -> None:
        """Save a checkpoint in the leading process, with the evaluation of its weights (None on interruption); raise
        `TrainingError` if a weight is not finite.
        """
        weights = {name: weight.detach() for name, weight in self.precision.masters.items()}
        if not math.isfinite(self.precision.measure_norm(weights, self.distributed)):
            raise self._build_divergence_error(f"update {self.progress.step}: a weight")
        own_snapshot = self.take_snapshot()
        snapshot = self.precision.gather_snapshot(own_snapshot, self.distributed)

        def save() -> None:
            """Save the checkpoint, and call the callback."""
            start_time = time.perf_counter()
            self.checkpoint_saver.save(snapshot, evaluation)
            self.callback.on_save(SavedCheckpoint(self.progress, time.perf_counter() - start_time))

        self.distributed.run_on_leader(
            save, serve=partial(self.precision.send_shard, snapshot=own_snapshot, distributed=self.distributed)
        )

    @property
    def _time_fraction(self) -> float:
        """Share of the time limit that has passed, by the leader's clock."""
        minutes = self.limits.minutes
        return 0.0 if minutes is None else min(1.0, self.progress.seconds / (60 * minutes))

    def _get_rate(self, step: int) -> float:
        """Return the learning rate of update `step`, after the reductions so far."""
        rate = self.schedule.get_rate(step, time_fraction=self._time_fraction)
        return rate * self.schedule.get_reduction(self.progress.reductions)

    def _elapsed_seconds(self) -> float:
        return time.perf_counter() - self._start_time

    def _build_divergence_error(self, value_name: str) -> TrainingError:
        """Build the error about a value that is not finite, with remedies; `value_name` names it, with the update."""
        rate = self._get_rate(self.progress.step or 1)
        return TrainingError(
            f"{value_name} is not finite; lower the learning rate (now {rate:.2g}), "
            "lengthen the warm-up or set training.clip. Checkpoints saved before are untouched"
        )


def _merge_limits(limits: StoppingLimits | None, steps: int | None) -> StoppingLimits:
    """Return the limits with the number of updates also limited to `steps`; raise `TrainingError` if both are None."""
    if limits is None and steps is None:
        raise TrainingError("training has no end; give steps=..., or limits=StoppingLimits(...)")
    merged = limits or StoppingLimits()
    if steps is None:
        return merged
    return replace(merged, steps=steps if merged.steps is None else min(steps, merged.steps))


def _find_devices(
    model: nn.Module, device: str | torch.device | None, *, dependent: object
) -> tuple[torch.device, torch.device | None]:
    """Return the device of the model, and the device to train on: `device`, or else that of the model if something that
    depends on it (`dependent`) was built, or else None.

    If something was built from the model on its device, that device is used.
    """
    model_device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    target = torch.device(device) if device is not None else None
    return model_device, target or (model_device if dependent is not None else None)


def _default_schedule(steps: int | None) -> LearningRateSchedule:
    return InverseSquareRootSchedule(1e-3, 1000 if steps is None else max(1, min(4000, steps // 10)))


def _default_config(steps: int | None) -> TrainerConfig:
    return TrainerConfig() if steps is None else TrainerConfig(evaluate_every=max(1, steps // 10))


def _copy_weights(weights: Mapping[str, Tensor], parameters: Mapping[str, Any]) -> None:
    with torch.no_grad():
        for name, weight in weights.items():
            parameters[name].copy_(weight)


def _select_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _combine_seeds(*numbers: int) -> int:
    """Return one seed from several numbers; neighbouring numbers give unrelated seeds."""
    digest = hashlib.blake2b(" ".join(map(str, numbers)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
