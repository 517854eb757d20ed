"""The model and the rates that suit so much text and so much time, from measurements (docs/gpt.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from heedful.architectures.stack import DecoderConfig
from heedful.data.documents import Document
from heedful.errors import DataError
from heedful.tasks.fine_tuning_fit import evaluate_every, is_left
from heedful.tasks.fitting import Means, Settings
from heedful.tasks.language.recipe import LanguageRecipe

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
    """A decoder of four layers, and how it is fed.

    Attributes:
        d_model: its width.
        length: tokens that it sees.
        batch: tokens of an update.
        seconds: of one core, from which on it is worth its time.
    """

    d_model: int
    length: int
    batch: int
    seconds: float

    def model(self, dropout: float) -> Settings:
        """As a recipe has it."""
        return {
            "model.d_model": self.d_model,
            "model.layers": 4,
            "model.heads": 4,
            "model.dropout": dropout,
            "model.bias": False,
            "model.positions": {"kind": "rotary"},
        }


_SHAPES: Final = (Shape(128, 64, 768, 0), Shape(256, 128, 2048, 1500))
"""From small to large."""
_POWER: Final = 7.9e9
"""Weights times tokens that one core learns from in a second."""
_RATE: Final = (3e-3, 0.6)
"""The highest one of a width of 128, and the power of the width with which it falls."""


def letters(documents: Iterable[Document]) -> int:
    """Characters of all that is read; `DataError` where there are none."""
    count = sum(len(document.text) for document in documents)
    if not count:
        raise DataError("there is no text to learn from; check the training files")
    return count


def chosen(characters: int, means: Means, *, recipe: LanguageRecipe, validation: int) -> Settings:
    """What suits so many characters: a vocabulary and a GPT, where nobody says how large it is, and how it learns.

    Args:
        characters: of the text.
        means: what training may take; the smaller model where that is not said.
        recipe: which may say some of it.
        validation: characters that are read at each look.
    """
    training, seconds = recipe.training, means.seconds or 0.0
    shape = [shape for shape in _SHAPES if seconds >= shape.seconds][-1]
    is_open = is_left(recipe.model, DecoderConfig)
    width, layers = (shape.d_model, 4) if is_open else (recipe.model.d_model, getattr(recipe.model, "layers", 1))
    small = characters < _LETTERS
    tokens = characters if small else characters / 4
    learned = seconds * _POWER / (12 * width**2 * layers)
    limits = (training.epochs and training.epochs * tokens / shape.batch, training.steps, learned / shape.batch)
    updates = max(1.0, min((limit for limit in limits if limit), default=_UPDATES))
    passes = updates * shape.batch / tokens
    dropout = _DROPOUT[sum(passes >= often for often in _OFTEN)]
    rate, falling = _RATE
    return {
        "data.length": shape.length,
        "tokenizer": {"kind": "characters"} if small else {"kind": "bpe", "size": 8000},
        **(shape.model(dropout) if is_open else {}),
        "training.batch_tokens": shape.batch,
        "training.optimizer": {"kind": "adam", "beta2": 0.99, "weight_decay": 0.1},
        "training.schedule": {
            "kind": "linear",
            "rate": float(f"{rate * (128 / width) ** falling:.2g}"),
            "warmup_share": 0.05,
        },
        "training.clip": 1.0,
        "training.evaluate_every": min(
            1000, evaluate_every(updates * shape.batch, shape.batch, read=validation * tokens / characters)
        ),
    }
