"""Nouns for the examples and labels of a task in progress messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from heedful.data.corpus import Corpus


@final
@dataclass(frozen=True)
class UnitNames:
    """Plural nouns for what a task counts.

    Attributes:
        examples: elements of a batch.
        labels: what the loss is summed over; the same word if each example has one label.
        corpus_examples: elements of a corpus.
        contents: what is counted in a corpus besides its elements.
        contents_side: corpus side that holds the contents; None for the last one, empty for none.
    """

    examples: str = "examples"
    labels: str = "tokens"
    corpus_examples: str = "examples"
    contents: str = "tokens"
    contents_side: str | None = None

    def describe_size(self, corpus: Corpus, part: str) -> str:
        """Describe the size of a corpus, as in `400 training examples, 2,100 tokens`."""
        text = f"{corpus.report.kept:,} {part} {self.corpus_examples}"
        if self.contents_side == "":
            return text
        side = list(corpus.sides.values())[-1] if self.contents_side is None else corpus[self.contents_side]
        return f"{text}, {len(side.stream):,} {self.contents}"

    def describe_speed(self, *, labels: float, examples: float) -> str:
        """Describe the training speed per second."""
        example_rate = f"{_format_rate(examples)} {self.examples}/s"
        return (
            example_rate if self.labels == self.examples else f"{_format_rate(labels)} {self.labels}/s  {example_rate}"
        )


def _format_rate(number: float) -> str:
    """Format a rate, with one decimal if it is small."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"
