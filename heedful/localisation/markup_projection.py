"""What was cut out of a text, put back into its translation by what the model looked at."""

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
"""Where something begins and ends in a text."""
_WIDE_SCRIPTS: Final = "\u0e00-\u0eff\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff"
"""Scripts whose words have no spaces between them: each letter is taken for one."""
_CLOSING_SIGNS: Final = frozenset(".,;:!?)]}\u00bb\u201d\u2019%\u2026")
_OPENING_SIGNS: Final = frozenset("([{\u00ab\u201e\u00bf\u00a1")
_AGREEMENT_WEIGHT: Final = 0.1
"""What all words together weigh beside the neighbours of a place."""


def find_words(text: str) -> list[TextSpan]:
    """Words, and marks of punctuation each for itself; a placeholder is one, so that nothing is put into it."""
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
    """No mark is parted from the letter that it belongs to."""
    letter = rf"(?:(?![{_WIDE_SCRIPTS}])[{word_characters()}])"
    return re.compile(rf"[{_WIDE_SCRIPTS}][{combining_marks()}]*|{letter}+(?:['\u2019-]{letter}+)*|[^\w\s]|_")


@final
@dataclass(frozen=True)
class WordAlignment:
    """How much each word of a translation looked at each of its source; rows sum to 1, or are 0.

    Attributes:
        source: where the words of the source stand.
        target: where those of the translation do.
        weights: of each of the latter on each of the former.
    """

    source: Sequence[TextSpan]
    target: Sequence[TextSpan]
    weights: Float[np.ndarray, "T S"]


def align_words(
    weights: Float[np.ndarray, "P Q"], *, source: tuple[str, Sequence[TextSpan]], target: tuple[str, Sequence[TextSpan]]
) -> WordAlignment:
    """Weights between pieces as weights between words.

    Args:
        weights: of each piece of the translation on each of the source; what is beyond them is left out.
        source: the text, and where each of its pieces stands.
        target: the translation, likewise.
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
    """The share of each piece that stands in each word."""
    shares = np.zeros((len(spans), len(pieces)))
    for number, (start, stop) in enumerate(pieces):
        for word, (begin, end) in enumerate(spans):
            shares[word, number] = max(0, min(stop, end) - max(start, begin)) / max(1, stop - start)
    return shares


@final
@dataclass(frozen=True)
class _InsertionPoint:
    """Between which words of the translation something goes: before `start`, and behind the last one before `stop`."""

    start: int
    stop: int
    part: ExtractedPart


_TargetItem: TypeAlias = "int | ExtractedPart | InlineCode"
"""A word by its number, something that stands alone, or one end of a pair."""


def insert_parts(protected: ProtectedText, translation: str, alignment: WordAlignment) -> Segment:
    """A translation of a protected text with all its parts."""
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
    """Ends of pairs with the space where it stands outside of them."""
    split = next((number for number, code in enumerate(codes) if code.role == "open"), len(codes))
    yield from codes[:split]
    yield gap
    yield from codes[split:]


class _PartInserter:
    """Finds places from the outside to the inside, so that pairs never cross."""

    def __init__(self, alignment: WordAlignment) -> None:
        self._alignment = alignment

    def iter_items(self, parts: Sequence[ExtractedPart], first: int, last: int) -> Iterator[_TargetItem]:
        """Words `first` to `last`, without it, and all that goes between them."""
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
        """Pairs around words go first, since nothing else may then stand inside of them."""
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
        """The words of the source between two places, by their numbers."""
        first = sum(end <= start for _, end in self._alignment.source)
        return first, first if start == stop else sum(word_start < stop for word_start, _ in self._alignment.source)

    def _find_pair_span(self, source_words: TextSpan, first: int, last: int, occupied: Sequence[TextSpan]) -> TextSpan:
        """The words in a row that look at some words of the source more than at others, all of them together."""
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
        """The place, before a word by its number, whose neighbours look at those of a place in the source."""
        weights, size = self._alignment.weights, len(self._alignment.source)
        if source_word in (0, size) or not weights.size:
            return first if source_word == 0 or first == last else last

        def score_position(position: int) -> float:
            left_weight = float(weights[position - 1, source_word - 1]) if position > first else 0.0
            right_weight = float(weights[position, source_word]) if position < last else 0.0
            agreement = float(weights[first:position, :source_word].sum()) + float(
                weights[position:last, source_word:].sum()
            )
            return left_weight + right_weight + _AGREEMENT_WEIGHT * agreement

        return max(self._free_positions(first, last, occupied), key=score_position)

    def _free_positions(self, first: int, last: int, occupied: Sequence[TextSpan]) -> list[int]:
        """Places that are not inside of a pair."""
        return [
            position
            for position in range(first, last + 1)
            if not any(begin < position < end for begin, end in occupied)
        ]


def _get_gap(
    left: int | ExtractedPart | None, right: int | ExtractedPart, translation: str, alignment: WordAlignment
) -> str:
    """The white space between two things that a reader sees."""
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
    """Whether it ends a line, with all white space that stands there."""
    return isinstance(item, ExtractedPart) and item.opening.name == BREAK_NAME


def _needs_space(part: ExtractedPart, letter: str, *, neighbour: str, punctuation: frozenset[str]) -> bool:
    """Whether there is a space between a code and a letter of the translation.

    Markup has one where it had one. What is read as a word has one beside words, unless it was part of one.
    """
    if not part.opening.value:
        return neighbour == " "
    if neighbour.isalnum() or re.match(f"[{_WIDE_SCRIPTS}]", letter):
        return False
    return letter.isalnum() or letter in punctuation
