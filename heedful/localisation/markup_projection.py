"""Projection of inline codes into translations by attention weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias, final

import numpy as np
from jaxtyping import Float

from heedful.characters import combining_marks, word_characters
from heedful.localisation.placeholders import scan_placeholders
from heedful.localisation.protection import ExtractedPart, ProtectedText
from heedful.localisation.segments import BREAK_NAME, InlineCode, Segment, flatten_nodes

TextSpan: TypeAlias = tuple[int, int]
"""Start and end of a part of a text."""
_WIDE_SCRIPTS: Final = "\u0e00-\u0eff\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff"
"""Scripts without spaces between words; each letter counts as a word."""
_CLOSING_SIGNS: Final = frozenset(".,;:!?)]}\u00bb\u201d\u2019%\u2026")
_OPENING_SIGNS: Final = frozenset("([{\u00ab\u201e\u00bf\u00a1")
_AGREEMENT_WEIGHT: Final = 0.1
"""Weight of the agreement of all words, relative to the direct neighbours of a position."""


def find_words(text: str) -> list[TextSpan]:
    """Return the spans of words and punctuation marks in a text; a placeholder is one word, never split."""
    spans, position = [], 0
    for part in scan_placeholders((text,)):
        if isinstance(part, InlineCode):
            spans += [(position, position + len(part.raw))] * bool(part.value)
            position += len(part.raw)
        else:
            spans += [(position + match.start(), position + match.end()) for match in _word_pattern().finditer(part)]
            position += len(part)
    return spans


@cache
def _word_pattern() -> re.Pattern[str]:
    """Compile the pattern of a word; combining marks stay with their letters."""
    letter = rf"(?:(?![{_WIDE_SCRIPTS}])[{word_characters()}])"
    return re.compile(rf"[{_WIDE_SCRIPTS}][{combining_marks()}]*|{letter}+(?:['\u2019-]{letter}+)*|[^\w\s]|_")


@final
@dataclass(frozen=True)
class WordAlignment:
    """Soft alignment of the words of a translation with those of its source; rows sum to 1, or are 0.

    Attributes:
        source: spans of the source words.
        target: spans of the target words.
        weights: attention of each target word (T) to each source word (S).
    """

    source: Sequence[TextSpan]
    target: Sequence[TextSpan]
    weights: Float[np.ndarray, "T S"]


def align_words(
    weights: Float[np.ndarray, "P Q"], *, source: tuple[str, Sequence[TextSpan]], target: tuple[str, Sequence[TextSpan]]
) -> WordAlignment:
    """Convert attention weights between subword pieces to weights between words. `source` and `target` are texts with
    the spans of their pieces.

    Args:
        weights: of each target piece to each source piece; rows and columns after these are ignored.
        source: the text, and the spans of its pieces.
        target: the translation, and the spans of its pieces.
    """
    (source_text, source_pieces), (target_text, target_pieces) = source, target
    columns, rows = (
        _overlap_shares(find_words(source_text), source_pieces),
        _overlap_shares(find_words(target_text), target_pieces),
    )
    total = rows @ weights[: len(target_pieces), : len(source_pieces)] @ columns.T
    sums = total.sum(1, keepdims=True)
    return WordAlignment(
        find_words(source_text),
        find_words(target_text),
        np.divide(total, sums, out=np.zeros_like(total), where=sums > 0),
    )


def _overlap_shares(spans: Sequence[TextSpan], pieces: Sequence[TextSpan]) -> Float[np.ndarray, "W P"]:
    """Return the share of each piece (column) that lies in each word (row); `spans` are those of the words."""
    shares = np.zeros((len(spans), len(pieces)))
    for number, (start, stop) in enumerate(pieces):
        for word, (begin, end) in enumerate(spans):
            shares[word, number] = max(0, min(stop, end) - max(start, begin)) / max(1, stop - start)
    return shares


@final
@dataclass(frozen=True)
class _InsertionPoint:
    """Target position of an extracted part: before word `start`, and for a pair, after the last word before `stop`."""

    start: int
    stop: int
    part: ExtractedPart


_TargetItem: TypeAlias = "int | ExtractedPart | InlineCode"
"""A target word by its number, a single extracted part, or one end of a pair."""


def insert_parts(protected: ProtectedText, translation: str, alignment: WordAlignment) -> Segment:
    """Insert all parts that were cut out of a text into its translation, where the alignment of both places them."""
    items = list(_PartInserter(alignment).iter_items(protected.parts, 0, len(alignment.target)))
    parts: list[str | InlineCode] = []
    pending: list[InlineCode] = []
    previous: int | ExtractedPart | None = None
    for item in items:
        if isinstance(item, InlineCode):
            pending.append(item)
            continue
        parts += _join_gap(_get_gap(previous, item, translation, alignment), pending)
        pending = []
        parts.append(translation[slice(*alignment.target[item])] if isinstance(item, int) else item.opening)
        previous = item
    return flatten_nodes([*parts, *pending])


def _join_gap(gap: str, codes: Sequence[InlineCode]) -> Iterator[str | InlineCode]:
    """Yield the opening and closing codes between two items, and the white space `gap` between them: it stands before
    the first opening code, outside of the pairs.
    """
    split = next((number for number, code in enumerate(codes) if code.role == "open"), len(codes))
    yield from codes[:split]
    yield gap
    yield from codes[split:]


class _PartInserter:
    """Finds target positions from the outermost to the innermost pair, so that pairs never cross."""

    def __init__(self, alignment: WordAlignment) -> None:
        self._alignment = alignment

    def iter_items(self, parts: Sequence[ExtractedPart], first: int, last: int) -> Iterator[_TargetItem]:
        """Yield the target words `first` to `last` (exclusive) by number, and all parts that belong between them; a
        pair as its two codes.
        """
        word = first
        for point in self._find_positions(parts, first, last):
            yield from range(word, point.start)
            part = point.part
            if part.closing is None:
                yield part
            else:
                yield part.opening
                yield from self.iter_items(part.inside, point.start, point.stop)
                yield part.closing
            word = point.stop
        yield from range(word, last)

    def _find_positions(self, parts: Sequence[ExtractedPart], first: int, last: int) -> list[_InsertionPoint]:
        """Find the positions of parts among the target words `first` to `last` (exclusive). Pairs around words go
        first, because single codes may then not split them.
        """
        source_spans = [self._source_words(part.start, part.stop) for part in parts]
        spans: dict[int, TextSpan] = {}
        for number, (begin, end) in enumerate(source_spans):
            if begin < end:
                spans[number] = self._find_pair_span((begin, end), first, last, list(spans.values()))
        pair_spans = list(spans.values())
        for number, (begin, end) in enumerate(source_spans):
            if begin == end:
                spans[number] = (self._find_gap(begin, first, last, pair_spans),) * 2
        return [
            _InsertionPoint(*spans[number], parts[number])
            for number in sorted(spans, key=lambda index: (*spans[index], index))
        ]

    def _source_words(self, start: int, stop: int) -> TextSpan:
        """Return the range of source words between two text positions."""
        first = sum(end <= start for _, end in self._alignment.source)
        return first, first if start == stop else sum(word_start < stop for word_start, _ in self._alignment.source)

    def _find_pair_span(self, source_words: TextSpan, first: int, last: int, occupied: Sequence[TextSpan]) -> TextSpan:
        """Find the contiguous target words whose attention to the given source words, less 0.5 for each, has the
        highest sum. They lie between `first` and `last` (exclusive) and do not overlap the `occupied` spans of other
        pairs.
        """
        begin, end = source_words
        positions = self._free_positions(first, last, occupied)
        scores = self._alignment.weights[:, begin:end].sum(1) - 0.5
        best, span = -np.inf, (positions[0], positions[0])
        for start in positions:
            total = 0.0
            for stop in range(start + 1, last + 1):
                if any(
                    begin_other < stop and start < end_other
                    for begin_other, end_other in occupied
                    if begin_other < end_other
                ):
                    break
                total += float(scores[stop - 1])
                if total > best:
                    best, span = total, (start, stop)
        return span

    def _find_gap(self, source_word: int, first: int, last: int, occupied: Sequence[TextSpan]) -> int:
        """Find the target position, from `first` to `last`, whose neighbours attend to the neighbours of the position
        before a source word. Positions inside `occupied` spans are excluded; the first and last source position stay
        first and last.
        """
        weights, size = self._alignment.weights, len(self._alignment.source)
        if source_word in (0, size) or not weights.size:
            return first if source_word == 0 or first == last else last

        def score_position(position: int) -> float:
            """Return the attention of both neighbours of a position, plus a small share of that of all words."""
            left_weight = float(weights[position - 1, source_word - 1]) if position > first else 0.0
            right_weight = float(weights[position, source_word]) if position < last else 0.0
            agreement = float(weights[first:position, :source_word].sum()) + float(
                weights[position:last, source_word:].sum()
            )
            return left_weight + right_weight + _AGREEMENT_WEIGHT * agreement

        return max(self._free_positions(first, last, occupied), key=score_position)

    def _free_positions(self, first: int, last: int, occupied: Sequence[TextSpan]) -> list[int]:
        """Return the positions from `first` to `last`, both included, that are not inside an `occupied` span."""
        return [
            position
            for position in range(first, last + 1)
            if not any(begin < position < end for begin, end in occupied)
        ]


def _get_gap(
    left: int | ExtractedPart | None, right: int | ExtractedPart, translation: str, alignment: WordAlignment
) -> str:
    """Return the white space between two adjacent items: target words by number in `alignment`, or extracted parts. It
    is empty before the first item (`left` is None) and beside a line break.
    """
    if left is None or _is_break_part(left) or _is_break_part(right):
        return ""
    if isinstance(left, int) and isinstance(right, int):
        return translation[alignment.target[left][1] : alignment.target[right][0]]
    if isinstance(left, ExtractedPart) and isinstance(right, ExtractedPart):
        return " " if left.after == " " or left.start < right.start else ""
    if isinstance(left, ExtractedPart):
        assert isinstance(right, int)
        return " " * _needs_space(
            left, translation[alignment.target[right][0]], neighbour=left.after, punctuation=_OPENING_SIGNS
        )
    assert isinstance(right, ExtractedPart)
    return " " * _needs_space(
        right, translation[alignment.target[left][1] - 1], neighbour=right.before, punctuation=_CLOSING_SIGNS
    )


def _is_break_part(item: int | ExtractedPart) -> bool:
    """Return whether an item is a line break, which includes its white space."""
    return isinstance(item, ExtractedPart) and item.opening.name == BREAK_NAME


def _needs_space(part: ExtractedPart, letter: str, *, neighbour: str, punctuation: frozenset[str]) -> bool:
    """Return whether there is a space between an extracted part and the `letter` of the translation beside it.
    `neighbour` is the letter beside it in the source, `punctuation` the signs that are separated from a value.

    Markup has a space if it had one in the source. A value that is read as a word has one beside words, unless it was
    part of a word.
    """
    if not part.opening.value:
        return neighbour == " "
    if neighbour.isalnum() or re.match(f"[{_WIDE_SCRIPTS}]", letter):
        return False
    return letter.isalnum() or letter in punctuation
