"""Batches and rates that suit so many labelled examples, from measurements (docs/numbers.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

from heedful.recipes.recipe import Architecture, TunedRecipe
from heedful.tasks.fitting import Means, Settings

KEYS: Final = tuple(
    f"training.{key}"
    for key in ("epochs", "batch_tokens", "optimizer", "schedule", "clip", "precision", "monitor", "evaluate_every")
)
"""What `Lessons.settings` may choose."""
_EVALUATIONS: Final = (2, 20)
_SMALLEST: Final = 256
"""Tokens of a batch, at least."""
_UPDATES: Final = 200
"""That are wanted at least, where the clock ends training early."""
_LEAST: Final = 25
"""Updates between two of them, at least."""
_LOOKING: Final = 0.15
"""Share of the work that evaluations may be, but for the first and the last one."""
_FORWARD: Final = 1 / 3
"""What it takes to read a token, of what it takes to learn from it."""
_POWER: Final = 1e10
"""Weights of a Transformer times tokens that one core learns from in a second."""
_FROM_SCRATCH: Final = {
    "windows": (3e-3, 5e9),
    "recurrent": (3e-3, 1.6e9),
    "conditional": (3e-3, 1.6e9),
    "siamese": (3e-3, 2.5e9),
}
"""The rate at a width of 128, and weights times tokens in a second, of families that are no Transformers."""
_CAREFUL: Final = (1e-3, _POWER)
_ADAPTED: Final = 5.0
"""How much faster an adapter learns than all weights would: 2e-3 did with LoRA what 1e-4 did for these
(docs/adapters.md)."""
_ROOM: Final = 0.8
"""Share of the time that training may be expected to take, if its end is not left to the clock."""


@final
@dataclass(frozen=True)
class Pace:
    """How fast a model learns: the highest learning rate, and tokens that one core learns from in a second."""

    rate: float
    speed: float

    @classmethod
    def of(cls, model: Architecture) -> Pace:
        """From scratch, of a model that somebody has named."""
        rate, power = _FROM_SCRATCH.get(model.kind, _CAREFUL)
        return cls(rate * (128 / model.d_model) ** 0.5, power / _weights(model))


def _weights(model: Architecture) -> int:
    """Of the layers of a Transformer; those of other families are about as many."""
    return 12 * model.d_model**2 * getattr(model, "layers", 1)


def is_left(model: Architecture, family: type[Architecture]) -> bool:
    """Whether nobody has said of a model what it is, or no more than that it is of some family."""
    return not model.model_fields_set or (isinstance(model, family) and not model.sized)


@final
@dataclass(frozen=True)
class Lessons:
    """Examples, as what reads them counts.

    Attributes:
        examples: how many.
        tokens: in all of them.
        together: examples of a batch.
        most: tokens of a batch, at most.
    """

    examples: int
    tokens: float
    together: int = 32
    most: int = 4096

    @property
    def batch(self) -> int:
        """Tokens of a batch."""
        return max(_SMALLEST, min(self.most, round(self.together * self.tokens / self.examples)))

    def settings(
        self,
        means: Means,
        *,
        recipe: TunedRecipe,
        passes: int,
        pace: Pace,
        monitor: str,
        validation: Lessons,
    ) -> Settings:
        """Small batches, rates that fall to nothing, and a look at the validation examples now and then.

        Args:
            means: what training may take.
            recipe: which may say when training ends.
            passes: over all examples, where it does not and there is time; else the clock ends training.
            pace: of the model.
            monitor: what is to be as good as possible.
            validation: what is read at each look.
        """
        asked, each = recipe.training, self.batch
        ends = [end for end in (asked.epochs and asked.epochs * self.tokens, asked.steps and asked.steps * each) if end]
        whole = min(ends, default=passes * self.tokens)
        time = math.inf if means.seconds is None else means.seconds * pace.speed
        slow = whole > _ROOM * time
        done = time if slow else whole
        batch = max(_SMALLEST, round(min(each, done / _UPDATES))) if slow else each
        return {
            **({} if ends or slow else {"training.epochs": passes}),
            "training.batch_tokens": batch,
            "training.schedule": {"kind": "linear", "rate": float(f"{pace.rate:.2g}"), "warmup_share": 0.1},
            "training.clip": 1.0,
            "training.monitor": monitor,
            "training.evaluate_every": evaluate_every(done, batch, read=validation.tokens),
        }

    def tuning(
        self, means: Means, *, recipe: TunedRecipe, model: Architecture, rate: float, monitor: str, validation: Lessons
    ) -> Settings:
        """What suits an encoder that was trained before, of some architecture; few examples are read more often."""
        passes = max(3, min(8, math.ceil(16_000 / self.examples)))
        if recipe.training.adapter is not None:
            rate *= _ADAPTED
        return {
            **self.settings(
                means,
                recipe=recipe,
                passes=passes,
                pace=Pace(rate, _POWER / _weights(model)),
                monitor=monitor,
                validation=validation,
            ),
            "training.optimizer": {"kind": "adam", "beta2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01},
        }


def evaluate_every(tokens: float, batch: float, *, read: float) -> int:
    """Updates between two looks at a validation text, which must not take the time that learning needs.

    Args:
        tokens: that are learned from in all.
        batch: tokens of an update.
        read: tokens of that text.
    """
    fewest, most = _EVALUATIONS
    looks = max(fewest, min(most, _LOOKING * tokens / max(1.0, _FORWARD * read)))
    return max(_LEAST, math.ceil(tokens / batch / looks))
