"""Character offsets of tokens in the original text, so that an answer can be cut out of the text as it was written."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError

_MAX_CLUSTERS: Final = 8
"""Largest number of clusters that are normalised together, such as the parts of a Hangul syllable."""
_FINAL_SIGMA: Final = str.maketrans("\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}")


def compute_offsets(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Return the part of the text that each of its ids stands for, as (start, stop) in characters.

    A tokenizer encodes the output of `Tokenizer.normalise`: case may be folded, letters composed or decomposed, spaces
    and control characters removed. This function goes through the text cluster by cluster (a letter and its combining
    marks; several clusters if they are normalised together) and finds each cluster in the pieces. So the span of a
    piece

    - contains whole clusters: two pieces share one that was split in the middle, as `…` may be into `.` and `..`;
    - has no spaces at its ends and nothing that normalising drops there; the span of a piece that is only a space is
      empty.

    Raises:
        DataError: a cluster is not found where it should be, because the tokenizer's reading of a character depends on
            distant characters, or because its pieces are not parts of the text.
    """
    pieces = [_normalise_for_matching(piece) for piece in tokenizer.get_surfaces(text)]
    joined_pieces = "".join(pieces)
    spans: list[tuple[int, int]] = []  # for each character of `wanted`
    for start, stop, count in _align_clusters(tokenizer, text, joined_pieces):
        spans += [(start, stop)] * count
    result, position, last_stop = [], 0, 0
    for piece in pieces:
        if piece:
            piece_spans = spans[position : position + len(piece)]
            result.append((piece_spans[0][0], piece_spans[-1][1]))
            last_stop = piece_spans[-1][1]
        else:
            result.append((last_stop, last_stop))
        position += len(piece)
    return result


def _align_clusters(tokenizer: Tokenizer, text: str, pieces_text: str) -> Iterator[tuple[int, int, int]]:
    """Yield start and stop of each part of the text, and the number of characters of `pieces_text` that it becomes."""
    normalised: dict[str, str] = {}  # the same letters come again and again
    starts = [*_iter_cluster_starts(text), len(text)]
    number = position = 0
    while number < len(starts) - 1:
        for last in range(number + 1, min(number + _MAX_CLUSTERS, len(starts) - 1) + 1):
            cluster = text[starts[number] : starts[last]]
            if cluster not in normalised:
                normalised[cluster] = _normalise_for_matching(tokenizer.normalise(cluster))
            if pieces_text.startswith(normalised[cluster], position):
                break
        else:
            raise _build_offset_error(text, starts[number])
        if normalised[cluster]:
            yield starts[number], starts[last], len(normalised[cluster])
        position += len(normalised[cluster])
        number = last
    if position != len(pieces_text):
        raise _build_offset_error(text, len(text))


def _iter_cluster_starts(text: str) -> Iterator[int]:
    """Yield the start of each cluster: every character but a combining mark after another character."""
    for position, letter in enumerate(text):
        if position == 0 or not unicodedata.category(letter).startswith("M"):
            yield position


def _normalise_for_matching(text: str) -> str:
    # Spaces come and go. Which sigma ends a word depends on what follows.
    """Remove spaces and replace final sigma, which depend on the neighbouring text."""
    return text.replace(" ", "").translate(_FINAL_SIGMA)


def _build_offset_error(text: str, position: int) -> DataError:
    """Build the error for a text whose characters cannot be found in the pieces."""
    description = f"{text[position]!r}" if position < len(text) else "its end"
    return DataError(
        f"character {position + 1} of a text ({description}) cannot be found in the text as the tokenizer normalises "
        "it, so answers cannot be cut out of this text; normalise the text first (NFC or NFKC), or take another "
        "tokenizer"
    )
