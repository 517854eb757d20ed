"""What is said of things that are seen, whatever they are: examples with several captions.

What is seen is stored once, however many captions it has: an example of a corpus is one thing with all its captions,
each with its end, one behind the other. What training plans are captions (`by_caption`), which share what is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from jaxtyping import Shaped

from heedful.data.corpus import CHARACTERS_PER_TOKEN, Corpus, Encoding, Items, Report, Side
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError

NUMBERS: Final = "numbers"
SEEN: Final = "pictures"
"""What is seen: one picture, or the frames of a clip."""
CAPTIONS: Final = "captions"


class Captioned(Protocol):
    """Something that is seen, and all that is said of it."""

    @property
    def captions(self) -> tuple[str, ...]:
        """Each of them right."""
        ...


Example = TypeVar("Example", bound=Captioned)


def caption_encoding(
    tokenizer: Tokenizer, *, items: Items, see: Callable[[Example], Shaped[np.ndarray, "T ..."]], longest: int
) -> Encoding[tuple[int, Example]]:
    """What is seen once, its number among all that were read, and each of its captions with its end.

    Captions of more than `longest` tokens are left out, and so is what no caption is left of, or cannot be seen (see
    `unseen`).

    Args:
        tokenizer: of captions.
        items: what `see` gives.
        see: what is kept; raises `DataError` where nothing can be seen.
        longest: tokens of a caption with its end.
    """

    def encode(example: tuple[int, Example]) -> tuple[list[int], Sequence[Any] | np.ndarray, list[int] | None]:
        number, captioned = example
        short = [text for text in captioned.captions if len(text) <= CHARACTERS_PER_TOKEN * longest]
        found = [ids for text in short if 0 < len(ids := tokenizer.encode(text)) < longest]
        if captioned.captions and not found:
            return [number], [number], None  # left out for its captions, not for itself
        ids = [token for caption in found for token in (*caption, tokenizer.special.eos)]
        try:
            return [number], see(captioned), ids
        except DataError:
            return [number], [], ids

    return Encoding({NUMBERS: Items("<i8"), SEEN: items, CAPTIONS: tokenizer.size}, encode)


def unseen(examples: Iterable[Example], corpus: Corpus, *, see: Callable[[Example], Any]) -> Iterator[str]:
    """Why examples are not in a corpus, in a sentence for each that cannot be seen."""
    there = set(corpus[NUMBERS].stream.tolist())
    for number, captioned in enumerate(examples):
        if number not in there:
            try:
                see(captioned)
            except DataError as error:
                yield str(error)


def by_caption(corpus: Corpus, *, eos: int) -> Corpus:
    """The same corpus with an example for each caption; those of one thing share what is seen of it."""
    stream = np.asarray(corpus[CAPTIONS].stream)
    stops = np.flatnonzero(stream == eos) + 1
    starts = np.concatenate([[0], stops[:-1]])
    thing = np.searchsorted(corpus[CAPTIONS].stops, stops)
    sides = {SEEN: corpus[SEEN].picked(thing), CAPTIONS: Side(stream, starts, stops)}
    return Corpus(corpus.folder, Report(len(stops), corpus.report.empty, corpus.report.too_long), sides)
