"""The model and the rates that suit so many tagged sentences and so much time, from measurements (docs/tagging.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from heedful.data.tagged import TaggedSentence
from heedful.errors import DataError
from heedful.tasks.fine_tuning_fit import Lessons, Pace
from heedful.tasks.fitting import Settings

PASSES: Final = 15
"""Over all sentences, from scratch."""
PACE: Final = Pace(rate=3e-3, speed=8000)
"""Of recurrent layers."""
_PIECES: Final = 1.4
"""Tokens of a word."""
_VOCABULARY: Final = (500, 8000)
_SHARE: Final = 25
"""Words of text for each piece of the vocabulary."""


@final
@dataclass(frozen=True)
class Amount:
    """How much tagged text there is: sentences, words, and whether tags tell of entities."""

    sentences: int
    words: int
    tags: frozenset[str]

    @classmethod
    def of(cls, sentences: Iterable[TaggedSentence]) -> Amount:
        """Of all that is read; `DataError` where that is nothing."""
        count, words, tags = 0, 0, set[str]()
        for sentence in sentences:
            count += 1
            words += len(sentence.words)
            tags.update(sentence.tags)
        if not words:
            raise DataError("there is no text to learn from; check the training files")
        return cls(count, words, frozenset(tags))

    @property
    def lessons(self) -> Lessons:
        """What is learned from."""
        return Lessons(self.sentences, self.words * _PIECES + 2 * self.sentences, most=2048)

    def from_scratch(self) -> Settings:
        """A vocabulary that such a text teaches, and recurrent layers, which need less of it than attention."""
        low, high = _VOCABULARY
        return {
            "tokenizer": {"kind": "bpe", "size": max(low, min(high, 500 * round(self.words / _SHARE / 500)))},
            "model.kind": "recurrent",
            "model.d_model": 128,
            "model.dropout": 0.4,
        }
