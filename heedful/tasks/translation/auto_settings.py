"""Automatic choice of model size and training settings for an amount of text and a time budget, from measurements
(docs/numbers.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar, final

from heedful.architectures.model import TransformerConfig
from heedful.data.readers import SentencePair
from heedful.errors import DataError
from heedful.recipes.text import GivenPairConfig, TokenizerConfig
from heedful.recipes.training import TrainingConfig
from heedful.tasks.auto_settings import ComputeBudget, Settings
from heedful.tasks.translation.recipe import TranslationRecipe

T = TypeVar("T")


@final
@dataclass(frozen=True)
class TransformerShape:
    """Size of a Transformer.

    Attributes:
        d_model: model width.
        d_ff: width of the feed-forward layers.
        layers: number of encoder and decoder layers.
    """

    d_model: int
    d_ff: int
    layers: tuple[int, int]

    @classmethod
    def from_config(cls, model: TransformerConfig) -> TransformerShape:
        """Return the shape that a recipe defines."""
        return cls(model.d_model, model.d_ff, (model.encoder_layers, model.decoder_layers))

    @property
    def settings(self) -> Settings:
        """Recipe keys and values of the shape."""
        encoder, decoder = self.layers
        return {
            "model.d_model": self.d_model,
            "model.heads": max(4, self.d_model // 64),
            "model.d_ff": self.d_ff,
            "model.encoder_layers": encoder,
            "model.decoder_layers": decoder,
        }

    def estimate_speed(self, vocabulary: int) -> float:
        """Estimate how many target tokens one core trains on per second with a vocabulary of this size."""
        encoder, decoder = self.layers
        width, feed_forward_weights = self.d_model, 2 * self.d_model * self.d_ff
        layers = encoder * (4 * width**2 + feed_forward_weights) + decoder * (8 * width**2 + feed_forward_weights)
        return _WEIGHTS_PER_SECOND / (layers + vocabulary * width)

    @property
    def peak_learning_rate(self) -> float:
        """Peak learning rate, which is lower for wider or deeper models."""
        return _BASE_LEARNING_RATE * math.pow(128 / self.d_model, 1.25) * math.sqrt(2 / max(2, *self.layers))


_SHAPES: Final = (
    (TransformerShape(128, 256, (2, 1)), 0, 0.0, 0.0),
    (TransformerShape(128, 512, (2, 2)), 0, 20.0, 2.5e6),
    (TransformerShape(128, 512, (4, 4)), 10_000, 120.0, 2.4e7),
    (TransformerShape(256, 1024, (4, 4)), 60_000, 80.0, 6e7),
)
"""Shapes from small to large, with the number of pairs, of passes over them and of training tokens from which each is
at least as good as the one before; measured for the second, in part for the third, else estimated."""
_WEIGHTS_PER_SECOND: Final = 8e9
"""Number of weights times tokens that one core trains on per second."""
_BASE_LEARNING_RATE: Final = 5e-3
"""Learning rate of a width of 128 and two layers."""
_MAX_POST_NORM_RATE: Final = 2e-3
"""Highest stable learning rate of a post-norm model of width 128."""
_CONTINUED_RATE_SHARE: Final = 0.3
"""Share of the initial learning rate for continued training with the same vocabulary."""
_DEFAULT_PASSES: Final = 5
"""Default number of passes over the text in continued training."""
_OTHER_LEARNING_RATE: Final = 1e-3
"""Learning rate of a width of 128 for model families without measurements."""
_LETTERS_PER_PIECE: Final = 3.5
"""Mean number of letters of a piece."""
_DROPOUT: Final = ((15.0, 0.1), (50.0, 0.2), (math.inf, 0.3))
"""Dropout by the maximum number of passes over the text."""
_BATCH_TOKENS: Final = ((6e6, 1024), (4e7, 2048), (math.inf, 4096))
"""Tokens of a batch by the maximum total number of training tokens."""


@final
@dataclass(frozen=True)
class CorpusSize:
    """Size of a parallel corpus.

    Attributes:
        pairs: number of sentence pairs.
        letters: number of letters of both sides.
        alphabet: number of different letters.
    """

    pairs: int
    letters: int
    alphabet: int

    @classmethod
    def from_pairs(cls, pairs: Iterable[SentencePair]) -> CorpusSize:
        """Count all pairs; raise DataError if there is no text."""
        count, letters, alphabet = 0, 0, set[str]()
        for pair in pairs:
            count += 1
            letters += len(pair.source) + len(pair.target)
            alphabet.update(pair.source, pair.target)
        if not letters:
            raise DataError("there is no text to learn from; check the training files")
        return cls(count, letters, len(alphabet))

    @property
    def num_tokens(self) -> float:
        """Estimated number of pieces of one side."""
        return self.letters / 2 / _LETTERS_PER_PIECE + self.pairs

    @property
    def vocabulary_size(self) -> int:
        """Suitable vocabulary size: two pieces for three pairs in small corpora, fewer per pair in large ones, and
        always more than letters.
        """
        maximum = min(16_000, 8000 * math.sqrt(max(1.0, self.pairs / 100_000)))
        return max(2000, 500 * round(min(self.pairs / 1.5, maximum) / 500)) + 500 * (self.alphabet // 500)


def choose_settings(corpus_size: CorpusSize, budget: ComputeBudget, *, recipe: TranslationRecipe) -> Settings:
    """Choose vocabulary size, Transformer shape (if the recipe does not define it) and training settings.

    Args:
        corpus_size: size of the training text.
        budget: budget of the training.
        recipe: may define some settings itself.
    """
    model, tokenizer = recipe.model, recipe.tokenizer
    assert isinstance(model, TransformerConfig), "nothing was measured for other families"
    assert isinstance(tokenizer, TokenizerConfig), "a vocabulary is given with a model"
    pieces = tokenizer.kind in ("bpe", "unigram") and tokenizer.target is None
    given_size = tokenizer.size if "size" in tokenizer.model_fields_set else None
    training_plan = _TrainingPlan(corpus_size, given_size or corpus_size.vocabulary_size, budget)
    shape = TransformerShape.from_config(model) if model.has_size else training_plan.best_shape
    num_passes = training_plan.count_passes(shape, recipe.training)
    batch = _lookup_bound(_BATCH_TOKENS, num_passes * corpus_size.num_tokens)
    max_rate = _MAX_POST_NORM_RATE * math.sqrt(128 / shape.d_model) if _is_post_norm(model) else math.inf
    return {
        **({"tokenizer.size": corpus_size.vocabulary_size} if pieces else {}),
        **({} if model.has_size else _model_settings(shape, num_passes)),
        "training.batch_tokens": batch,
        "training.schedule": {
            "kind": "linear",
            "rate": float(f"{min(shape.peak_learning_rate, max_rate):.2g}"),
            "warmup_share": 0.1,
        },
        # loss rises again where few sentences are read often, long before translations stop getting better
        "training.monitor": "accuracy",
        "training.evaluate_every": min(1000, max(100, round(corpus_size.num_tokens / batch))),
    }


def choose_continued_settings(
    corpus_size: CorpusSize, *, recipe: TranslationRecipe, total_size: CorpusSize
) -> Settings:
    """Choose settings for continued training of an existing model: batches as for a new one, and a learning rate that
    is lower if the vocabulary stays (docs/going-on.md). `total_size` includes the rehearsed text.

    Args:
        corpus_size: size of an epoch's own text.
        recipe: with the architecture of its `init`.
        total_size: size of all text that a vocabulary is learned from, rehearsed text included.
    """
    model, training, tokenizer = recipe.model, recipe.training, recipe.tokenizer
    num_passes = min(_iter_pass_limits(corpus_size, training), default=_DEFAULT_PASSES)
    batch = _lookup_bound(_BATCH_TOKENS, num_passes * corpus_size.num_tokens)
    if isinstance(model, TransformerConfig):
        max_rate = _MAX_POST_NORM_RATE * math.sqrt(128 / model.d_model) if _is_post_norm(model) else math.inf
        rate = min(TransformerShape.from_config(model).peak_learning_rate, max_rate)
    else:
        rate = _OTHER_LEARNING_RATE * math.sqrt(128 / model.d_model)
    pieces = tokenizer.kind in ("bpe", "unigram") and tokenizer.target is None
    if isinstance(tokenizer, GivenPairConfig):
        rate *= _CONTINUED_RATE_SHARE
    return {
        **({"tokenizer.size": total_size.vocabulary_size} if pieces else {}),
        "training.batch_tokens": batch,
        "training.schedule": {"kind": "linear", "rate": float(f"{rate:.2g}"), "warmup_share": 0.1},
        "training.monitor": "accuracy",
        "training.evaluate_every": min(1000, max(50, round(min(num_passes, 2) * corpus_size.num_tokens / batch / 4))),
    }


def _is_post_norm(model: TransformerConfig) -> bool:
    """Return whether the recipe sets post-norm, or defines the size and leaves the default."""
    return model.residual == "post_norm" and (model.has_size or "residual" in model.model_fields_set)


def _model_settings(shape: TransformerShape, num_passes: float) -> Settings:
    """Return the settings of a new Transformer: its shape, pre-norm, rotary positions, and more dropout the more often
    the text is read.
    """
    return {
        **shape.settings,
        "model.dropout": _lookup_bound(_DROPOUT, num_passes),
        "model.residual": "pre_norm",
        "model.positions": {"kind": "rotary"},
    }


@final
@dataclass(frozen=True)
class _TrainingPlan:
    """A corpus with its vocabulary size and the training budget."""

    amount: CorpusSize
    vocabulary: int
    budget: ComputeBudget

    @property
    def best_shape(self) -> TransformerShape:
        """Largest shape that is worthwhile within the time budget."""

        def is_worthwhile(shape: TransformerShape, pairs: int, passes: float, tokens: float) -> bool:
            """Return whether there are enough pairs for a shape, and time for these passes or these tokens."""
            return self.amount.pairs >= pairs and self._passes_in_time(shape) >= min(
                passes, tokens / self.amount.num_tokens
            )

        return [row[0] for row in _SHAPES if is_worthwhile(*row)][-1]

    def count_passes(self, shape: TransformerShape, training: TrainingConfig) -> float:
        """Estimate how often the text is read until training ends."""
        limits = [self._passes_in_time(shape), *_iter_pass_limits(self.amount, training)]
        return min(limits)

    def _passes_in_time(self, shape: TransformerShape) -> float:
        """Estimate how often the text can be read within the time budget."""
        if self.budget.seconds is None:
            return math.inf
        return self.budget.seconds * shape.estimate_speed(self.vocabulary) / self.amount.num_tokens


def _iter_pass_limits(corpus_size: CorpusSize, training: TrainingConfig) -> Iterator[float]:
    """Yield the number of passes over the text until each limit of the recipe (epochs, steps) but the time."""
    if training.epochs is not None:
        yield training.epochs
    if training.steps is not None:
        yield training.steps * training.accumulate * _get_batch_tokens(training) / corpus_size.num_tokens


def _get_batch_tokens(training: TrainingConfig) -> int:
    """Return the tokens of a batch: those that the recipe gives, else as many as suit its number of updates."""
    if "batch_tokens" in training.model_fields_set:
        return training.batch_tokens
    updates = (training.steps or 0) * training.accumulate
    return next(batch for bound, batch in _BATCH_TOKENS if updates * batch <= bound)


def _lookup_bound(table: Iterable[tuple[float, T]], value: float) -> T:
    """Return the entry of a table for the first bound that is at least `value`."""
    return next(entry for bound, entry in table if value <= bound)
