"""The model and the rates that suit so much parallel text and so much time, from measurements (docs/numbers.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from heedful.data.readers import Pair
from heedful.errors import DataError
from heedful.tasks.fitting import Means, Settings


@final
@dataclass(frozen=True)
class Shape:
    """A size of the Transformer that a table of measurements has.

    Attributes:
        d_model: its width.
        layers: of the encoder, and of the decoder.
        rate: the learning rate at its peak.
        speed: tokens of the target that one core learns from in a second.
    """

    d_model: int
    layers: int
    rate: float
    speed: float

    @property
    def settings(self) -> Settings:
        """As a recipe has them."""
        return {
            "model.d_model": self.d_model,
            "model.heads": max(4, self.d_model // 64),
            "model.d_ff": 4 * self.d_model,
            "model.encoder_layers": self.layers,
            "model.decoder_layers": self.layers,
        }


_SHAPES: Final = (Shape(128, 2, 3e-3, 5000), Shape(192, 3, 2e-3, 2500), Shape(256, 4, 1.5e-3, 1200))
"""From small to large."""
_PASSES: Final = (0.0, 40.0, 80.0)
"""Passes over the text that each of them needs, if it is not to be worse than the one before."""
_PAIRS: Final = (0, 10_000, 60_000)
"""Pairs of sentences from which on each of them is worth its time."""
_LETTERS: Final = 3.5
"""Letters of a piece."""
_MANY: Final = 30.0
"""Passes from which on a model is kept from learning a text by heart."""


@final
@dataclass(frozen=True)
class Amount:
    """How much parallel text there is.

    Attributes:
        pairs: of sentences.
        letters: of both sides together.
        alphabet: how many different ones.
    """

    pairs: int
    letters: int
    alphabet: int

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> Amount:
        """Of all that is read; `DataError` where that is nothing."""
        count, letters, alphabet = 0, 0, set[str]()
        for pair in pairs:
            count += 1
            letters += len(pair.source) + len(pair.target)
            alphabet.update(pair.source, pair.target)
        if not letters:
            raise DataError("there is no text to learn from; check the training files")
        return cls(count, letters, len(alphabet))

    @property
    def tokens(self) -> float:
        """About how many pieces one side has."""
        return self.letters / 2 / _LETTERS + self.pairs


def chosen(amount: Amount, means: Means, *, pieces: bool) -> Settings:
    """What suits them.

    Args:
        amount: what there is to learn from.
        means: what training may take.
        pieces: whether the vocabulary is one of subwords, whose size can be chosen.
    """
    shape = _shape(amount, means)
    passes = _passes(shape, amount, means)
    batch = 1024 if passes * amount.tokens < 4e6 else 2048 if passes * amount.tokens < 2e7 else 4096
    return {
        **({"tokenizer.size": _vocabulary(amount)} if pieces else {}),
        **shape.settings,
        "model.dropout": 0.1 if passes < _MANY / 3 else 0.2 if passes < _MANY else 0.3,
        "model.residual": "pre_norm",
        "training.batch_tokens": batch,
        "training.schedule": {"kind": "linear", "rate": shape.rate, "warmup_share": 0.1},
        "training.evaluate_every": min(1000, max(100, round(amount.tokens / batch))),
    }


def _passes(shape: Shape, amount: Amount, means: Means) -> float:
    """How often a text is read in the time that there is; as often as one likes where the clock ends nothing."""
    return float("inf") if means.seconds is None else means.seconds * shape.speed / amount.tokens


def _shape(amount: Amount, means: Means) -> Shape:
    suiting = [
        shape
        for shape, passes, pairs in zip(_SHAPES, _PASSES, _PAIRS, strict=True)
        if _passes(shape, amount, means) >= passes and amount.pairs >= pairs
    ]
    return suiting[-1] if suiting else _SHAPES[0]


def _vocabulary(amount: Amount) -> int:
    """A piece for two or three pairs, and never fewer than letters."""
    return min(16_000, max(1000, 500 * round(amount.pairs / 2 / 500))) + 500 * (amount.alphabet // 500)
