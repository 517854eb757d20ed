"""Translation of documents: which units are translated, and a summary of the result."""

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
"""Which existing translations are replaced."""
_STATES: Final[Mapping[Retranslate, frozenset[UnitState]]] = {
    "nothing": frozenset(("untranslated",)),
    "review": frozenset(("untranslated", "review")),
    "all": frozenset(("untranslated", "review", "translated")),
}
_CHUNK_SIZE: Final = 4096
_MAX_SHOWN: Final = 5
"""Maximum number of unknown marks in a summary."""


@final
@dataclass(frozen=True)
class FilledDocument:
    """A document with new translations.

    Attributes:
        content: its bytes.
        num_units: number of units that may be translated.
        num_requested: number of units that were to be translated.
        strategies: number of translated units by strategy.
        placeholders: number of placeholders in the translated units.
        lost: number of these that the translations lack.
        unchecked: parts of the texts that look like placeholders but match no rule.
        untranslated: locations and texts of units that were not translated.
        matches: translation memory matches of the requested units; None without a memory.
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
        """Summary of the result in lines."""
        num_translated = self.num_requested - sum(self.strategies[strategy] for strategy in UNTRANSLATED_STRATEGIES)
        yield (
            f"{num_translated:,} of {self.num_units:,} units translated, {self.num_units - self.num_requested:,} left "
            "as they were"
        )
        if self.matches is not None:
            num_exact = sum(match.exact_target is not None for match in self.matches)
            num_similar, num_unmatched = len(self.matches) - num_exact, self.num_requested - len(self.matches)
            yield (
                f"memory: {num_exact:,} units taken from it, {num_similar:,} similar to a text of it, "
                f"{num_unmatched:,} to none"
            )
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
    """Translate the missing translations of a document; everything else in it stays as it is. `retranslate` says which
    existing ones are replaced too; exact matches of the memory are used as translations.

    Args:
        document: to be filled.
        translator: translator of its segments.
        retranslate: which existing translations are replaced too.
        memory: translation memory; exact matches are used as translations, similar ones are added as suggestions if the
            format has a place for them.
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
            before=[previous_sources[index] for index in numbers] if previous_sources else (),
        )
        results.update(zip(numbers, outcomes, strict=True))
    targets |= {number: outcome.target for number, outcome in results.items() if outcome.target is not None}
    return FilledDocument(
        document.fill_targets(targets, matches),
        len(translatable),
        len(requested),
        strategies=Counter(outcome.strategy for outcome in results.values()),
        placeholders=sum(outcome.placeholders for outcome in results.values()),
        lost=sum(outcome.lost for outcome in results.values()),
        untranslated=[_describe_unit(document.units[number]) for number in requested if number not in targets],
        matches=None if memory is None else list(matches.values()),
        unchecked=[mark for outcome in results.values() for mark in outcome.unchecked],
    )


def _list_previous_sources(
    indices: Sequence[int], units: Sequence[TranslationUnit], *, count: int
) -> Mapping[int, Sequence[Segment]]:
    """Return for each unit in `indices` the sources of at most `count` units before it there; empty if `count` is 0."""
    if not count:
        return {}
    return {
        index: [units[previous].source for previous in indices[max(0, position - count) : position]]
        for position, index in enumerate(indices)
    }


def _describe_unit(unit: TranslationUnit) -> str:
    """Describe a unit by its location and the start of its text."""
    return f"{unit.location} {to_plain_text(unit.source)[:60]!r}"
