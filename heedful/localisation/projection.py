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
from heedful.localisation.placeholders import scanned
from heedful.localisation.protection import Held, Protected
from heedful.localisation.segments import BREAK, Code, Segment, flat

Span: TypeAlias = tuple[int, int]
"""Where something begins and ends in a text."""
_WIDE: Final = "\u0e00-\u0eff\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff"
"""Scripts whose words have no spaces between them: each letter is taken for one."""
_CLOSES: Final = frozenset(".,;:!?)]}\u00bb\u201d\u2019%\u2026")
_OPENS: Final = frozenset("([{\u00ab\u201e\u00bf\u00a1")
_AGREES: Final = 0.1
"""What all words together weigh beside the neighbours of a place."""


def words(text: str) -> list[Span]:
    """Words, and marks of punctuation each for itself; a placeholder is one, so that nothing is put into it."""
    spans, place = [], 0
    for part in scanned((text,)):
        if isinstance(part, Code):
            spans += [(place, place + len(part.raw))] * bool(part.value)
            place += len(part.raw)
        else:
            spans += [(place + found.start(), place + found.end()) for found in _word_pattern().finditer(part)]
            place += len(part)
    return spans


@cache
def _word_pattern() -> re.Pattern[str]:
    """No mark is parted from the letter that it belongs to."""
    letter = rf"(?:(?![{_WIDE}])[{word_characters()}])"
    return re.compile(rf"[{_WIDE}][{combining_marks()}]*|{letter}+(?:['\u2019-]{letter}+)*|[^\w\s]|_")


@final
@dataclass(frozen=True)
class Links:
    """How much each word of a translation looked at each of its source; rows sum to 1, or are 0.

    Attributes:
        source: where the words of the source stand.
        target: where those of the translation do.
        weights: of each of the latter on each of the former.
    """

    source: Sequence[Span]
    target: Sequence[Span]
    weights: Float[np.ndarray, "T S"]


def links(
    weights: Float[np.ndarray, "P Q"], *, source: tuple[str, Sequence[Span]], target: tuple[str, Sequence[Span]]
) -> Links:
    """Weights between pieces as weights between words.

    Args:
        weights: of each piece of the translation on each of the source; what is beyond them is left out.
        source: the text, and where each of its pieces stands.
        target: the translation, likewise.
    """
    (read, read_pieces), (written, written_pieces) = source, target
    columns, rows = _share(words(read), read_pieces), _share(words(written), written_pieces)
    total = rows @ weights[: len(written_pieces), : len(read_pieces)] @ columns.T
    sums = total.sum(1, keepdims=True)
    return Links(words(read), words(written), np.divide(total, sums, out=np.zeros_like(total), where=sums > 0))


def _share(spans: Sequence[Span], pieces: Sequence[Span]) -> Float[np.ndarray, "W P"]:
    """The share of each piece that stands in each word."""
    found = np.zeros((len(spans), len(pieces)))
    for number, (start, stop) in enumerate(pieces):
        for word, (begin, end) in enumerate(spans):
            found[word, number] = max(0, min(stop, end) - max(start, begin)) / max(1, stop - start)
    return found


@final
@dataclass(frozen=True)
class _Place:
    """Between which words of the translation something goes: before `start`, and behind the last one before `stop`."""

    start: int
    stop: int
    held: Held


_Item: TypeAlias = "int | Held | Code"
"""A word by its number, something that stands alone, or one end of a pair."""


def placed(protected: Protected, translation: str, links: Links) -> Segment:
    """A translation of a protected text with all its parts."""
    items = list(_Placing(links).items(protected.parts, 0, len(links.target)))
    parts: list[str | Code] = []
    between: list[Code] = []
    left: int | Held | None = None
    for item in items:
        if isinstance(item, Code):
            between.append(item)
            continue
        parts += _joined(_gap(left, item, translation, links), between)
        between = []
        parts.append(translation[slice(*links.target[item])] if isinstance(item, int) else item.opening)
        left = item
    return flat([*parts, *between])


def _joined(gap: str, between: Sequence[Code]) -> Iterator[str | Code]:
    """Ends of pairs with the space where it stands outside of them."""
    first = next((number for number, code in enumerate(between) if code.role == "open"), len(between))
    yield from between[:first]
    yield gap
    yield from between[first:]


