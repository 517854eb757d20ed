"""The model and the rates that suit so many labelled texts and so much time, from measurements (docs/numbers.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from heedful.data.labelled import Choice, Labelled
from heedful.errors import DataError
from heedful.recipes.section import Section
from heedful.tasks.fitting import Means, Settings

TEXTS: Final = 32
"""Texts in a batch."""
_SEEN: Final = 16_000
"""Texts that are read in all, at least, each as often as that takes."""
_PASSES: Final = (4, 8)
"""Passes over the texts, at least: of many texts, and of few."""
_FEW: Final = 20_000
"""Texts that are few."""
_SPEED: Final = 30_000
"""Tokens that one core learns from in a second, in windows."""
_TUNED: Final = 6e9
"""Numbers of a pre-trained encoder times tokens that one core learns from in a second."""
_TUNED_SEEN: Final = 10_000
"""Texts that fine-tuning reads in all, at least."""
_PAIRS: Final = 1.15
"""Tokens of a word, with the marks beside it."""
_EVALUATIONS: Final = 20
_BUCKETS: Final = (4096, 262_144)
_ROWS: Final = 2_000_000
"""Weights of n-grams, at most."""


@final
@dataclass(frozen=True)
class Amount:
    """How many labelled texts there are.

    Attributes:
        examples: of them; those of a choice count with each candidate.
        words: in all of them.
        classes: how many different labels.
    """

    examples: int
    words: int
    classes: int

    @classmethod
    def of(cls, examples: Iterable[Labelled | Choice]) -> Amount:
        """Of all that is read; `DataError` where that is nothing."""
        count, words, labels = 0, 0, set[object]()
        for example in examples:
            texts = example.candidates if isinstance(example, Choice) else (example.texts,)
            count += len(texts)
            words += sum(len(text.split()) for each in texts for text in each)
            if isinstance(example, Labelled):
                labels.add(example.label)
        if not words:
            raise DataError("there is no text to learn from; check the training files")
        return cls(count, words, len(labels))

    @property
    def length(self) -> float:
        """Tokens of a text with its begin and end."""
        return self.words * _PAIRS / self.examples + 2

    @property
    def tokens(self) -> float:
        """About how many there are."""
        return self.examples * self.length


def from_scratch(amount: Amount, *, voting: bool) -> Settings:
    """A model of words; `voting` says whether logistic regression can vote beside it."""
    buckets = 2 ** math.ceil(math.log2(2 * amount.words))
    most = 2 ** int(math.log2(_ROWS / max(2, amount.classes)))
    bag = {"buckets": max(_BUCKETS[0], min(buckets, most, _BUCKETS[1]))}
    return {
        "tokenizer": {"kind": "words", "lowercase": True},
        "model": {"kind": "windows", "embedding_dropout": 0.2, **({"bag": bag} if voting else {})},
    }


def tuned(amount: Amount, means: Means, model: Section, *, monitor: str, ended: bool) -> Settings:
    """What suits an encoder that was trained before.

    Args:
        amount: what there is to learn from.
        means: what training may take.
        model: the encoder.
        monitor: what is to be as good as possible.
        ended: whether somebody has said when training ends.
    """
    width, layers = getattr(model, "d_model", 256), getattr(model, "layers", 4)
    seconds = 12 * width**2 * layers * amount.tokens / _TUNED  # of a pass
    wanted = max(3, min(12, round(_TUNED_SEEN / amount.examples)))
    whole = means.seconds is None or wanted * seconds < 0.9 * means.seconds
    return {
        "model.summary": {"kind": "mean"},
        "model.dropout": 0.1,
        **training(amount, means, monitor=monitor, rate=3e-4 if width >= 384 else 1e-3, passes=wanted if whole and not ended else None),
        "training.layer_decay": 0.9,
        "training.clip": 1.0,
    }


def training(amount: Amount, means: Means, *, monitor: str, rate: float = 3e-3, passes: int | None = None) -> Settings:
    """Small batches, and rates that fall to nothing.

    Args:
        amount: what there is to learn from.
        means: what training may take.
        monitor: what is to be as good as possible.
        rate: the highest one.
        passes: over all texts; None where somebody has said when training ends.
    """
    updates = math.ceil(amount.examples / TEXTS) * (passes or _PASSES[1])
    return {
        **({} if passes is None else {"training.epochs": passes}),
        "training.batch_tokens": max(256, round(TEXTS * amount.length)),
        "training.schedule": {"kind": "linear", "rate": rate, "warmup_share": 0.1},
        "training.precision": "fp32",
        "training.monitor": monitor,
        "training.evaluate_every": max(25, math.ceil(updates / _EVALUATIONS)),
    }


def passes(amount: Amount, means: Means) -> int | None:
    """How often windows read all texts; None where the clock ends it before."""
    least = _PASSES[amount.examples <= _FEW]
    wanted = max(least, math.ceil(_SEEN / amount.examples))
    return wanted if means.seconds is None or wanted * amount.tokens / _SPEED < 0.7 * means.seconds else None
