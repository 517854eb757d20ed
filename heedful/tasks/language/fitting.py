"""The model and the rates that suit so much text and so much time, from measurements (docs/gpt.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, final

from heedful.data.documents import Document
from heedful.errors import DataError
from heedful.tasks.fine_tuning_fit import evaluate_every
from heedful.tasks.fitting import Means, Settings

_LETTERS: Final = 3_000_000
"""Characters from which on a vocabulary of subwords is worth its parameters."""
_UPDATES: Final = 2000.0
"""Where nothing tells how many there will be."""
_OFTEN: Final = (8.0, 20.0, 60.0)
"""Passes from which on a model is kept from learning a text by heart, and from which on more so."""
_DROPOUT: Final = (0.0, 0.1, 0.2, 0.3)


@final
@dataclass(frozen=True)
class Shape:
    """A size of the decoder that was measured.

    Attributes:
        d_model: its width.
        length: tokens that it sees.
        batch: tokens of an update.
        rate: the highest learning rate.
        speed: tokens that one core learns from in a second.
        seconds: of one core, from which on it is worth its time.
    """

    d_model: int
    length: int
    batch: int
    rate: float
    speed: float
    seconds: float

    def model(self, dropout: float) -> dict[str, Any]:
        """As a recipe has it."""
        return {
            "kind": "transformer",
            "d_model": self.d_model,
            "layers": 4,
            "heads": 4,
            "dropout": dropout,
            "bias": False,
            "positions": {"kind": "rotary"},
        }


_SHAPES: Final = (Shape(128, 64, 768, 3e-3, 10_000, 0), Shape(256, 128, 2048, 2e-3, 2500, 1500))
"""From small to large."""


def letters(documents: Iterable[Document]) -> int:
    """Characters of all that is read; `DataError` where there are none."""
    count = sum(len(document.text) for document in documents)
    if not count:
        raise DataError("there is no text to learn from; check the training files")
    return count


def chosen(characters: int, means: Means, *, epochs: int | None, steps: int | None, validation: int) -> Settings:
    """What suits so many characters.

    Args:
        characters: of the text.
        means: what training may take; the smaller model where that is not said.
        epochs: as somebody has said when training ends.
        steps: likewise.
        validation: characters that are read at each look.
    """
    seconds = means.seconds or 0.0
    shape = [shape for shape in _SHAPES if seconds >= shape.seconds][-1]
    small = characters < _LETTERS
    tokens = characters if small else characters / 4
    limits = (epochs and epochs * tokens / shape.batch, steps, seconds * shape.speed / shape.batch)
    updates = max(1.0, min((limit for limit in limits if limit), default=_UPDATES))
    passes = updates * shape.batch / tokens
    dropout = _DROPOUT[sum(passes >= often for often in _OFTEN)]
    return {
        "data.length": shape.length,
        "tokenizer": {"kind": "characters"} if small else {"kind": "bpe", "size": 8000},
        "model": shape.model(dropout),
        **_training(shape, updates, read=validation * tokens / characters),
    }


def _training(shape: Shape, updates: float, *, read: float) -> Settings:
    """Small batches, and rates that fall to nothing."""
    return {
        "training.batch_tokens": shape.batch,
        "training.optimizer": {"kind": "adam", "beta2": 0.99, "weight_decay": 0.1},
        "training.schedule": {"kind": "linear", "rate": shape.rate, "warmup_share": 0.05},
        "training.clip": 1.0,
        "training.evaluate_every": min(1000, evaluate_every(updates * shape.batch, shape.batch, read=read)),
    }
