"""Translators' documents, filled: which units are translated, and what is told of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

from heedful.localisation.documents import Document, State, Unit
from heedful.localisation.memory import Match, TranslationMemory
from heedful.localisation.placeholders import plain
from heedful.localisation.segments import Segment
from heedful.tasks.faces import chunked
from heedful.tasks.translation.protecting import UNTRANSLATED, Outcome, Protecting, Way

Retranslate = Literal["nothing", "review", "all"]
"""Which translations that are there already are made anew."""
_STATES: Final[Mapping[Retranslate, frozenset[State]]] = {
    "nothing": frozenset(("untranslated",)),
    "review": frozenset(("untranslated", "review")),
    "all": frozenset(("untranslated", "review", "translated")),
}
_AT_ONCE: Final = 4096
_SHOWN: Final = 5
"""Marks that no rule knows, as they are shown."""


@final
@dataclass(frozen=True)
class Filled:
    """A document with new translations.

    Attributes:
        content: its bytes.
        units: how many it has that may be translated.
        asked: how many were to be translated.
        ways: how many of these went which way.
        placeholders: that what was translated has.
        lost: how many of these its translations lack.
        unchecked: what in its texts looks like a placeholder and is none by any rule.
        left: places and names of those that were not translated.
        matches: what a memory had for those that were to be translated; None where none was asked.
    """

    content: bytes
    units: int
    asked: int
    ways: Counter[Way]
    placeholders: int
    lost: int
    left: Sequence[str]
    matches: Sequence[Match] | None = None
    unchecked: Sequence[str] = ()

    @property
    def told(self) -> Iterator[str]:
        """What became of the document, in lines."""
        done = self.asked - sum(self.ways[way] for way in UNTRANSLATED)
        yield f"{done:,} of {self.units:,} units translated, {self.units - self.asked:,} left as they were"
        if self.matches is not None:
            taken = sum(match.taken is not None for match in self.matches)
            similar, strange = len(self.matches) - taken, self.asked - len(self.matches)
            yield f"memory: {taken:,} units taken from it, {similar:,} similar to a text of it, {strange:,} to none"
        yield f"placeholders written: {self.placeholders:,}, lost: {self.lost:,}, unchecked: {len(self.unchecked):,}"
        if self.unchecked:
            known = list(dict.fromkeys(self.unchecked))
            shown = ", ".join(map(repr, known[:_SHOWN])) + ", ..." * (len(known) > _SHOWN)
            yield f"unchecked, since they look like placeholders and no rule knows them: {shown}"
        for way in (Way.COPIED, Way.PLACED, Way.PIECES, Way.LOST, Way.FORMS):
            if self.ways[way]:
                yield f"{self.ways[way]:,} of {self.asked:,} units: {way.value}"


def fill(
    document: Document,
    protecting: Protecting,
    *,
    retranslate: Retranslate = "nothing",
    memory: TranslationMemory | None = None,
) -> Filled:
    """Translates what a document lacks; everything else in it stays as it is.

    Args:
        document: to be filled.
        protecting: what translates its segments.
        retranslate: which translations that are there are made anew too.
        memory: approved translations, which are taken where they are of the same text, and shown where of a similar
            one, as far as the format has a place for that.
    """
    possible = [number for number, unit in enumerate(document.units) if unit.translatable and plain(unit.source)]
    asked = [number for number in possible if document.units[number].state in _STATES[retranslate]]
    before = _before(possible, document.units, count=protecting.translator.context)
    sources = {number: document.units[number].source for number in asked}
    matches: dict[int, Match] = {}
    if memory is not None:
        looked = ((each, memory.find(sources[each], accelerators=document.accelerators)) for each in asked)
        matches = {number: match for number, match in looked if match is not None}
    targets: dict[int, Segment] = {number: match.taken for number, match in matches.items() if match.taken is not None}
    found: dict[int, Outcome] = {}
    for numbers in chunked((number for number in asked if number not in targets), _AT_ONCE):
        outcomes = protecting.all(
            [sources[each] for each in numbers],
            accelerators=document.accelerators,
            before=[before[each] for each in numbers],
        )
        found.update(zip(numbers, outcomes, strict=True))
    targets |= {number: outcome.target for number, outcome in found.items() if outcome.target is not None}
    written = sum(outcome.placeholders for outcome in found.values())
    lost = sum(outcome.lost for outcome in found.values())
    left = [_called(document.units[number]) for number in asked if number not in targets]
    ways = Counter(outcome.way for outcome in found.values())
    content = document.filled(targets, matches)
    told = None if memory is None else list(matches.values())
    unchecked = [mark for outcome in found.values() for mark in outcome.unchecked]
    return Filled(content, len(possible), len(asked), ways, written, lost, left, told, unchecked)


def _before(numbers: Sequence[int], units: Sequence[Unit], *, count: int) -> Mapping[int, Sequence[Segment]]:
    """The sources before each of some units, in the order in which they stand, whatever is known of them."""
    return {
        number: [units[each].source for each in numbers[max(0, place - count) : place]]
        for place, number in enumerate(numbers)
    }


def _called(unit: Unit) -> str:
    return f"{unit.place} {plain(unit.source)[:60]!r}"
