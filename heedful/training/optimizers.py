"""Optimizers of the fp32 parameters, learning rate schedules, the moving average of weights, and the numeric
precision of training.
"""

from __future__ import annotations

import math
import platform
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from heedful.training.callbacks import require_same_tensors


@dataclass(frozen=True)
class _ParameterGroup:
    """Parameters with the same learning rate factor and weight decay."""

    names: tuple[str, ...]
    factor: float
    weight_decay: float


class Optimizer(ABC):
    """Abstract base of optimizers with decoupled weight decay.

    Only matrices are decayed, vectors (biases, gains) are not.

    Args:
        parameters: by name, fp32.
        weight_decay: share of a matrix that is removed, per unit of learning rate.
        factors: factor on the learning rate of single parameters; 1 for those that are not named.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        weight_decay: float = 0.0,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        self._parameters = dict(parameters)
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

    def state_dict(self) -> dict[str, Tensor]:
        """Return the optimizer state, by parameter and name; usually empty before the first step."""
        return {}

    def load_state_dict(self, tensors: Mapping[str, Tensor], *, location: str = "moments", prefix: str = "") -> None:
        """Load the tensors that `state_dict` returned; errors name the file that contains them (`location`) and precede
        their names by `prefix`, as the file does.

        Raises:
            RunError: a tensor is missing, unknown, or does not fit its parameter.
        """
        require_same_tensors(tensors, {}, location=location, prefix=prefix)


@final
class SGD(Optimizer):
    """Stochastic gradient descent, w - rate g (Robbins & Monro 1951), without momentum."""

    def _step_group(self, group: _ParameterGroup, learning_rate: float) -> None:
        """Subtract the gradients times the learning rate from the parameters of one group, after weight decay."""
        for name in group.names:
            parameter = self._parameters[name]
            if parameter.grad is not None:
                parameter.mul_(1 - learning_rate * group.weight_decay).add_(parameter.grad, alpha=-learning_rate)


@final
class Adam(Optimizer):
    """Adam with decoupled weight decay (Kingma & Ba 2015; Loshchilov & Hutter 2019), computed by torch.

    Moments are read and restored as plain tensors, so a checkpoint needs no pickle.

    Args:
        parameters: see `Optimizer`.
        betas: decay of the first and second moment; (0.9, 0.98) in Vaswani et al. 2017, 5.3.
        epsilon: added to the root of the second moment; 1e-9 in the same place.
        weight_decay: see `Optimizer`.
        factors: likewise.
    """

    _MOMENTS = ("exp_avg", "exp_avg_sq", "step")

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
        self._moments: dict[str, dict[str, Tensor]] = {}

    def _step_group(self, group: _ParameterGroup, learning_rate: float) -> None:
        """Update one group, with this learning rate, by the function behind `torch.optim.AdamW`.

        Calling it through the class takes as long as the step of a small model.
        """
        gradients = {name: grad for name in group.names if (grad := self._parameters[name].grad) is not None}
        moments = [self._get_moments(name) for name in gradients]
        beta1, beta2 = self._betas
        adamw(
            [self._parameters[name] for name in gradients],
            list(gradients.values()),
            [moment["exp_avg"] for moment in moments],
            [moment["exp_avg_sq"] for moment in moments],
            [],
            [moment["step"] for moment in moments],
            fused=True,
            amsgrad=False,
            maximize=False,
            lr=learning_rate,
            beta1=beta1,
            beta2=beta2,
            eps=self._epsilon,
            weight_decay=group.weight_decay,
        )

    def _get_moments(self, name: str) -> dict[str, Tensor]:
        """Return the moments of the parameter `name` by their names; zeros before its first update."""
        if name not in self._moments:
            templates = _build_moment_templates(self._parameters[name])
            self._moments[name] = {moment: torch.zeros_like(template) for moment, template in templates.items()}
        return self._moments[name]

    def state_dict(self) -> dict[str, Tensor]:
        """Return the moments as "PARAMETER.MOMENT"; empty before the first update."""
        return {
            f"{name}.{moment}": self._moments[name][moment]
            for name in self._parameters
            if name in self._moments
            for moment in self._MOMENTS
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor], *, location: str = "moments", prefix: str = "") -> None:
        """Load the moments that `state_dict` returned; errors name the file that contains them (`location`) and precede
        their names by `prefix`, as the file does.

        Raises:
            RunError: a moment is missing, unknown, or does not fit its parameter.
        """
        names_with_moments = {name.rpartition(".")[0] for name in tensors}
        parameters = {name: parameter for name, parameter in self._parameters.items() if name in names_with_moments}
        expected = {
            f"{name}.{moment}": template
            for name, p in parameters.items()
            for moment, template in _build_moment_templates(p).items()
        }
        require_same_tensors(tensors, expected, location=location, prefix=prefix)
        for name, parameter in parameters.items():
            self._moments[name] = {
                moment: tensors[f"{name}.{moment}"].clone().to(parameter.device) for moment in self._MOMENTS
            }


def _build_moment_templates(parameter: Tensor) -> dict[str, Tensor]:
    """Return a tensor with the shape and dtype of each moment of a parameter."""
    return {
        "exp_avg": parameter,
        "exp_avg_sq": parameter,
        "step": torch.empty((), dtype=torch.float32, device=parameter.device),
    }


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
    """Linear warm-up to `peak`, then peak sqrt(warmup / step): Noam with its peak as parameter."""

    peak: float
    warmup: int

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return a rate that rises for `warmup` updates, then falls with the square root of the step."""
        return self.peak * min(step / self.warmup, math.sqrt(self.warmup / step))


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


