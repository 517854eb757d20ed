"""Translators' documents, filled: which units are translated, and what is told of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

from heedful.localisation.documents import TranslatableDocument, TranslationUnit, UnitState
from heedful.localisation.placeholders import to_plain_text
from heedful.localisation.segments import Segment
from heedful.localisation.translation_memory import MemoryMatch, TranslationMemory
from heedful.tasks.predictor import iter_chunks
from heedful.tasks.translation.markup_translation import (
    UNTRANSLATED_STRATEGIES,
    MarkupTranslator,
    SegmentResult,
    Strategy,
)

Retranslate = Literal["nothing", "review", "all"]
"""Which translations that are there already are made anew."""
_STATES: Final[Mapping[Retranslate, frozenset[UnitState]]] = {
    "nothing": frozenset(("untranslated",)),
    "review": frozenset(("untranslated", "review")),
    "all": frozenset(("untranslated", "review", "translated")),
}
_CHUNK_SIZE: Final = 4096
_MAX_SHOWN: Final = 5
"""Marks that no rule knows, as they are shown."""


@final
@dataclass(frozen=True)
class FilledDocument:
    """A document with new translations.

    Attributes:
        content: its bytes.
        num_units: how many it has that may be translated.
        num_requested: how many were to be translated.
        strategies: how many of these went which way.
        placeholders: that what was translated has.
        lost: how many of these its translations lack.
        unchecked: what in its texts looks like a placeholder and is none by any rule.
        untranslated: places and names of those that were not translated.
        matches: what a memory had for those that were to be translated; None where none was asked.
    """

    content: bytes
    num_units: int
    num_requested: int
    strategies: Counter[Strategy]
    placeholders: int
    lost: int
    untranslated: Sequence[str]
    matches: Sequence[MemoryMatch] | None = None
    unchecked: Sequence[str] = ()

    @property
    def describe_result(self) -> Iterator[str]:
        """What became of the document, in lines."""
        num_translated = self.num_requested - sum(self.strategies[strategy] for strategy in UNTRANSLATED_STRATEGIES)
        yield f"{num_translated:,} of {self.num_units:,} units translated, {self.num_units - self.num_requested:,} left as they were"
        if self.matches is not None:
            num_exact = sum(match.exact_target is not None for match in self.matches)
            num_similar, num_unmatched = len(self.matches) - num_exact, self.num_requested - len(self.matches)
            yield f"memory: {num_exact:,} units taken from it, {num_similar:,} similar to a text of it, {num_unmatched:,} to none"
        yield f"placeholders written: {self.placeholders:,}, lost: {self.lost:,}, unchecked: {len(self.unchecked):,}"
        if self.unchecked:
            marks = list(dict.fromkeys(self.unchecked))
            shown = ", ".join(map(repr, marks[:_MAX_SHOWN])) + ", ..." * (len(marks) > _MAX_SHOWN)
            yield f"unchecked, since they look like placeholders and no rule knows them: {shown}"
        for strategy in (Strategy.COPIED, Strategy.PLACED, Strategy.PIECES, Strategy.LOST, Strategy.FORMS):
            if self.strategies[strategy]:
                yield f"{self.strategies[strategy]:,} of {self.num_requested:,} units: {strategy.value}"


def translate_document(
    document: TranslatableDocument,
    translator: MarkupTranslator,
    *,
    retranslate: Retranslate = "nothing",
    memory: TranslationMemory | None = None,
) -> FilledDocument:
    """Translates what a document lacks; everything else in it stays as it is.

    Args:
        document: to be filled.
        translator: what translates its segments.
        retranslate: which translations that are there are made anew too.
        memory: approved translations, which are taken where they are of the same text, and shown where of a similar
            one, as far as the format has a place for that.
    """
    translatable = [
        number for number, unit in enumerate(document.units) if unit.translatable and to_plain_text(unit.source)
    ]
    requested = [number for number in translatable if document.units[number].state in _STATES[retranslate]]
    previous_sources = _list_previous_sources(translatable, document.units, count=translator.translator.context)
    sources = {number: document.units[number].source for number in requested}
    matches: dict[int, MemoryMatch] = {}
    if memory is not None:
        lookups = (
            (index, memory.find_match(sources[index], accelerators=document.accelerators)) for index in requested
        )
        matches = {number: match for number, match in lookups if match is not None}
    targets: dict[int, Segment] = {
        number: match.exact_target for number, match in matches.items() if match.exact_target is not None
    }
    results: dict[int, SegmentResult] = {}
    for numbers in iter_chunks((number for number in requested if number not in targets), _CHUNK_SIZE):
        outcomes = translator.translate_segments(
            [sources[index] for index in numbers],
            accelerators=document.accelerators,
            before=[previous_sources[index] for index in numbers],
        )
        results.update(zip(numbers, outcomes, strict=True))
    targets |= {number: outcome.target for number, outcome in results.items() if outcome.target is not None}
    num_placeholders = sum(outcome.placeholders for outcome in results.values())
    num_lost = sum(outcome.lost for outcome in results.values())
    untranslated = [_describe_unit(document.units[number]) for number in requested if number not in targets]
    strategies = Counter(outcome.strategy for outcome in results.values())
    content = document.fill_targets(targets, matches)
    memory_matches = None if memory is None else list(matches.values())
    unchecked = [mark for outcome in results.values() for mark in outcome.unchecked]
    return FilledDocument(
        content,
        len(translatable),
        len(requested),
        strategies,
        num_placeholders,
        num_lost,
        untranslated,
        memory_matches,
        unchecked,
    )


def _list_previous_sources(
    indices: Sequence[int], units: Sequence[TranslationUnit], *, count: int
) -> Mapping[int, Sequence[Segment]]:
    """The sources before each of some units, in the order in which they stand, whatever is known of them."""
    return {
        index: [units[previous].source for previous in indices[max(0, position - count) : position]]
        for position, index in enumerate(indices)
    }


def _describe_unit(unit: TranslationUnit) -> str:
    return f"{unit.location} {to_plain_text(unit.source)[:60]!r}"
