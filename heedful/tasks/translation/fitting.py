"""The model and the rates that suit so much parallel text and so much time, from measurements (docs/numbers.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar, final

from heedful.data.readers import Pair
from heedful.errors import DataError
from heedful.tasks.fitting import Means, Settings

T = TypeVar("T")


@final
@dataclass(frozen=True)
class Shape:
    """A size of the Transformer, and for what it was measured to be worth its time.

    Attributes:
        d_model: its width.
        d_ff: inside its feed-forward blocks.
        layers: of the encoder, and of the decoder.
        rate: the learning rate at its peak.
        speed: tokens of the target that one core learns from in a second.
        passes: over the text from which on it is not worse than the shape before it.
        pairs: of sentences, likewise.
    """

    d_model: int
    d_ff: int
    layers: tuple[int, int]
    rate: float
    speed: float
    passes: float
    pairs: int

    @property
    def settings(self) -> Settings:
        """As a recipe has them."""
        encoder, decoder = self.layers
        return {
            "model.d_model": self.d_model,
            "model.heads": max(4, self.d_model // 64),
            "model.d_ff": self.d_ff,
            "model.encoder_layers": encoder,
            "model.decoder_layers": decoder,
        }


_SHAPES: Final = (
    Shape(128, 256, (2, 1), rate=5e-3, speed=5500, passes=0, pairs=0),
    Shape(128, 512, (2, 2), rate=5e-3, speed=4000, passes=20, pairs=0),
    Shape(128, 512, (4, 4), rate=3.5e-3, speed=2300, passes=60, pairs=10_000),
    Shape(256, 1024, (4, 4), rate=1.5e-3, speed=900, passes=40, pairs=60_000),
)
"""From small to large."""
_LETTERS: Final = 3.5
"""Letters of a piece."""
_DROPOUT: Final = ((15.0, 0.1), (50.0, 0.2), (math.inf, 0.3))
"""By the passes over the text until which each suits."""
_BATCH: Final = ((6e6, 1024), (4e7, 2048), (math.inf, 4096))
"""Tokens of a batch, by the tokens that are learned from in all."""


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
    batch = _first(_BATCH, passes * amount.tokens)
    return {
        **({"tokenizer.size": _vocabulary(amount)} if pieces else {}),
        **shape.settings,
        "model.dropout": _first(_DROPOUT, passes),
        "model.residual": "pre_norm",
        "model.positions": {"kind": "rotary"},
        "training.batch_tokens": batch,
        "training.schedule": {"kind": "linear", "rate": shape.rate, "warmup_share": 0.1},
        "training.evaluate_every": min(1000, max(100, round(amount.tokens / batch))),
    }


def _passes(shape: Shape, amount: Amount, means: Means) -> float:
    """How often a text is read in the time that there is; as often as one likes where the clock ends nothing."""
    return float("inf") if means.seconds is None else means.seconds * shape.speed / amount.tokens


def _shape(amount: Amount, means: Means) -> Shape:
    worth = [each for each in _SHAPES if _passes(each, amount, means) >= each.passes and amount.pairs >= each.pairs]
    return worth[-1]


def _first(table: Iterable[tuple[float, T]], value: float) -> T:
    """What a table has for the first bound that a value does not pass."""
    return next(found for bound, found in table if value <= bound)


def _vocabulary(amount: Amount) -> int:
    """Two pieces for three pairs, as far as the text has them, and more than letters."""
    return min(16_000, max(2000, 500 * round(amount.pairs / 1.5 / 500))) + 500 * (amount.alphabet // 500)
