"""Terms of translations: required ones, those of a glossary, and their annotation in source texts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, TypeAlias, final

from heedful.characters import letters_and_marks
from heedful.data.readers import read_lines
from heedful.data.token_offsets import find_term, to_lowercase_same_length
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError


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
        whole_ids = tokenizer.encode(self.text)[len(tokenizer.prefix_ids) :]
        after_text = tokenizer.encode(f"a {self.text}")
        ids = after_text[len(before) :] if after_text[: len(before)] == before else whole_ids
        unwritable = {tokenizer.special.unk, *tokenizer.special.skipped_ids}
        return next(
            (tuple(candidate_ids) for candidate_ids in (ids, whole_ids) if not unwritable & set(candidate_ids)),
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
        """Yield position and source term of occurrences in a sentence that do not overlap, longest first."""
        spans: list[range] = []
        for position, source in sorted(
            self._iter_occurrences(sentence), key=lambda occurrence: (-len(occurrence[1]), occurrence[0])
        ):
            span = range(position, position + len(source))
            if not any(span.start < taken_span.stop and taken_span.start < span.stop for taken_span in spans):
                spans.append(span)
                yield position, source

    def _iter_occurrences(self, sentence: str) -> Iterator[tuple[int, str]]:
        """Yield position and source term of all occurrences in a sentence as whole words, overlapping ones too; a
        lowercase term matches any case.
        """
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


AnnotationStyle: TypeAlias = Literal["append", "replace"]
"""Whether a target term follows its source term, or replaces it."""

_MAX_ENDING: Final = 3
"""Maximum number of letters at the end of a word that may differ."""
_MIN_STEM: Final = 3
"""Minimum number of letters at its beginning that must be equal."""


@final
@dataclass(frozen=True)
class AnnotationMarks:
    """The marks before a source term, between source and target term, and after the target term, each a word of its
    own.

    By default each is one character that normalisation does not change, and so a piece of every vocabulary that was
    learned
    from annotated text.
    """

    begin: str = "⟦"
    between: str = "⟶"
    end: str = "⟧"

    @property
    def pattern(self) -> re.Pattern[str]:
        """Pattern of an annotated term with its marks."""
        return re.compile(f"{self.begin}[^{self.begin}{self.end}]*{self.end}")

    def require_known(self, tokenizer: Tokenizer) -> None:
        """Raise RecipeError if a mark is unknown to a vocabulary, so that a model cannot interpret it."""
        for mark in (self.begin, self.between, self.end):
            if tokenizer.special.unk in tokenizer.encode(mark):
                raise RecipeError(
                    f"{mark!r} is not a piece of the source vocabulary, so the model was not trained on annotated "
                    "text; train it on what heedful annotate writes, or leave --annotate out"
                )


@final
@dataclass(frozen=True)
class TermAnnotator:
    """Inserts the terms of a glossary into sentences (Dinu et al. 2019, 2.1; marks instead of their factors).

    `two black cats` becomes `two ⟦ black cats ⟶ schwarze Katze ⟧`, and with "replace" `two ⟦ schwarze Katze ⟧`. A
    sentence that contains one of the marks already is not changed.

    Attributes:
        glossary: terms in the form in which they are inserted; translations may have other endings.
        style: see `AnnotationStyle`.
        marks: around the terms.
    """

    glossary: TermGlossary
    style: AnnotationStyle = "append"
    marks: AnnotationMarks = AnnotationMarks()

    def annotate_sentence(self, text: str) -> str:
        """Annotate a sentence to translate with all its terms."""
        return self._insert_terms(text, self.glossary.find_occurrences(text))

    def annotate_source(self, text: str, target: str) -> str:
        """Annotate `text`, the source of a pair, with those of its terms that the target contains, also inflected."""
        return self._insert_terms(
            text,
            [
                occurrence
                for occurrence in self.glossary.find_occurrences(text)
                if contains_term(target, self.glossary.entries[occurrence[1]])
            ],
        )

    def _insert_terms(self, text: str, occurrences: list[tuple[int, str]]) -> str:
        """Insert the target terms into a text at these occurrences (position and source term); a text that contains a
        mark already is not changed.
        """
        marks = self.marks
        if not occurrences or any(mark in text for mark in (marks.begin, marks.between, marks.end)):
            return text
        spans = [(position, position + len(source)) for position, source in occurrences]
        borders = [0, *(border for span in spans for border in span), len(text)]
        parts = [text[start:stop] for start, stop in pairwise(borders)]
        for number, (_, source) in enumerate(occurrences):
            before, term_source, after = parts[2 * number : 2 * number + 3]
            source_part = f"{term_source} {marks.between} " if self.style == "append" else ""
            left_space = " " if before and not before[-1].isspace() else ""
            right_space = " " if after and not after[0].isspace() else ""
            term = self.glossary.entries[source]
            parts[2 * number + 1] = f"{left_space}{marks.begin} {source_part}{term} {marks.end}{right_space}"
        return "".join(parts)


def contains_term(text: str, term: str) -> bool:
    """Return whether a text contains a term; see `iter_term_spans`."""
    return any(True for _ in iter_term_spans(text, term))


def iter_term_spans(text: str, term: str) -> Iterator[range]:
    """Yield the spans at which a term occurs in a text as whole words, in upper or lower case: first the exact
    occurrences, then those whose words may have other endings.

    Two words match if they share a beginning of at least three letters and differ in at most three letters after it;
    accents are ignored, so that `Häuser` matches `Haus`.
    """
    yield from (
        range(start, start + len(term))
        for start in find_term(to_lowercase_same_length(term), to_lowercase_same_length(text))
    )
    term_words, words = [word for _, word in _find_words(term)], _find_words(text)
    for index in range(len(words) - len(term_words) + 1 if term_words else 0):
        window = words[index : index + len(term_words)]
        if all(
            _has_same_stem(term_word, other_word) for term_word, (_, other_word) in zip(term_words, window, strict=True)
        ):
            yield range(window[0][0].start, window[-1][0].stop)


def _has_same_stem(word: str, other: str) -> bool:
    """Return whether two words are equal but for their endings: they begin with at least three equal letters, after
    which at most three follow.
    """
    if word == other:
        return True
    stem_length = next(
        (index for index, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other))
    )
    longer = max(len(word), len(other))
    return stem_length >= _MIN_STEM and longer - stem_length <= _MAX_ENDING


@cache
def _word_pattern() -> re.Pattern[str]:
    return re.compile(rf"[{letters_and_marks()}]+")


def _find_words(text: str) -> list[tuple[range, str]]:
    """Return the words of a text with their spans, in lower case and without accents."""
    return [(range(*match.span()), _remove_accents(match[0])) for match in _word_pattern().finditer(text)]


def _remove_accents(word: str) -> str:
    """Return a word in lower case without accents."""
    letters = unicodedata.normalize("NFKD", word.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
