"""Optimizers of the fp32 parameters, learning rate schedules, and the moving average of weights."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim.adadelta import adadelta
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from heedful.training.callbacks import require_same_tensors


@dataclass(frozen=True)
class _ParameterGroup:
    """Parameters with the same learning rate factor and weight decay."""

    names: tuple[str, ...]
    factor: float
    weight_decay: float


class Optimizer(ABC):
    """Abstract base of optimizers with decoupled weight decay.

    Only matrices are decayed, vectors (biases, gains) are not. The state of a parameter is a few tensors, which are
    read and restored as such, so a checkpoint needs no pickle. `build_state_templates` declares them; they are zero
    before the first update.

    Args:
        parameters: by name, fp32.
        weight_decay: share of a matrix that is removed, per unit of learning rate.
        factors: factor on the learning rate of single parameters; 1 for those that are not named.

    Attributes:
        state_prefix: what precedes the names of the state's tensors in a checkpoint.
    """

    state_prefix: ClassVar[str] = "optimizer"

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        weight_decay: float = 0.0,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        self._parameters = dict(parameters)
        self._states: dict[str, dict[str, Tensor]] = {}
        names_by_group: dict[tuple[float, bool], list[str]] = {}
        for name, parameter in self._parameters.items():
            names_by_group.setdefault(((factors or {}).get(name, 1.0), parameter.dim() > 1), []).append(name)
        self._groups = [
            _ParameterGroup(tuple(names), factor, weight_decay if matrices else 0.0)
            for (factor, matrices), names in names_by_group.items()
        ]

    @final
    def step(self, learning_rate: float) -> None:
        """Take one step of size `learning_rate`, times the factor of each parameter, against the gradients, then clear
        them.
        """
        with torch.no_grad():
            for group in self._groups:
                self._step_group(group, learning_rate * group.factor)
        for parameter in self._parameters.values():
            parameter.grad = None

    @abstractmethod
    def _step_group(self, group: _ParameterGroup, learning_rate: float) -> None: ...

    def build_state_templates(self, parameter: Tensor) -> Mapping[str, Tensor]:
        """Return a tensor with the shape and dtype of each part of a parameter's state, by the part's name; empty by
        default.
        """
        return {}

    @final
    def count_state_numbers(self) -> int:
        """Count the numbers that the optimizer stores for all parameters, without counters of updates."""
        return sum(
            template.numel()
            for parameter in self._parameters.values()
            for name, template in self.build_state_templates(parameter).items()
            if name != _STEP
        )

    def _select_updated(self, group: _ParameterGroup) -> tuple[list[Tensor], list[Tensor], list[dict[str, Tensor]]]:
        """Return the parameters of a group that have a gradient, these gradients, and the states."""
        names = [name for name in group.names if self._parameters[name].grad is not None]
        parameters = [self._parameters[name] for name in names]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        return parameters, gradients, [self._get_state(name) for name in names]

    def _get_state(self, name: str) -> dict[str, Tensor]:
        """Return the state of the parameter `name`; zeros before its first update."""
        if name not in self._states:
            templates = self.build_state_templates(self._parameters[name].detach())
            self._states[name] = {part: torch.zeros_like(template) for part, template in templates.items()}
        return self._states[name]

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as "PARAMETER.PART"; empty before the first update."""
        return {
            f"{name}.{part}": tensor for name in self._parameters for part, tensor in self._states.get(name, {}).items()
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor], *, location: str = "moments", prefix: str = "") -> None:
        """Load the tensors that `state_dict` returned; errors name the file that contains them (`location`) and precede
        their names by `prefix`, as the file does.

        Raises:
            RunError: a tensor is missing, unknown, or does not fit its parameter.
        """
        names_with_state = {name.rpartition(".")[0] for name in tensors}
        templates = {
            name: self.build_state_templates(parameter.detach())
            for name, parameter in self._parameters.items()
            if name in names_with_state
        }
        expected = {f"{name}.{part}": template for name, parts in templates.items() for part, template in parts.items()}
        require_same_tensors(tensors, expected, location=location, prefix=prefix)
        for name, parts in templates.items():
            device = self._parameters[name].device
            self._states[name] = {part: tensors[f"{name}.{part}"].clone().to(device) for part in parts}


_STEP: Final = "step"
"""Name of the part of a state that counts the updates of a parameter."""


def _build_step_template(parameter: Tensor) -> Tensor:
    return torch.empty((), dtype=torch.float32, device=parameter.device)


def _decay_weights(parameters: Sequence[Tensor], share: float) -> None:
    """Subtract this share of each parameter."""
    if share and parameters:
        torch._foreach_mul_(list(parameters), 1 - share)


