"""Where in a text each of its tokens stands, so that an answer can be cut out of the text as it was written."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError

_MAX_CLUSTERS: Final = 8
"""Clusters that are normalised together at most, as the parts of a Hangul syllable are."""
_FINAL_SIGMA: Final = str.maketrans("\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}")


def compute_offsets(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """The part of the text that each of its ids stands for, as (start, stop) in characters.

    A tokenizer reads a text as `Tokenizer.normalise` leaves it: case may be folded, letters composed or spelled out,
    spaces and control characters gone. The text is walked through cluster by cluster (a letter and its combining marks;
    several where they are normalised to something else together), and each is found again in the pieces. So a piece's
    part of the text

    - holds whole clusters: two pieces share one that was cut in the middle, as `…` may be into `.` and `..`;
    - has neither spaces at its ends nor what normalising drops there; a piece that is nothing but a space is empty.

    Raises:
        DataError: a cluster is not found where it should be, because what the tokenizer makes of a character depends on
            others that are far away, or because its pieces are not parts of the text.
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
    """Start and stop of parts of the text, and how many characters of `pieces_text` each becomes."""
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
    """Where clusters begin: at all that is no combining mark behind something else."""
    for position, letter in enumerate(text):
        if position == 0 or not unicodedata.category(letter).startswith("M"):
            yield position


def _normalise_for_matching(text: str) -> str:
    # Spaces come and go. Which sigma ends a word depends on what follows.
    return text.replace(" ", "").translate(_FINAL_SIGMA)


def _build_offset_error(text: str, position: int) -> DataError:
    description = f"{text[position]!r}" if position < len(text) else "its end"
    return DataError(
        f"character {position + 1} of a text ({description}) is not found again in what the tokenizer reads, so that answers "
        "cannot be cut out of this text; normalise the text before it is used (NFC or NFKC), or take another tokenizer"
    )
