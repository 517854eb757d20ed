"""Model and training settings for an amount of tagged text and a training budget (docs/tagging.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from heedful.data.tagged import TaggedSentence
from heedful.errors import DataError
from heedful.tasks.auto_settings import Settings
from heedful.tasks.fine_tuning_settings import LearningSpeed, TrainingAmount

PASSES: Final = 15
"""Over all sentences, from scratch."""
RECURRENT_PACE: Final = LearningSpeed(rate=3e-3, tokens_per_second=8000)
"""Of recurrent layers."""
_TOKENS_PER_WORD: Final = 1.4
"""Tokens of a word."""
_VOCAB_SIZE_LIMITS: Final = (500, 8000)
_WORDS_PER_PIECE: Final = 25
"""Words of text for each piece of the vocabulary."""


@final
@dataclass(frozen=True)
class TaggedTextSize:
    """Size of a tagged text: sentences, words, and the set of tags."""

    sentences: int
    words: int
    tags: frozenset[str]

    @classmethod
    def from_sentences(cls, sentences: Iterable[TaggedSentence]) -> TaggedTextSize:
        """Count the sentences, words and tags that are read; `DataError` if there are none."""
        count, words, tags = 0, 0, set[str]()
        for sentence in sentences:
            count += 1
            words += len(sentence.words)
            tags.update(sentence.tags)
        if not words:
            raise DataError("there is no text to learn from; check the training files")
        return cls(count, words, frozenset(tags))

    @property
    def training_amount(self) -> TrainingAmount:
        """The amount of training data in examples and tokens."""
        return TrainingAmount(self.sentences, self.words * _TOKENS_PER_WORD + 2 * self.sentences, max_batch_tokens=2048)

    def choose_scratch_settings(self) -> Settings:
        """Choose a vocabulary size and a recurrent model, which needs less text than attention."""
        low, high = _VOCAB_SIZE_LIMITS
        return {
            "tokenizer": {"kind": "bpe", "size": max(low, min(high, 500 * round(self.words / _WORDS_PER_PIECE / 500)))},
            "model.kind": "recurrent",
            "model.d_model": 128,
            "model.dropout": 0.4,
        }
