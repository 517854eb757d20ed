"""A sample of texts from which pieces are learned, drawn in one pass over texts of any number and in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from heedful.data.normalisation import require_valid_unicode
from heedful.data.random_numbers import SeededRandom

MAX_SAMPLE_TEXTS: Final = 5_000_000
"""Largest number of texts in a sample, unless another one is asked for."""
MAX_SAMPLE_BYTES: Final = 400 * 2**20
"""Largest size of a sample in bytes of UTF-8, without what Python needs for each text."""
MAX_PART_CHARACTERS: Final = 10_000
"""Largest number of characters that are given to sentencepiece together: it keeps positions inside a word in 16 bits,
so that long text without spaces must come in parts."""
_SEED: Final = 1
_SAMPLE_STREAM: Final = 0x6C6561726E
"""Separates these random numbers from other streams of the same seed."""
_NUMBERS_AT_ONCE: Final = 2**14
_KEPT_SHARE: Final = 0.75
"""Share of the texts that stay in a sample that has become too large."""


@dataclass(frozen=True)
class SampleSize:
    """How many texts there were, and how many of them a vocabulary was learned from."""

    drawn: int
    total: int


@final
class LearningSample:
    """A sample of texts: all of them, or a random part if there are too many.

    Each text gets a random number, and those with the smallest numbers are kept, in their order. So the sample depends
    on the texts and the limits alone.

    Args:
        texts: the texts, read once.
        max_texts: largest number of texts.
        max_bytes: largest size of the texts together; a single text may be larger.
    """

    def __init__(
        self, texts: Iterable[str], *, max_texts: int = MAX_SAMPLE_TEXTS, max_bytes: int = MAX_SAMPLE_BYTES
    ) -> None:
        self._texts: list[bytes] = []
        numbers, bound = array("d"), 1.0
        num_bytes = total = 0
        for text, number in zip(texts, _iter_random_numbers(), strict=False):
            total += 1
            if number >= bound:
                continue
            content = text.encode()
            self._texts.append(content)
            numbers.append(number)
            num_bytes += len(content)
            while len(numbers) > 1 and (len(numbers) > max_texts or num_bytes > max_bytes):
                bound = float(np.partition(np.array(numbers), keep := int(_KEPT_SHARE * len(numbers)))[keep])
                is_kept = [each < bound for each in numbers]
                self._texts = [each for each, kept in zip(self._texts, is_kept, strict=True) if kept]
                numbers = array("d", (each for each in numbers if each < bound))
                num_bytes = sum(map(len, self._texts))
        self.size = SampleSize(len(self._texts), total)

    def release_texts(self) -> Iterator[str]:
        """Yield the texts, and free the memory of each; call it once."""
        for index, content in enumerate(self._texts):
            self._texts[index] = b""
            yield content.decode()


def _iter_random_numbers() -> Iterator[float]:
    """Yield random numbers from 0 to 1, always the same ones."""
    generator = SeededRandom(_SEED, _SAMPLE_STREAM)
    while True:
        yield from generator.uniform(_NUMBERS_AT_ONCE).tolist()


def split_long_texts(
    texts: Iterable[str], errors: list[BaseException], *, prepare: Callable[[str], str]
) -> Iterator[str]:
    """Check that texts are valid Unicode, change them by `prepare`, and yield them in parts of limited length; store
    exceptions in `errors`, because sentencepiece replaces them by its own.
    """
    try:
        for text in map(prepare, map(require_valid_unicode, texts)):
            for start in range(0, len(text), MAX_PART_CHARACTERS):
                yield text[start : start + MAX_PART_CHARACTERS]
    except BaseException as error:
        errors.append(error)
        raise
