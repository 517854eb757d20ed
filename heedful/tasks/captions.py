"""Corpora of inputs with several captions each, such as pictures or video clips.

An example of a corpus is one input with all its captions, each with its end, one after the other, so that each input is
stored once. The training examples are single captions (`split_by_caption`), which share the features of their input.
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
"""Corpus side of the inputs: one picture, or the frames of a clip."""
CAPTION_SIDE: Final = "captions"


class HasCaptions(Protocol):
    """Protocol of examples with several captions."""

    @property
    def captions(self) -> tuple[str, ...]:
        """The captions, each of them right."""
        ...


Example = TypeVar("Example", bound=HasCaptions)


def build_caption_encoding(
    tokenizer: Tokenizer,
    *,
    input_spec: ArraySpec,
    extract: Callable[[Example], Shaped[np.ndarray, "T ..."]],
    max_length: int,
) -> ExampleEncoder[tuple[int, Example]]:
    """Build the encoding that stores each input once, with its number and all its captions.

    Captions of more than `max_length` tokens are left out, and so are inputs without a remaining caption and inputs
    that cannot be read (see `explain_unreadable`).

    Args:
        tokenizer: tokenizer of the captions.
        input_spec: data type and shape of what `extract` returns.
        extract: extracts the stored features of an example; raises `DataError` if it cannot be read.
        max_length: tokens of a caption with its end at most.
    """

    def encode_example(example: tuple[int, Example]) -> tuple[list[int], Sequence[Any] | np.ndarray, list[int] | None]:
        """Encode an example into its number, its features, and its captions, each with an end."""
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
    """Yield the error message of each example that is not in the corpus because it cannot be read."""
    stored_numbers = set(corpus[NUMBER_SIDE].stream.tolist())
    for number, captioned in enumerate(examples):
        if number not in stored_numbers:
            try:
                extract(captioned)
            except DataError as error:
                yield str(error)


def split_by_caption(corpus: Corpus, *, eos: int) -> Corpus:
    """Return the corpus with one example for each caption; captions of one input share its features."""
    stream = np.asarray(corpus[CAPTION_SIDE].stream)
    stops = np.flatnonzero(stream == eos) + 1
    starts = np.concatenate([[0], stops[:-1]])
    input_indices = np.searchsorted(corpus[CAPTION_SIDE].stops, stops)
    sides = {INPUT_SIDE: corpus[INPUT_SIDE].select_rows(input_indices), CAPTION_SIDE: CorpusSide(stream, starts, stops)}
    return Corpus(corpus.folder, EncodingReport(len(stops), corpus.report.empty, corpus.report.too_long), sides)