class Precision:
    """Link between the parameters that the model computes with and the fp32 masters that the optimizer updates.

    They are the same unless a subclass says otherwise.

    Args:
        model: the model to train.
        frozen: names of frozen parameters, which need no fp32 master because they are stored elsewhere.

    Attributes:
        parameters: of the model, without the frozen ones.
    """

    dtype = torch.float32

    def __init__(self, model: nn.Module, *, frozen: Collection[str] = ()) -> None:
        all_parameters = dict(model.named_parameters())
        self.parameters = {name: parameter for name, parameter in all_parameters.items() if name not in frozen}
        self._frozen = [all_parameters[name] for name in frozen]

    @property
    def masters(self) -> dict[str, Tensor]:
        """The fp32 parameters by name; `collect_gradients` sets their gradients."""
        return dict(self.parameters)

    @property
    def trainable(self) -> dict[str, Tensor]:
        """The masters of the parameters that are trained."""
        return {name: master for name, master in self.masters.items() if self.parameters[name].requires_grad}

    def collect_gradients(self) -> None:
        """Add the gradients of the last backward pass to those of the masters, where autograd has not done so."""

    def copy_to_model(self) -> None:
        """Copy the updated masters into the model."""


class FullPrecision(Precision):
    """fp32 throughout: the masters are the model's own parameters."""


class BF16WithMasters(Precision):
    """bf16 parameters and activations, with fp32 masters and gradient sums (Micikevicius et al. 2018, 3.1).

    Unlike with autocast, nothing is cast in each pass, and the gradients of accumulated batches are summed in fp32.
    bf16 has the range of fp32, so the loss needs no scaling.
    """

    dtype = torch.bfloat16

    def __init__(self, model: nn.Module, *, frozen: Collection[str] = ()) -> None:
        super().__init__(model, frozen=frozen)
        self._masters = {name: p.detach().clone().float() for name, p in self.parameters.items()}
        for parameter in (*self.parameters.values(), *self._frozen):
            parameter.data = parameter.data.to(self.dtype)

    @property
    def masters(self) -> dict[str, Tensor]:
        """The fp32 copies of the parameters, by name."""
        return self._masters

    def collect_gradients(self) -> None:
        """Add the bf16 gradients to the fp32 gradients of the masters."""
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            master = self._masters[name]
            if master.grad is None:
                master.grad = parameter.grad.float()
            else:
                master.grad += parameter.grad
            parameter.grad = None

    def copy_to_model(self) -> None:
        """Round the masters to bf16 and copy them into the model."""
        with torch.no_grad():
            torch._foreach_copy_(list(self.parameters.values()), list(self._masters.values()))


_MIN_BF16_WIDTH = 128
"""Width from which on bf16 products save more time on a CPU than their preparation costs (docs/numbers.md).

At width 64 bf16 is neither faster nor slower, with three times the memory.
"""


def is_faster_in_bf16(model: nn.Module, device: torch.device) -> bool:
    """Return whether the model trains faster in bf16 on the device; on a CPU only wide models do."""
    return has_fast_bf16(device) and (device.type != "cpu" or _find_width(model) >= _MIN_BF16_WIDTH)


def _find_width(model: nn.Module) -> int:
    """Return the smaller side of the widest weight matrix."""
    return max((min(parameter.flatten(1).shape) for parameter in model.parameters() if parameter.dim() > 1), default=0)


def has_fast_bf16(device: torch.device) -> bool:
    """Return whether bf16 products are faster than fp32 ones on the device, not merely supported.

    A CPU without AMX or AVX512-BF16 emulates them several times slower than fp32.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and platform.machine() in ("x86_64", "AMD64") and _cpu_has_bf16()


def _cpu_has_bf16() -> bool:
    probes: Sequence[str] = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(bool(getattr(torch.cpu, probe, lambda: False)()) for probe in probes)
