"""What is said of things that are seen, whatever they are: examples with several captions.

What is seen is stored once, however many captions it has: an example of a corpus is one thing with all its captions,
each with its end, one behind the other. What training plans are captions (`split_by_caption`), which share what is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from jaxtyping import Shaped

from heedful.data.corpus import CHARACTERS_PER_TOKEN, ArraySpec, Corpus, CorpusSide, EncodingReport, ExampleEncoder
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError

NUMBER_SIDE: Final = "numbers"
INPUT_SIDE: Final = "pictures"
"""What is seen: one picture, or the frames of a clip."""
CAPTION_SIDE: Final = "captions"


class HasCaptions(Protocol):
    """Something that is seen, and all that is said of it."""

    @property
    def captions(self) -> tuple[str, ...]:
        """Each of them right."""
        ...


Example = TypeVar("Example", bound=HasCaptions)


def build_caption_encoding(
    tokenizer: Tokenizer,
    *,
    input_spec: ArraySpec,
    extract: Callable[[Example], Shaped[np.ndarray, "T ..."]],
    max_length: int,
) -> ExampleEncoder[tuple[int, Example]]:
    """What is seen once, its number among all that were read, and each of its captions with its end.

    Captions of more than `max_length` tokens are left out, and so is what no caption is left of, or cannot be seen (see
    `explain_unreadable`).

    Args:
        tokenizer: of captions.
        input_spec: what `extract` gives.
        extract: what is kept; raises `DataError` where nothing can be seen.
        max_length: tokens of a caption with its end.
    """

    def encode_example(example: tuple[int, Example]) -> tuple[list[int], Sequence[Any] | np.ndarray, list[int] | None]:
        number, captioned = example
        short_texts = [text for text in captioned.captions if len(text) <= CHARACTERS_PER_TOKEN * max_length]
        encoded = [ids for text in short_texts if 0 < len(ids := tokenizer.encode(text)) < max_length]
        if captioned.captions and not encoded:
            return [number], [number], None  # left out for its captions, not for itself
        ids = [token for caption in encoded for token in (*caption, tokenizer.special.eos)]
        try:
            return [number], extract(captioned), ids
        except DataError:
            return [number], [], ids

    return ExampleEncoder(
        {NUMBER_SIDE: ArraySpec("<i8"), INPUT_SIDE: input_spec, CAPTION_SIDE: tokenizer.size}, encode_example
    )


def explain_unreadable(
    examples: Iterable[Example], corpus: Corpus, *, extract: Callable[[Example], Any]
) -> Iterator[str]:
    """Why examples are not in a corpus, in a sentence for each that cannot be seen."""
    stored_numbers = set(corpus[NUMBER_SIDE].stream.tolist())
    for number, captioned in enumerate(examples):
        if number not in stored_numbers:
            try:
                extract(captioned)
            except DataError as error:
                yield str(error)


def split_by_caption(corpus: Corpus, *, eos: int) -> Corpus:
    """The same corpus with an example for each caption; those of one thing share what is seen of it."""
    stream = np.asarray(corpus[CAPTION_SIDE].stream)
    stops = np.flatnonzero(stream == eos) + 1
    starts = np.concatenate([[0], stops[:-1]])
    input_indices = np.searchsorted(corpus[CAPTION_SIDE].stops, stops)
    sides = {INPUT_SIDE: corpus[INPUT_SIDE].select_rows(input_indices), CAPTION_SIDE: CorpusSide(stream, starts, stops)}
    return Corpus(corpus.folder, EncodingReport(len(stops), corpus.report.empty, corpus.report.too_long), sides)
