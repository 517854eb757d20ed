"""What the examples and labels of a task are called where they are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from heedful.data.corpus import Corpus


@final
@dataclass(frozen=True)
class Counted:
    """Words, all of them in the plural.

    Attributes:
        examples: what batches are made of.
        labels: what a loss is summed over; the same word where each example has one.
        stored: what a corpus is made of.
        contents: what is counted in it besides.
        side: of a corpus that holds the contents; the last one where None, and none where empty.
    """

    examples: str = "examples"
    labels: str = "tokens"
    stored: str = "examples"
    contents: str = "tokens"
    side: str | None = None

    def size(self, corpus: Corpus, part: str) -> str:
        """How much there is in a corpus: `400 training examples, 2,100 tokens`."""
        text = f"{corpus.report.kept:,} {part} {self.stored}"
        if self.side == "":
            return text
        side = list(corpus.sides.values())[-1] if self.side is None else corpus[self.side]
        return f"{text}, {len(side.stream):,} {self.contents}"

    def speed(self, *, labels: float, examples: float) -> str:
        """How many are learned from in a second."""
        own = f"{_rate(examples)} {self.examples}/s"
        return own if self.labels == self.examples else f"{_rate(labels)} {self.labels}/s  {own}"


def _rate(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"
