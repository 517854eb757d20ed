"""Weights of the sentence pairs of a training text, read from a file that lies beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from heedful.data.corpus import ArraySpec, ExampleEncoder
from heedful.data.readers import ExampleReader, SentencePair, zip_with_lines
from heedful.errors import DataError

WEIGHTS_SIDE: Final = "weights"
"""Name of the corpus side that holds the weight of each pair."""
_MAX_WEIGHT: Final = 1e9


def parse_weight(line: str, *, location: str) -> float:
    """Parse a line that holds a weight; raise `DataError` with its `location` if it is not a number from 0 to 1e9."""
    try:
        weight = float(line)
    except ValueError:
        weight = math.nan
    if not 0 <= weight <= _MAX_WEIGHT:
        raise DataError(f"{location}: {line.strip()!r} is not a weight; write one number from 0 to 1e9, as in 0.5")
    return weight


@final
class WeightedPairs(ExampleReader[SentencePair]):
    """Pairs with weights, read from a file with one number on each line.

    Args:
        pairs: reader of the parallel text.
        path: the file of weights.

    Raises:
        DataError: the text cannot be read; a line is not a weight; there are more or fewer lines than pairs.
    """

    def __init__(self, pairs: ExampleReader[SentencePair], path: Path) -> None:
        super().__init__(*pairs.paths, path)
        self._pairs = pairs

    def __iter__(self) -> Iterator[SentencePair]:
        for pair, line, location in zip_with_lines(
            self._pairs, self.paths[-1], remedy="write one weight for each pair"
        ):
            yield pair._replace(weight=parse_weight(line, location=location))


@final
class UsedPairs(ExampleReader[SentencePair]):
    """The pairs of a reader whose weight, as a float of 32 bits, is not 0."""

    def __init__(self, pairs: ExampleReader[SentencePair]) -> None:
        super().__init__(*pairs.paths)
        self._pairs = pairs

    def __iter__(self) -> Iterator[SentencePair]:
        return (pair for pair in self._pairs if np.float32(pair.weight))


def build_weighted_encoder(pair_encoder: ExampleEncoder[SentencePair]) -> ExampleEncoder[SentencePair]:
    """Build an encoder of parallel text with one more side, the weight of each pair; `pair_encoder` encodes the other
    sides.
    """

    def encode(pair: SentencePair) -> Sequence[Sequence[Any] | np.ndarray | None]:
        """Encode a pair and its weight."""
        return (*pair_encoder.encode(pair), np.array([pair.weight]))

    sizes = {**pair_encoder.side_sizes, WEIGHTS_SIDE: ArraySpec("<f4")}
    return replace(pair_encoder, side_sizes=sizes, encode=encode)
