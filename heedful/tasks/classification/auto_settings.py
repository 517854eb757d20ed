"""The model and the rates that suit so many labelled texts and so much time, from measurements (docs/numbers.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.errors import DataError
from heedful.tasks.auto_settings import Settings
from heedful.tasks.fine_tuning_settings import LearningSpeed, TrainingAmount

WINDOW_SPEED: Final = LearningSpeed(rate=3e-3, tokens_per_second=30_000)
"""Of windows."""
PAIR_SPEED: Final = LearningSpeed(rate=3e-3, tokens_per_second=50_000)
"""Of what compares two texts."""
LARGE_D_MODEL: Final = 384
"""Width of a trained encoder from which on it learns more carefully."""
_MIN_TEXTS_SEEN: Final = 16_000
"""Texts that are read in all, at least, each as often as that takes."""
_MIN_EPOCHS: Final = (4, 8)
"""Passes over the texts, at least: of many texts, and of few."""
_SMALL_DATASET: Final = 20_000
"""Texts that are few."""
_TOKENS_PER_WORD: Final = 1.15
"""Tokens of a word, with the marks beside it."""
_VOCAB_SIZE_BOUNDS: Final = (2_000, 8_000)
"""Pieces of the vocabulary of pairs: small, so that words that were never seen are known by what they share."""
_WORDS_PER_PIECE: Final = 100
"""Words of the training text for each of them, where that makes more."""
_PIECES_PER_WORD: Final = 1.6
"""That such a vocabulary makes, with marks."""
_BUCKET_BOUNDS: Final = (4096, 262_144)
_MAX_NGRAM_WEIGHTS: Final = 2_000_000
"""Weights of n-grams, at most."""


@final
@dataclass(frozen=True)
class LabelledDataStats:
    """How many labelled texts there are.

    Attributes:
        num_examples: of them; those of a choice count with each candidate.
        num_words: in all of them.
        num_classes: how many different labels.
        all_pairs: whether all of them have two texts.
    """

    num_examples: int
    num_words: int
    num_classes: int
    all_pairs: bool = False

    @classmethod
    def from_examples(cls, examples: Iterable[LabelledExample | MultipleChoiceExample]) -> LabelledDataStats:
        """Of all that is read; `DataError` where that is nothing."""
        count, words, labels, paired = 0, 0, set[object](), True
        for example in examples:
            texts = example.candidates if isinstance(example, MultipleChoiceExample) else (example.texts,)
            count += len(texts)
            words += sum(len(text.split()) for text_tuple in texts for text in text_tuple)
            paired = paired and all(len(text_tuple) == 2 for text_tuple in texts)
            if isinstance(example, LabelledExample):
                labels.add(example.label)
        if not words:
            raise DataError("there is no text to learn from; check the training files")
        return cls(count, words, len(labels), paired)

    @property
    def training_amount(self) -> TrainingAmount:
        """What is learned from, about as many tokens as there are words with their marks, begins and ends."""
        return TrainingAmount(self.num_examples, self.num_words * _TOKENS_PER_WORD + 2 * self.num_examples)

    @property
    def pair_training_amount(self) -> TrainingAmount:
        """The same as the pieces of `choose_pair_model` count it."""
        return TrainingAmount(self.num_examples, self.num_words * _PIECES_PER_WORD + 3 * self.num_examples)

    @property
    def num_epochs(self) -> int:
        """Over all texts: a few, and more of few texts."""
        return max(_MIN_EPOCHS[self.num_examples <= _SMALL_DATASET], math.ceil(_MIN_TEXTS_SEEN / self.num_examples))


def choose_word_model(stats: LabelledDataStats, *, voting: bool) -> Settings:
    """A model of words; `voting` says whether logistic regression can vote beside it."""
    buckets = 2 ** math.ceil(math.log2(2 * stats.num_words))
    max_buckets = 2 ** int(math.log2(_MAX_NGRAM_WEIGHTS / max(2, stats.num_classes)))
    bag_config = {"buckets": max(_BUCKET_BOUNDS[0], min(buckets, max_buckets, _BUCKET_BOUNDS[1]))}
    return {
        "tokenizer": {"kind": "words", "lowercase": True},
        "model.kind": "windows",
        "model.embedding_dropout": 0.3,
        **({"model.bag": bag_config} if voting else {}),
        "training.precision": "fp32",
        "training.average": 3,
    }


def choose_pair_model(stats: LabelledDataStats) -> Settings:
    """A model that compares two texts, and a small vocabulary that knows parts of words."""
    smallest, largest = _VOCAB_SIZE_BOUNDS
    size = max(smallest, min(largest, stats.num_words // _WORDS_PER_PIECE))
    return {
        "tokenizer": {"kind": "bpe", "size": size, "lowercase": True},
        "model.kind": "siamese",
        "training.precision": "fp32",
        "training.average": 3,
    }
