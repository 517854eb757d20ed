"""Settings that recipes leave open, chosen by the compute budget and the number of examples (docs/numbers.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from heedful.recipes.recipe import ArchitectureConfig, FineTunableRecipe
from heedful.recipes.training import TrainingConfig

Settings: TypeAlias = Mapping[str, Any]
"""Recipe values by dotted key."""

_CORE_EXPONENT: Final = 0.8
"""Exponent of the number of cores in the speed-up of small models."""
_GPU_CORES: Final = 60.0
"""Number of CPU cores that a GPU counts as; small models leave most of it idle."""


@final
@dataclass(frozen=True)
class ComputeBudget:
    """Compute that training may use.

    Derived from core counts, not timings, so that the choice is reproducible.

    Attributes:
        seconds: seconds on one core; None if the clock does not end training.
    """

    seconds: float | None = None

    @classmethod
    def from_config(cls, config: TrainingConfig, *, threads: int, processes: int, gpu: bool) -> ComputeBudget:
        """Convert `training.minutes` to a compute budget for `processes` processes, each on one GPU if `gpu`, else on
        `threads` CPU threads. Without `training.minutes` the budget is unlimited.
        """
        if config.minutes is None:
            return cls()
        cores = _GPU_CORES * processes if gpu else threads * processes
        return cls(60 * config.minutes * cores**_CORE_EXPONENT)


FITTED_KEYS: Final = tuple(
    f"training.{key}"
    for key in ("epochs", "batch_tokens", "optimizer", "schedule", "clip", "precision", "monitor", "evaluate_every")
)
"""Recipe keys that `TrainingAmount.choose_settings` may set."""
_EVALUATION_COUNTS: Final = (2, 20)
_MIN_BATCH_TOKENS: Final = 256
"""Minimum tokens of a batch."""
_MIN_UPDATES: Final = 200
"""Minimum number of updates if the clock ends training early."""
_MIN_EVALUATION_INTERVAL: Final = 25
"""Minimum number of updates between two evaluations."""
_EVALUATION_SHARE: Final = 0.15
"""Share of the compute that evaluations may use, without the first and the last."""
_FORWARD_COST: Final = 1 / 3
"""Cost of a forward pass relative to a training step."""
_WEIGHT_TOKENS_PER_SECOND: Final = 1e10
"""Weights of a Transformer times training tokens that one core processes per second."""
_SPEED_BY_KIND: Final = {
    "windows": (3e-3, 5e9),
    "recurrent": (3e-3, 1.6e9),
    "conditional": (3e-3, 1.6e9),
    "siamese": (3e-3, 2.5e9),
}
"""Learning rate at width 128, and weights times tokens per second, of architectures that are not Transformers."""
_TRANSFORMER_SPEED: Final = (1e-3, _WEIGHT_TOKENS_PER_SECOND)
ADAPTER_RATE_FACTOR: Final = 5.0
"""Factor on the learning rate for adapters: 2e-3 did with LoRA what 1e-4 did for all weights (docs/adapters.md)."""
_TIME_SHARE: Final = 0.8
"""Share of the time budget that training may be expected to take if the clock should not end it."""


@final
@dataclass(frozen=True)
class LearningSpeed:
    """Highest learning rate of a model, and the training tokens that one core processes per second."""

    rate: float
    tokens_per_second: float

    @classmethod
    def from_architecture(cls, model: ArchitectureConfig) -> LearningSpeed:
        """Estimate the speed of a given architecture that is trained from scratch."""
        rate, weight_tokens_per_second = _SPEED_BY_KIND.get(model.kind, _TRANSFORMER_SPEED)
        return cls(rate * (128 / model.d_model) ** 0.5, weight_tokens_per_second / _count_weights(model))


def _count_weights(model: ArchitectureConfig) -> int:
    """Estimate the number of weights in the layers of a Transformer, or of another architecture of that size."""
    return 12 * model.d_model**2 * getattr(model, "layers", 1)


def is_unspecified(model: ArchitectureConfig, family: type[ArchitectureConfig]) -> bool:
    """Return whether the recipe sets no field of the model, or asks for the class `family` without any size."""
    return not model.model_fields_set or (isinstance(model, family) and not model.has_size)


@final
@dataclass(frozen=True)
class TrainingAmount:
    """Number of examples and tokens of a data set, and the size of its batches.

    Attributes:
        num_examples: number of examples.
        num_tokens: tokens in all of them.
        batch_examples: examples in a batch.
        max_batch_tokens: tokens in a batch at most.
    """

    num_examples: int
    num_tokens: float
    batch_examples: int = 32
    max_batch_tokens: int = 4096

    @property
    def batch_tokens(self) -> int:
        """Tokens of a batch."""
        return max(
            _MIN_BATCH_TOKENS,
            min(self.max_batch_tokens, round(self.batch_examples * self.num_tokens / self.num_examples)),
        )

    def choose_settings(
        self,
        budget: ComputeBudget,
        *,
        recipe: FineTunableRecipe,
        epochs: int,
        speed: LearningSpeed,
        monitor: str,
        validation_amount: TrainingAmount,
    ) -> Settings:
        """Choose batch size, a learning rate that decays to zero, and the evaluation interval, as values by recipe key.

        Args:
            budget: compute that training may use.
            recipe: recipe, which may set the length of training.
            epochs: epochs if the recipe sets no length and there is time; else the clock ends training.
            speed: speed of the model.
            monitor: metric that selects the best checkpoint.
            validation_amount: validation data that each evaluation reads.
        """
        training, batch_tokens = recipe.training, self.batch_tokens
        limits = [
            end
            for end in (
                training.epochs and training.epochs * self.num_tokens,
                training.steps and training.steps * batch_tokens,
            )
            if end
        ]
        all_tokens = min(limits, default=epochs * self.num_tokens)
        affordable_tokens = math.inf if budget.seconds is None else budget.seconds * speed.tokens_per_second
        is_slow = all_tokens > _TIME_SHARE * affordable_tokens
        trained_tokens = affordable_tokens if is_slow else all_tokens
        batch = (
            max(_MIN_BATCH_TOKENS, round(min(batch_tokens, trained_tokens / _MIN_UPDATES))) if is_slow else batch_tokens
        )
        return {
            **({} if limits or is_slow else {"training.epochs": epochs}),
            "training.batch_tokens": batch,
            "training.schedule": {"kind": "linear", "rate": float(f"{speed.rate:.2g}"), "warmup_share": 0.1},
            "training.clip": 1.0,
            "training.monitor": monitor,
            "training.evaluate_every": choose_evaluation_interval(
                trained_tokens, batch, validation_tokens=validation_amount.num_tokens
            ),
        }

    def choose_tuning_settings(
        self,
        budget: ComputeBudget,
        *,
        recipe: FineTunableRecipe,
        model: ArchitectureConfig,
        rate: float,
        monitor: str,
        validation_amount: TrainingAmount,
    ) -> Settings:
        """Choose the `training` settings for fine-tuning a pre-trained encoder within a compute budget; small data sets
        get more epochs. `rate` is the highest learning rate (adapters get a multiple of it), `monitor` the metric that
        selects the best checkpoint, and `validation_amount` the size of the validation data.
        """
        epochs = max(3, min(8, math.ceil(16_000 / self.num_examples)))
        if recipe.training.adapter is not None:
            rate *= ADAPTER_RATE_FACTOR
        return {
            **self.choose_settings(
                budget,
                recipe=recipe,
                epochs=epochs,
                speed=LearningSpeed(rate, _WEIGHT_TOKENS_PER_SECOND / _count_weights(model)),
                monitor=monitor,
                validation_amount=validation_amount,
            ),
            "training.optimizer": {"kind": "adam", "beta2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01},
        }


def choose_evaluation_interval(train_tokens: float, batch_tokens: float, *, validation_tokens: float) -> int:
    """Return the number of updates between two evaluations, so that evaluation takes a small share of the compute.

    Args:
        train_tokens: training tokens in all.
        batch_tokens: tokens of an update.
        validation_tokens: tokens of the validation data.
    """
    min_evaluations, max_evaluations = _EVALUATION_COUNTS
    num_evaluations = max(
        min_evaluations,
        min(max_evaluations, _EVALUATION_SHARE * train_tokens / max(1.0, _FORWARD_COST * validation_tokens)),
    )
    return max(_MIN_EVALUATION_INTERVAL, math.ceil(train_tokens / batch_tokens / num_evaluations))
