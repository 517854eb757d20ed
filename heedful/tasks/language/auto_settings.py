"""Choose model and training settings by the amount of text and the time, from measurements (docs/gpt.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from heedful.architectures.stack import DecoderConfig
from heedful.data.documents import DocumentChunk
from heedful.errors import DataError
from heedful.tasks.auto_settings import ComputeBudget, Settings, choose_evaluation_interval, is_unspecified
from heedful.tasks.language.recipe import LanguageRecipe

_MIN_SUBWORD_CHARACTERS: Final = 3_000_000
"""Characters of text from which a subword vocabulary is worth its parameters."""
_DEFAULT_UPDATES: Final = 2000.0
"""Number of updates if nothing determines it."""
_DROPOUT_EPOCHS: Final = (8.0, 20.0, 60.0)
"""Epochs from which dropout is used against overfitting, and from which it is raised."""
_DROPOUT: Final = (0.0, 0.1, 0.2, 0.3)


@final
@dataclass(frozen=True)
class DecoderSize:
    """Size of a decoder of four layers, and its training batches.

    Attributes:
        d_model: its width.
        length: context length in tokens.
        batch_tokens: tokens of an update.
        min_seconds: seconds on one core from which it is worth its time.
    """

    d_model: int
    length: int
    batch_tokens: int
    min_seconds: float

    def model_settings(self, dropout: float) -> Settings:
        """Return the model settings of a recipe."""
        return {
            "model.d_model": self.d_model,
            "model.layers": 4,
            "model.heads": 4,
            "model.dropout": dropout,
            "model.bias": False,
            "model.positions": {"kind": "rotary"},
        }


_DECODER_SIZES: Final = (DecoderSize(128, 64, 768, 0), DecoderSize(256, 128, 2048, 1500))
"""Sizes from small to large."""
_WEIGHT_TOKENS_PER_SECOND: Final = 7.9e9
"""Weights times training tokens that one core processes per second."""
_RATE_SCALING: Final = (3e-3, 0.6)
"""Highest learning rate at width 128, and the exponent of the width by which it falls."""


def count_characters(documents: Iterable[DocumentChunk]) -> int:
    """Count the characters of documents; raise `DataError` if there are none."""
    count = sum(len(document.text) for document in documents)
    if not count:
        raise DataError("there is no text to learn from; check the training files")
    return count


def choose_language_settings(
    num_characters: int, budget: ComputeBudget, *, recipe: LanguageRecipe, validation_characters: int
) -> Settings:
    """Choose a vocabulary, a GPT if the recipe leaves its size open, and training settings.

    Args:
        num_characters: characters of the training text.
        budget: compute that training may use; the smaller model if unlimited.
        recipe: recipe, which may set some of it.
        validation_characters: characters of the validation text.
    """
    training, seconds = recipe.training, budget.seconds or 0.0
    decoder_size = [decoder_size for decoder_size in _DECODER_SIZES if seconds >= decoder_size.min_seconds][-1]
    is_open = is_unspecified(recipe.model, DecoderConfig)
    width, layers = (decoder_size.d_model, 4) if is_open else (recipe.model.d_model, getattr(recipe.model, "layers", 1))
    is_small = num_characters < _MIN_SUBWORD_CHARACTERS
    tokens = num_characters if is_small else num_characters / 4
    affordable_tokens = seconds * _WEIGHT_TOKENS_PER_SECOND / (12 * width**2 * layers)
    limits = (
        training.epochs and training.epochs * tokens / decoder_size.batch_tokens,
        training.steps,
        affordable_tokens / decoder_size.batch_tokens,
    )
    updates = max(1.0, min((limit for limit in limits if limit), default=_DEFAULT_UPDATES))
    epochs = updates * decoder_size.batch_tokens / tokens
    dropout = _DROPOUT[sum(epochs >= threshold for threshold in _DROPOUT_EPOCHS)]
    rate, exponent = _RATE_SCALING
    return {
        "data.length": decoder_size.length,
        "tokenizer": {"kind": "characters"} if is_small else {"kind": "bpe", "size": 8000},
        **(decoder_size.model_settings(dropout) if is_open else {}),
        "training.batch_tokens": decoder_size.batch_tokens,
        "training.optimizer": {"kind": "adam", "beta2": 0.99, "weight_decay": 0.1},
        "training.schedule": {
            "kind": "linear",
            "rate": float(f"{rate * (128 / width) ** exponent:.2g}"),
            "warmup_share": 0.05,
        },
        "training.clip": 1.0,
        "training.evaluate_every": min(
            1000,
            choose_evaluation_interval(
                updates * decoder_size.batch_tokens,
                decoder_size.batch_tokens,
                validation_tokens=validation_characters * tokens / num_characters,
            ),
        ),
    }
