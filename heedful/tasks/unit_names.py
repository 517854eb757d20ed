"""What the examples and labels of a task are called where they are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from heedful.data.corpus import Corpus


@final
@dataclass(frozen=True)
class UnitNames:
    """Words, all of them in the plural.

    Attributes:
        examples: what batches are made of.
        labels: what a loss is summed over; the same word where each example has one.
        corpus_examples: what a corpus is made of.
        contents: what is counted in it besides.
        contents_side: of a corpus that holds the contents; the last one where None, and none where empty.
    """

    examples: str = "examples"
    labels: str = "tokens"
    corpus_examples: str = "examples"
    contents: str = "tokens"
    contents_side: str | None = None

    def describe_size(self, corpus: Corpus, part: str) -> str:
        """How much there is in a corpus: `400 training examples, 2,100 tokens`."""
        text = f"{corpus.report.kept:,} {part} {self.corpus_examples}"
        if self.contents_side == "":
            return text
        side = list(corpus.sides.values())[-1] if self.contents_side is None else corpus[self.contents_side]
        return f"{text}, {len(side.stream):,} {self.contents}"

    def describe_speed(self, *, labels: float, examples: float) -> str:
        """How many are learned from in a second."""
        example_rate = f"{_format_rate(examples)} {self.examples}/s"
        return (
            example_rate if self.labels == self.examples else f"{_format_rate(labels)} {self.labels}/s  {example_rate}"
        )


def _format_rate(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"
