"""Required terms of translations, given with a sentence or taken from a glossary."""

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
    """A term that a translation must contain.

    Attributes:
        text: the term in the translation.
        source: the source term; the part of a split sentence that contains it gets the term. If empty, `text` itself is
            searched in the source, and the first part gets the term if no part contains it.
    """

    text: str
    source: str = ""

    def encode(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """Return the ids of the term in the middle of a text; empty if one of its pieces is unknown, so that it cannot
        be generated.

        Encoded after another word, because character vocabularies may have a space before it.
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
        """Return whether a translation contains the term as whole words."""
        return any(True for _ in find_term(tokenizer.normalise(self.text).strip(), text))


@final
class TermGlossary:
    """Target terms by source term.

    Args:
        entries: line number, source and target term. A lowercase source term matches any case, one with a capital only
            as it is written.
        path: name of the file, for messages.

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
        """Read lines of source term, tab, target term; empty lines are skipped, and text after a second tab is a note.

        Raises:
            DataError: a line has no tab, an empty side, or a second target for the same source.
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
        """Return the terms whose source occurs in a sentence as whole words; of overlapping ones the longest."""
        sources = dict.fromkeys(source for _, source in self._select_occurrences(sentence))
        return tuple(TargetTerm(self.entries[source], source) for source in sources)

    def find_occurrences(self, sentence: str) -> list[tuple[int, str]]:
        """Return position and source term of all occurrences in a sentence, from left to right."""
        return sorted(self._select_occurrences(sentence))

    def _select_occurrences(self, sentence: str) -> Iterator[tuple[int, str]]:
        """Yield occurrences that do not overlap, longest first."""
        spans: list[range] = []
        for position, source in sorted(
            self._iter_occurrences(sentence), key=lambda occurrence: (-len(occurrence[1]), occurrence[0])
        ):
            span = range(position, position + len(source))
            if not any(span.start < taken_span.stop and taken_span.start < span.stop for taken_span in spans):
                spans.append(span)
                yield position, source

    def _iter_occurrences(self, sentence: str) -> Iterator[tuple[int, str]]:
        """Yield all occurrences of source terms."""
        folded = sentence.lower()
        folded = folded if len(folded) == len(sentence) else sentence
        for source in self.entries:
            for position in find_term(source, folded if source == source.lower() else sentence):
                yield position, source


def assign_terms(terms: Sequence[TargetTerm], parts: Sequence[str]) -> list[tuple[TargetTerm, ...]]:
    """Assign terms to the parts of a sentence: to the part that contains their source, otherwise to the first."""

    def find_part(term: TargetTerm) -> int:
        """Return the number of the part that contains a term."""
        searched = (term.source or term.text).lower()
        return next((number for number, text in enumerate(parts) if searched in text.lower()), 0)

    part_numbers = [find_part(term) for term in terms]
    return [
        tuple(term for term, part_number in zip(terms, part_numbers, strict=True) if part_number == number)
        for number in range(len(parts))
    ]