@final
class SGD(Optimizer):
    """Stochastic gradient descent, w - rate v, where v is the gradient g (Robbins & Monro 1951) or, with momentum,
    v = momentum v + g (Polyak 1964), computed by torch.

    Args:
        parameters: see `Optimizer`.
        momentum: decay of the sum of gradients; 0 has none and stores nothing.
        nesterov: step by g + momentum v instead (Nesterov 1983, in the form of Sutskever et al. 2013, section 2).
        weight_decay: see `Optimizer`.
        factors: likewise.
    """

    state_prefix = "sgd"

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(parameters, weight_decay=weight_decay, factors=factors)
        self._momentum, self._nesterov = momentum, nesterov

    def build_state_templates(self, parameter: Tensor) -> Mapping[str, Tensor]:
        """Return the parameter as the template of its momentum; nothing without momentum."""
        return {"momentum": parameter} if self._momentum else {}

    def _step_group(self, group: _ParameterGroup, learning_rate: float) -> None:
        """Decay one group, then subtract its gradients, or the sums of them, times the learning rate."""
        parameters, gradients, states = self._select_updated(group)
        _decay_weights(parameters, learning_rate * group.weight_decay)
        sgd(
            parameters,
            gradients,
            [state.get("momentum") for state in states],
            weight_decay=0.0,
            momentum=self._momentum,
            lr=learning_rate,
            dampening=0.0,
            nesterov=self._nesterov,
            maximize=False,
        )


@final
class Adam(Optimizer):
    """Adam with decoupled weight decay (Kingma & Ba 2015; Loshchilov & Hutter 2019), computed by torch.

    Args:
        parameters: see `Optimizer`.
        betas: decay of the first and second moment; (0.9, 0.98) in Vaswani et al. 2017, 5.3.
        epsilon: added to the root of the second moment; 1e-9 in the same place.
        weight_decay: see `Optimizer`.
        factors: likewise.
    """

    state_prefix = "adam"

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        betas: tuple[float, float] = (0.9, 0.98),
        epsilon: float = 1e-9,
        weight_decay: float = 0.0,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(parameters, weight_decay=weight_decay, factors=factors)
        self._betas, self._epsilon = betas, epsilon

    def build_state_templates(self, parameter: Tensor) -> Mapping[str, Tensor]:
        """Return templates of both moments and of the number of updates."""
        return {"exp_avg": parameter, "exp_avg_sq": parameter, _STEP: _build_step_template(parameter)}

    def _step_group(self, group: _ParameterGroup, learning_rate: float) -> None:
        """Update one group, with this learning rate, by the function behind `torch.optim.AdamW`.

        Calling it through the class takes as long as the step of a small model.
        """
        parameters, gradients, states = self._select_updated(group)
        beta1, beta2 = self._betas
        adamw(
            parameters,
            gradients,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state[_STEP] for state in states],
            fused=True,
            amsgrad=False,
            maximize=False,
            lr=learning_rate,
            beta1=beta1,
            beta2=beta2,
            eps=self._epsilon,
            weight_decay=group.weight_decay,
        )


@final
class AdaDelta(Optimizer):
    """AdaDelta (Zeiler 2012, algorithm 1): each number has a step of its own, the root mean square of its past changes
    divided by that of its gradients; computed by torch. The learning rate multiplies these steps; it is 1 in the paper.

    Args:
        parameters: see `Optimizer`.
        rho: decay of both mean squares; 0.95 in the paper and in Bahdanau et al. 2015, B.2.
        epsilon: added to both mean squares; 1e-6 there.
        weight_decay: see `Optimizer`.
        factors: likewise.
    """

    state_prefix = "adadelta"

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        weight_decay: float = 0.0,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(parameters, weight_decay=weight_decay, factors=factors)
        self._rho, self._epsilon = rho, epsilon

    def build_state_templates(self, parameter: Tensor) -> Mapping[str, Tensor]:
        """Return templates of the mean squares of gradients and of changes."""
        return {"square_avg": parameter, "acc_delta": parameter}

    def _step_group(self, group: _ParameterGroup, learning_rate: float) -> None:
        """Decay one group, then update it by the function behind `torch.optim.Adadelta`."""
        parameters, gradients, states = self._select_updated(group)
        _decay_weights(parameters, learning_rate * group.weight_decay)
        adadelta(
            parameters,
            gradients,
            [state["square_avg"] for state in states],
            [state["acc_delta"] for state in states],
            [_build_step_template(parameter) for parameter in parameters],  # torch counts updates and uses them nowhere
            lr=learning_rate,
            rho=self._rho,
            eps=self._epsilon,
            weight_decay=0.0,
            maximize=False,
        )


