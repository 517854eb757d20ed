"""Choose model and training settings by the number of labelled texts and the time, from measurements
(docs/numbers.md).
"""

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
"""Speed of window classifiers."""
PAIR_SPEED: Final = LearningSpeed(rate=3e-3, tokens_per_second=50_000)
"""Speed of models that compare two texts."""
LARGE_D_MODEL: Final = 384
"""Width from which a pre-trained encoder is fine-tuned with a lower learning rate."""
_MIN_TEXTS_SEEN: Final = 16_000
"""Minimum number of texts that training reads, repetitions included."""
_MIN_EPOCHS: Final = (4, 8)
"""Minimum epochs: of large and of small data sets."""
_SMALL_DATASET: Final = 20_000
"""Number of texts up to which a data set is small."""
_TOKENS_PER_WORD: Final = 1.15
"""Tokens per word, punctuation included."""
_VOCAB_SIZE_BOUNDS: Final = (2_000, 8_000)
"""Vocabulary size of text pairs: small, so that unseen words share pieces with known ones."""
_WORDS_PER_PIECE: Final = 100
"""Words of the training text per vocabulary entry, if that gives a larger vocabulary."""
_PIECES_PER_WORD: Final = 1.6
"""Pieces per word of such a vocabulary, punctuation included."""
_BUCKET_BOUNDS: Final = (4096, 262_144)
_MAX_NGRAM_WEIGHTS: Final = 2_000_000
"""Maximum number of n-gram weights."""


@final
@dataclass(frozen=True)
class LabelledDataStats:
    """Size statistics of labelled texts.

    Attributes:
        num_examples: number of examples; a choice counts with each candidate.
        num_words: words in all of them.
        num_classes: number of different labels.
        all_pairs: whether all of them have two texts.
    """

    num_examples: int
    num_words: int
    num_classes: int
    all_pairs: bool = False

    @classmethod
    def from_examples(cls, examples: Iterable[LabelledExample | MultipleChoiceExample]) -> LabelledDataStats:
        """Count the examples of a data set; raise `DataError` if it has no text."""
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
        """Training amount, estimated from the number of words."""
        return TrainingAmount(self.num_examples, self.num_words * _TOKENS_PER_WORD + 2 * self.num_examples)

    @property
    def pair_training_amount(self) -> TrainingAmount:
        """Training amount in the pieces of `choose_pair_model`'s vocabulary."""
        return TrainingAmount(self.num_examples, self.num_words * _PIECES_PER_WORD + 3 * self.num_examples)

    @property
    def num_epochs(self) -> int:
        """Number of epochs: a few, and more for small data sets."""
        return max(_MIN_EPOCHS[self.num_examples <= _SMALL_DATASET], math.ceil(_MIN_TEXTS_SEEN / self.num_examples))


def choose_word_model(stats: LabelledDataStats, *, voting: bool) -> Settings:
    """Choose a model of words that is trained from scratch; `voting` adds a logistic regression on n-grams."""
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
    """Choose a model that compares two texts, with a small subword vocabulary."""
    smallest, largest = _VOCAB_SIZE_BOUNDS
    size = max(smallest, min(largest, stats.num_words // _WORDS_PER_PIECE))
    return {
        "tokenizer": {"kind": "bpe", "size": size, "lowercase": True},
        "model.kind": "siamese",
        "training.precision": "fp32",
        "training.average": 3,
    }
