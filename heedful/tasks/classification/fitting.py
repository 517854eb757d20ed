"""The model and the rates that suit so many labelled texts and so much time, from measurements (docs/numbers.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from heedful.data.labelled import Choice, Labelled
from heedful.errors import DataError
from heedful.tasks.fine_tuning_fit import Lessons, Pace
from heedful.tasks.fitting import Settings

PACE: Final = Pace(rate=3e-3, speed=30_000)
"""Of windows."""
PAIR_PACE: Final = Pace(rate=3e-3, speed=50_000)
"""Of what compares two texts."""
LARGE: Final = 384
"""Width of a trained encoder from which on it learns more carefully."""
_SEEN: Final = 16_000
"""Texts that are read in all, at least, each as often as that takes."""
_PASSES: Final = (4, 8)
"""Passes over the texts, at least: of many texts, and of few."""
_FEW: Final = 20_000
"""Texts that are few."""
_PAIRS: Final = 1.15
"""Tokens of a word, with the marks beside it."""
_PIECES: Final = (2_000, 8_000)
"""Pieces of the vocabulary of pairs: small, so that words that were never seen are known by what they share."""
_WORDS_OF_A_PIECE: Final = 100
"""Words of the training text for each of them, where that makes more."""
_PIECES_OF_A_WORD: Final = 1.6
"""That such a vocabulary makes, with marks."""
_BUCKETS: Final = (4096, 262_144)
_ROWS: Final = 2_000_000
"""Weights of n-grams, at most."""


@final
@dataclass(frozen=True)
class Amount:
    """How many labelled texts there are.

    Attributes:
        examples: of them; those of a choice count with each candidate.
        words: in all of them.
        classes: how many different labels.
        paired: whether all of them have two texts.
    """

    examples: int
    words: int
    classes: int
    paired: bool = False

    @classmethod
    def of(cls, examples: Iterable[Labelled | Choice]) -> Amount:
        """Of all that is read; `DataError` where that is nothing."""
        count, words, labels, paired = 0, 0, set[object](), True
        for example in examples:
            texts = example.candidates if isinstance(example, Choice) else (example.texts,)
            count += len(texts)
            words += sum(len(text.split()) for each in texts for text in each)
            paired = paired and all(len(each) == 2 for each in texts)
            if isinstance(example, Labelled):
                labels.add(example.label)
        if not words:
            raise DataError("there is no text to learn from; check the training files")
        return cls(count, words, len(labels), paired)

    @property
    def lessons(self) -> Lessons:
        """What is learned from, about as many tokens as there are words with their marks, begins and ends."""
        return Lessons(self.examples, self.words * _PAIRS + 2 * self.examples)

    @property
    def pair_lessons(self) -> Lessons:
        """The same as the pieces of `pairs_from_scratch` count it."""
        return Lessons(self.examples, self.words * _PIECES_OF_A_WORD + 3 * self.examples)

    @property
    def passes(self) -> int:
        """Over all texts: a few, and more of few texts."""
        return max(_PASSES[self.examples <= _FEW], math.ceil(_SEEN / self.examples))


def from_scratch(amount: Amount, *, voting: bool) -> Settings:
    """A model of words; `voting` says whether logistic regression can vote beside it."""
    buckets = 2 ** math.ceil(math.log2(2 * amount.words))
    most = 2 ** int(math.log2(_ROWS / max(2, amount.classes)))
    bag = {"buckets": max(_BUCKETS[0], min(buckets, most, _BUCKETS[1]))}
    return {
        "tokenizer": {"kind": "words", "lowercase": True},
        "model.kind": "windows",
        "model.embedding_dropout": 0.3,
        **({"model.bag": bag} if voting else {}),
        "training.precision": "fp32",
        "training.average": 3,
    }


def pairs_from_scratch(amount: Amount) -> Settings:
    """A model that compares two texts, and a small vocabulary that knows parts of words."""
    smallest, largest = _PIECES
    size = max(smallest, min(largest, amount.words // _WORDS_OF_A_PIECE))
    return {
        "tokenizer": {"kind": "bpe", "size": size, "lowercase": True},
        "model.kind": "siamese",
        "training.precision": "fp32",
        "training.average": 3,
    }