@final
class Adafactor(Optimizer):
    """Adafactor without momentum (Shazeer & Stern 2018, algorithms 4 and 5): of the second moment of a matrix, only the
    means of rows and columns are stored.

    The schedule gives the paper's relative step size rho_t, such as min(1e-2, 1/sqrt(t)) in table 4. It is multiplied
    by the root mean square of the parameter if `scale_parameter` is on, as there and in T5 (Raffel et al. 2020, 3.1.2).

    Args:
        parameters: see `Optimizer`.
        decay_exponent: c in the decay of the second moment at update t, 1 - t^-c.
        clip_threshold: largest root mean square of a parameter's change before it is multiplied by the step size.
        epsilon: the paper's epsilon_1, added to squared gradients.
        min_scale: its epsilon_2, least value of the parameter's root mean square.
        scale_parameter: whether steps are relative to the size of the parameter.
        weight_decay: see `Optimizer`.
        factors: likewise.
    """

    state_prefix = "adafactor"

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        decay_exponent: float = 0.8,
        clip_threshold: float = 1.0,
        epsilon: float = 1e-30,
        min_scale: float = 1e-3,
        scale_parameter: bool = True,
        weight_decay: float = 0.0,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(parameters, weight_decay=weight_decay, factors=factors)
        self._decay_exponent, self._clip_threshold, self._epsilon = decay_exponent, clip_threshold, epsilon
        self._min_scale, self._scale_parameter = min_scale, scale_parameter

    def build_state_templates(self, parameter: Tensor) -> Mapping[str, Tensor]:
        """Return templates of the mean squares of rows and columns of a matrix (of the last two dimensions of a larger
        tensor), or of all numbers of a vector.
        """
        step = {_STEP: _build_step_template(parameter)}
        if parameter.dim() < 2:
            return {"square_avg": parameter, **step}
        return {"row_square_avg": parameter.select(-1, 0), "column_square_avg": parameter.select(-2, 0), **step}

    def _step_group(self, group: _ParameterGroup, learning_rate: float) -> None:
        """Decay one group, then subtract its clipped, scaled changes."""
        for parameter, gradient, state in zip(*self._select_updated(group), strict=True):
            change = self._compute_change(gradient, state)
            change /= (_compute_rms(change) / self._clip_threshold).clamp(min=1.0)
            if self._scale_parameter:
                change *= _compute_rms(parameter).clamp(min=self._min_scale)
            _decay_weights([parameter], learning_rate * group.weight_decay)
            parameter.sub_(change, alpha=learning_rate)

    def _compute_change(self, gradient: Tensor, state: Mapping[str, Tensor]) -> Tensor:
        """Update the mean squares in `state`; return the gradient divided by their root (algorithm 4, lines 5-9)."""
        squares = gradient.square().add_(self._epsilon)
        share = state[_STEP].add_(1).pow(-self._decay_exponent).to(squares.dtype)
        if "square_avg" in state:
            return gradient * state["square_avg"].lerp_(squares, share).rsqrt()
        rows = state["row_square_avg"].lerp_(squares.mean(-1), share)
        columns = state["column_square_avg"].lerp_(squares.mean(-2), share)
        row_shares = rows / rows.mean(-1, keepdim=True)
        return gradient * row_shares.rsqrt().unsqueeze(-1) * columns.rsqrt().unsqueeze(-2)


def _compute_rms(tensor: Tensor) -> Float[Tensor, ""]:
    """Return the root mean square of the numbers of a tensor."""
    rms: Tensor = tensor.norm() / math.sqrt(tensor.numel())
    return rms


class MovingAverage:
    """Exponential moving average of weights (Polyak & Juditsky 1992; Tarvainen & Valpola 2017, eq. 1).

    Early updates use the smaller decay (1 + n) / (10 + n), so that the random initialization is forgotten quickly.
    """

    def __init__(self, parameters: Mapping[str, Tensor], decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in parameters.items()}

    def update(self, parameters: Mapping[str, Tensor], *, step: int) -> None:
        """Move the average towards the parameters after update `step`; early updates count more."""
        decay = min(self.decay, (1 + step) / (10 + step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.weights.values()), [parameters[n].detach() for n in self.weights], 1 - decay)


class LearningRateSchedule(ABC):
    """Abstract base: a learning rate for each update."""

    @abstractmethod
    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return the learning rate of update `step`, counted from 1, at which this fraction of the training time has
        passed.

        Args:
            step: number of the update.
            time_fraction: share of the training time that has passed; 0 where training does not end by the clock.
        """

    def is_reduced_after(self, stale: int) -> bool:
        """Return whether the rate is reduced after `stale` evaluations without an improvement; never by default."""
        return False

    def get_reduction(self, count: int) -> float:
        """Return the factor of the rate that was reduced `count` times; 1 by default."""
        return 1.0


@dataclass(frozen=True)
class NoamSchedule(LearningRateSchedule):
    """factor d_model^-0.5 min(step^-0.5, step warmup^-1.5) (Vaswani et al. 2017, eq. 3)."""

    d_model: int
    warmup: int
    factor: float = 1.0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return a rate that rises for `warmup` updates, then falls with the square root of the step."""
        rate: float = self.factor * self.d_model**-0.5 * min(step**-0.5, step * self.warmup**-1.5)
        return rate


