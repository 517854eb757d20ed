"""Terms that translations must hold: given with a sentence, or by a glossary where their source stands in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from heedful.data.readers import read_lines
from heedful.data.tokenizers import Tokenizer
from heedful.data.word_boundaries import find_term
from heedful.errors import DataError


@final
@dataclass(frozen=True)
class TargetTerm:
    """What a translation must hold, as it is written there.

    Attributes:
        text: of the translation.
        source: what it translates; of a sentence that is read in parts, the part that holds it gets the term. Empty
            where nobody says so; then it is looked for as it stands, and the first part gets what is in none.
    """

    text: str
    source: str = ""

    def encode(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """Those of the tokenizer's own cutting; none where a piece of it is unknown, so that it cannot be written.

        Cut as it is in the middle of a text, where vocabularies of characters have a space before it if they know one.
        """
        before = tokenizer.encode("a")
        after_text = tokenizer.encode(f"a {self.text}")
        ids = after_text[len(before) :] if after_text[: len(before)] == before else tokenizer.encode(self.text)
        unwritable = {tokenizer.special.unk, *tokenizer.special.skipped_ids}
        return next(
            (
                tuple(candidate_ids)
                for candidate_ids in (ids, tokenizer.encode(self.text))
                if not unwritable & set(candidate_ids)
            ),
            (),
        )

    def is_in(self, text: str, tokenizer: Tokenizer) -> bool:
        """Whether a translation holds it, as words of its own."""
        return any(True for _ in find_term(tokenizer.normalise(self.text).strip(), text))


@final
class TermGlossary:
    """Terms by what they translate.

    Args:
        entries: source and target terms, and the line of each. A source in lower case is meant in any case, one with a
            capital as it is written.
        path: where they stand, for messages.

    Raises:
        DataError: an entry has an empty side, or a source has two targets.
    """

    def __init__(self, entries: Sequence[tuple[int, str, str]], *, path: str) -> None:
        self.entries: dict[str, str] = {}
        for line, source, target in entries:
            if not source or not target:
                raise DataError(f"{path}:{line}: an empty side; write source term, tab, target term")
            if self.entries.setdefault(source, target) != target:
                raise DataError(
                    f"{path}:{line}: {source!r} has two targets, {self.entries[source]!r} and {target!r}; keep one"
                )

    @classmethod
    def from_file(cls, path: Path) -> TermGlossary:
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
        return cls(entries, path=str(path))

    def find_terms(self, sentence: str) -> tuple[TargetTerm, ...]:
        """Those whose source stands in a sentence as words of its own; of those that overlap, the longest."""
        sources = dict.fromkeys(source for _, source in self._select_occurrences(sentence))
        return tuple(TargetTerm(self.entries[source], source) for source in sources)

    def find_occurrences(self, sentence: str) -> list[tuple[int, str]]:
        """Where the sources of these terms begin in a sentence, from left to right, each as often as it is there."""
        return sorted(self._select_occurrences(sentence))

    def _select_occurrences(self, sentence: str) -> Iterator[tuple[int, str]]:
        """Places and sources that do not overlap, the longest first."""
        spans: list[range] = []
        for position, source in sorted(
            self._iter_occurrences(sentence), key=lambda occurrence: (-len(occurrence[1]), occurrence[0])
        ):
            span = range(position, position + len(source))
            if not any(span.start < taken_span.stop and taken_span.start < span.stop for taken_span in spans):
                spans.append(span)
                yield position, source

    def _iter_occurrences(self, sentence: str) -> Iterator[tuple[int, str]]:
        folded = sentence.lower()
        folded = folded if len(folded) == len(sentence) else sentence
        for source in self.entries:
            for position in find_term(source, folded if source == source.lower() else sentence):
                yield position, source


def assign_terms(terms: Sequence[TargetTerm], parts: Sequence[str]) -> list[tuple[TargetTerm, ...]]:
    """Which part of a sentence is to hold which terms: that which holds their source; otherwise the first."""

    def find_part(term: TargetTerm) -> int:
        searched = (term.source or term.text).lower()
        return next((number for number, text in enumerate(parts) if searched in text.lower()), 0)

    part_numbers = [find_part(term) for term in terms]
    return [
        tuple(term for term, part_number in zip(terms, part_numbers, strict=True) if part_number == number)
        for number in range(len(parts))
    ]