class _Placing:
    """Finds places from the outside to the inside, so that pairs never cross."""

    def __init__(self, links: Links) -> None:
        self._links = links

    def items(self, parts: Sequence[Held], first: int, last: int) -> Iterator[_Item]:
        """Words `first` to `last`, without it, and all that goes between them."""
        word = first
        for place in self._places(parts, first, last):
            yield from range(word, place.start)
            held = place.held
            if held.closing is None:
                yield held
            else:
                yield held.opening
                yield from self.items(held.inside, place.start, place.stop)
                yield held.closing
            word = place.stop
        yield from range(word, last)

    def _places(self, parts: Sequence[Held], first: int, last: int) -> list[_Place]:
        """Pairs around words go first, since nothing else may then stand inside of them."""
        wide = [self._read(part.start, part.stop) for part in parts]
        taken: dict[int, Span] = {}
        for number, (begin, end) in enumerate(wide):
            if begin < end:
                taken[number] = self._around((begin, end), first, last, list(taken.values()))
        around = list(taken.values())
        for number, (begin, end) in enumerate(wide):
            if begin == end:
                taken[number] = (self._between(begin, first, last, around),) * 2
        return [
            _Place(*taken[number], parts[number]) for number in sorted(taken, key=lambda each: (*taken[each], each))
        ]

    def _read(self, start: int, stop: int) -> Span:
        """The words of the source between two places, by their numbers."""
        begin = sum(end <= start for _, end in self._links.source)
        return begin, begin if start == stop else sum(each < stop for each, _ in self._links.source)

    def _around(self, read: Span, first: int, last: int, taken: Sequence[Span]) -> Span:
        """The words in a row that look at some words of the source more than at others, all of them together."""
        begin, end = read
        spots = self._free(first, last, taken)
        gains = self._links.weights[:, begin:end].sum(1) - 0.5
        best, found = -np.inf, (spots[0], spots[0])
        for start in spots:
            total = 0.0
            for stop in range(start + 1, last + 1):
                if any(one < stop and start < other for one, other in taken if one < other):
                    break
                total += float(gains[stop - 1])
                if total > best:
                    best, found = total, (start, stop)
        return found

    def _between(self, read: int, first: int, last: int, taken: Sequence[Span]) -> int:
        """The place, before a word by its number, whose neighbours look at those of a place in the source."""
        weights, size = self._links.weights, len(self._links.source)
        if read in (0, size) or not weights.size:
            return first if read == 0 or first == last else last

        def worth(spot: int) -> float:
            left = float(weights[spot - 1, read - 1]) if spot > first else 0.0
            right = float(weights[spot, read]) if spot < last else 0.0
            all_left = float(weights[first:spot, :read].sum()) + float(weights[spot:last, read:].sum())
            return left + right + _AGREES * all_left

        return max(self._free(first, last, taken), key=worth)

    def _free(self, first: int, last: int, taken: Sequence[Span]) -> list[int]:
        """Places that are not inside of a pair."""
        return [spot for spot in range(first, last + 1) if not any(one < spot < other for one, other in taken)]


def _gap(left: int | Held | None, right: int | Held, translation: str, links: Links) -> str:
    """The white space between two things that a reader sees."""
    if left is None or _is_break(left) or _is_break(right):
        return ""
    if isinstance(left, int) and isinstance(right, int):
        return translation[links.target[left][1] : links.target[right][0]]
    if isinstance(left, Held) and isinstance(right, Held):
        return " " if left.after == " " or left.start < right.start else ""
    if isinstance(left, Held):
        assert isinstance(right, int)
        return " " * _spaced(left, translation[links.target[right][0]], side=left.after, closes=_OPENS)
    assert isinstance(right, Held)
    return " " * _spaced(right, translation[links.target[left][1] - 1], side=right.before, closes=_CLOSES)


def _is_break(item: int | Held) -> bool:
    """Whether it ends a line, with all white space that stands there."""
    return isinstance(item, Held) and item.opening.name == BREAK


def _spaced(held: Held, letter: str, *, side: str, closes: frozenset[str]) -> bool:
    """Whether there is a space between a code and a letter of the translation.

    Markup has one where it had one. What is read as a word has one beside words, unless it was part of one.
    """
    if not held.opening.value:
        return side == " "
    if side.isalnum() or re.match(f"[{_WIDE}]", letter):
        return False
    return letter.isalnum() or letter in closes