@dataclass(frozen=True)
class InverseSquareRootSchedule(LearningRateSchedule):
    """Linear warm-up to `peak`, then `hold` updates at it, then peak sqrt((warmup + hold) / step).

    Without `hold` it is Noam with its peak as parameter. With peak 1e-2, `warmup=0` and `hold=10_000` it is
    1/sqrt(max(step, 10^4)), the schedule of T5 (Raffel et al. 2020, 3.1.2) and the relative step size of Adafactor
    (Shazeer and Stern 2018, table 4).
    """

    peak: float
    warmup: int
    hold: int = 0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return a rate that rises for `warmup` updates, stays for `hold`, then falls with the root of the step."""
        rising = step / self.warmup if self.warmup else 1.0
        return self.peak * min(rising, 1.0, math.sqrt(max(1, self.warmup + self.hold) / step))


@dataclass(frozen=True)
class CosineSchedule(LearningRateSchedule):
    """Linear warm-up to `peak`, then half a cosine down to `floor` at the last update (Loshchilov & Hutter 2017)."""

    peak: float
    warmup: int
    steps: int
    floor: float = 0.0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return the rate of update `step`, which rises for `warmup` updates, then falls smoothly. `time_fraction` is
        the share of the training time that has passed; it counts if it is ahead of the updates.
        """
        step = max(step, int(time_fraction * self.steps))
        if step <= self.warmup:
            return self.peak * step / self.warmup
        decay_fraction = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.floor + (self.peak - self.floor) * 0.5 * (1 + math.cos(math.pi * decay_fraction))


@dataclass(frozen=True)
class LinearSchedule(LearningRateSchedule):
    """Linear warm-up to `peak`, then a linear decay to 0 at the last update (Devlin et al. 2019, A.2)."""

    peak: float
    warmup: int
    steps: int

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return the rate of update `step`, which rises for `warmup` updates, then falls linearly. `time_fraction` is
        the share of the training time that has passed; it counts if it is ahead of the updates.
        """
        step = max(step, int(time_fraction * self.steps))
        if step <= self.warmup:
            return self.peak * step / self.warmup
        return self.peak * max(0.0, (self.steps - step) / max(1, self.steps - self.warmup))


@dataclass(frozen=True)
class TimeBasedSchedule(LearningRateSchedule):
    """Another schedule, driven by the training time instead of the number of updates.

    Attributes:
        schedule: for a training of `TICKS` updates.
        warmup: number of updates of an additional linear warm-up.
    """

    TICKS: ClassVar[int] = 10_000

    schedule: LearningRateSchedule
    warmup: int = 0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return the rate of the inner schedule at the same share of its updates as of the time."""
        warmup_factor = min(1.0, step / self.warmup) if self.warmup else 1.0
        return warmup_factor * self.schedule.get_rate(min(self.TICKS, 1 + int(time_fraction * self.TICKS)))


@dataclass(frozen=True)
class ConstantSchedule(LearningRateSchedule):
    """Linear warm-up to `peak`, then a constant rate."""

    peak: float
    warmup: int = 0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return `peak` after the warm-up."""
        return self.peak * min(1.0, step / self.warmup) if self.warmup else self.peak


@dataclass(frozen=True)
class PlateauSchedule(ConstantSchedule):
    """Linear warm-up to `peak`, then a constant rate that is multiplied by `factor` after each `patience` evaluations
    in a row in which the monitored metric did not improve, but is not reduced below `floor`.

    How often it was reduced is part of the state of training, `TrainState.reductions`.
    """

    patience: int = 1
    factor: float = 0.5
    floor: float = 0.0

    def is_reduced_after(self, stale: int) -> bool:
        """Return whether `stale` evaluations without an improvement are a multiple of `patience`."""
        return stale > 0 and stale % self.patience == 0

    def get_reduction(self, count: int) -> float:
        """Return factor^count, or what leads to `floor` if that is more."""
        return max(self.factor**count, min(1.0, self.floor / self.peak))


@dataclass(frozen=True)
class StepDecaySchedule(LearningRateSchedule):
    """Linear warm-up to `peak`, which is kept for `start` updates and then multiplied by `factor` every `every` updates
    (Luong et al. 2015, 4.1: by a half after each epoch, from the fifth on).
    """

    peak: float
    start: int
    every: int
    factor: float = 0.5
    warmup: int = 0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return peak factor^n, where n counts the intervals of `every` updates that began after update `start`."""
        rising = min(1.0, step / self.warmup) if self.warmup else 1.0
        count = 0 if step <= self.start else 1 + (step - self.start - 1) // self.every
        return float(self.peak * rising * self.factor**count)
