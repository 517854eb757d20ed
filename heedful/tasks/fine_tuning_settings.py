"""Batches and rates that suit so many labelled examples, from measurements (docs/numbers.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

from heedful.recipes.recipe import ArchitectureConfig, FineTunableRecipe
from heedful.tasks.auto_settings import ComputeBudget, Settings

FITTED_KEYS: Final = tuple(
    f"training.{key}"
    for key in ("epochs", "batch_tokens", "optimizer", "schedule", "clip", "precision", "monitor", "evaluate_every")
)
"""What `TrainingAmount.choose_settings` may choose."""
_EVALUATION_COUNTS: Final = (2, 20)
_MIN_BATCH_TOKENS: Final = 256
"""Tokens of a batch, at least."""
_MIN_UPDATES: Final = 200
"""That are wanted at least, where the clock ends training early."""
_MIN_EVALUATION_INTERVAL: Final = 25
"""Updates between two of them, at least."""
_EVALUATION_SHARE: Final = 0.15
"""Share of the work that evaluations may be, but for the first and the last one."""
_FORWARD_COST: Final = 1 / 3
"""What it takes to read a token, of what it takes to learn from it."""
_WEIGHT_TOKENS_PER_SECOND: Final = 1e10
"""Weights of a Transformer times tokens that one core learns from in a second."""
_SPEED_BY_KIND: Final = {
    "windows": (3e-3, 5e9),
    "recurrent": (3e-3, 1.6e9),
    "conditional": (3e-3, 1.6e9),
    "siamese": (3e-3, 2.5e9),
}
"""The rate at a width of 128, and weights times tokens in a second, of families that are no Transformers."""
_TRANSFORMER_SPEED: Final = (1e-3, _WEIGHT_TOKENS_PER_SECOND)
_ADAPTER_RATE_FACTOR: Final = 5.0
"""How much faster an adapter learns than all weights would: 2e-3 did with LoRA what 1e-4 did for these
(docs/adapters.md)."""
_TIME_SHARE: Final = 0.8
"""Share of the time that training may be expected to take, if its end is not left to the clock."""


@final
@dataclass(frozen=True)
class LearningSpeed:
    """How fast a model learns: the highest learning rate, and tokens that one core learns from in a second."""

    rate: float
    tokens_per_second: float

    @classmethod
    def from_architecture(cls, model: ArchitectureConfig) -> LearningSpeed:
        """From scratch, of a model that somebody has named."""
        rate, weight_tokens_per_second = _SPEED_BY_KIND.get(model.kind, _TRANSFORMER_SPEED)
        return cls(rate * (128 / model.d_model) ** 0.5, weight_tokens_per_second / _count_weights(model))


def _count_weights(model: ArchitectureConfig) -> int:
    """Of the layers of a Transformer; those of other families are about as many."""
    return 12 * model.d_model**2 * getattr(model, "layers", 1)


def is_unspecified(model: ArchitectureConfig, family: type[ArchitectureConfig]) -> bool:
    """Whether nobody has said of a model what it is, or no more than that it is of some family."""
    return not model.model_fields_set or (isinstance(model, family) and not model.has_size)


@final
@dataclass(frozen=True)
class TrainingAmount:
    """Examples, as what reads them counts.

    Attributes:
        num_examples: how many.
        num_tokens: in all of them.
        batch_examples: examples of a batch.
        max_batch_tokens: tokens of a batch, at most.
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
        """Small batches, rates that fall to nothing, and a look at the validation examples now and then.

        Args:
            budget: what training may take.
            recipe: which may say when training ends.
            epochs: over all examples, where it does not and there is time; else the clock ends training.
            speed: of the model.
            monitor: what is to be as good as possible.
            validation_amount: what is read at each look.
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
        """What suits an encoder that was trained before, of some architecture; few examples are read more often."""
        epochs = max(3, min(8, math.ceil(16_000 / self.num_examples)))
        if recipe.training.adapter is not None:
            rate *= _ADAPTER_RATE_FACTOR
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
    """Updates between two looks at a validation text, which must not take the time that learning needs.

    Args:
        train_tokens: that are learned from in all.
        batch_tokens: tokens of an update.
        validation_tokens: tokens of that text.
    """
    min_evaluations, max_evaluations = _EVALUATION_COUNTS
    num_evaluations = max(
        min_evaluations,
        min(max_evaluations, _EVALUATION_SHARE * train_tokens / max(1.0, _FORWARD_COST * validation_tokens)),
    )
    return max(_MIN_EVALUATION_INTERVAL, math.ceil(train_tokens / batch_tokens / num_evaluations))
