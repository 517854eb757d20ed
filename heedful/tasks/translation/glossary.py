"""Terms that translations must hold: given with a sentence, or by a glossary where their source stands in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from heedful.data.readers import read_lines
from heedful.data.spelling import occurrences
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError


@final
@dataclass(frozen=True)
class Term:
    """What a translation must hold, as it is written there.

    Attributes:
        text: of the translation.
        source: what it translates; of a sentence that is read in parts, the part that holds it gets the term. Empty
            where nobody says so; then it is looked for as it stands, and the first part gets what is in none.
    """

    text: str
    source: str = ""

    def ids(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """Those of the tokenizer's own cutting; none where a piece of it is unknown, so that it cannot be written.

        Cut as it is in the middle of a text, where vocabularies of characters have a space before it if they know one.
        """
        before = tokenizer.encode("a")
        within = tokenizer.encode(f"a {self.text}")
        ids = within[len(before) :] if within[: len(before)] == before else tokenizer.encode(self.text)
        strange = {tokenizer.special.unk, *tokenizer.special.silent}
        return next((tuple(each) for each in (ids, tokenizer.encode(self.text)) if not strange & set(each)), ())

    def held(self, text: str, tokenizer: Tokenizer) -> bool:
        """Whether a translation holds it, as words of its own."""
        return any(True for _ in occurrences(tokenizer.normalise(self.text).strip(), text))


@final
class Glossary:
    """Terms by what they translate.

    Args:
        entries: source and target terms, and the line of each. A source in lower case is meant in any case, one with a
            capital as it is written.
        place: where they stand, for messages.

    Raises:
        DataError: an entry has an empty side, or a source has two targets.
    """

    def __init__(self, entries: Sequence[tuple[int, str, str]], *, place: str) -> None:
        self.entries: dict[str, str] = {}
        for line, source, target in entries:
            if not source or not target:
                raise DataError(f"{place}:{line}: an empty side; write source term, tab, target term")
            if self.entries.setdefault(source, target) != target:
                raise DataError(
                    f"{place}:{line}: {source!r} has two targets, {self.entries[source]!r} and {target!r}; keep one"
                )

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """Lines of source term, tab, target term; empty lines are none, what stands behind a second tab is a note.

        Raises:
            DataError: a line has no tab, or see above.
        """
        entries = []
        for number, line in enumerate(read_lines(path), 1):
            if line.strip():
                source, tab, rest = line.partition("\t")
                if not tab:
                    raise DataError(f"{path}:{number}: no tab; write source term, tab, target term")
                entries.append((number, source.strip(), rest.partition("\t")[0].strip()))
        return cls(entries, place=str(path))

    def terms(self, sentence: str) -> tuple[Term, ...]:
        """Those whose source stands in a sentence as words of its own; of those that overlap, the longest."""
        found = dict.fromkeys(source for _, source in self._chosen(sentence))
        return tuple(Term(self.entries[source], source) for source in found)

    def places(self, sentence: str) -> list[tuple[int, str]]:
        """Where the sources of these terms begin in a sentence, from left to right, each as often as it is there."""
        return sorted(self._chosen(sentence))

    def _chosen(self, sentence: str) -> Iterator[tuple[int, str]]:
        """Places and sources that do not overlap, the longest first."""
        taken: list[range] = []
        for place, source in sorted(self._places(sentence), key=lambda each: (-len(each[1]), each[0])):
            here = range(place, place + len(source))
            if not any(here.start < other.stop and other.start < here.stop for other in taken):
                taken.append(here)
                yield place, source

    def _places(self, sentence: str) -> Iterator[tuple[int, str]]:
        folded = sentence.lower()
        folded = folded if len(folded) == len(sentence) else sentence
        for source in self.entries:
            for place in occurrences(source, folded if source == source.lower() else sentence):
                yield place, source


def shared_out(terms: Sequence[Term], parts: Sequence[str]) -> list[tuple[Term, ...]]:
    """Which part of a sentence is to hold which terms: that which holds their source; otherwise the first."""

    def part(term: Term) -> int:
        wanted = (term.source or term.text).lower()
        return next((number for number, text in enumerate(parts) if wanted in text.lower()), 0)

    places = [part(term) for term in terms]
    return [
        tuple(term for term, place in zip(terms, places, strict=True) if place == number)
        for number in range(len(parts))
    ]
