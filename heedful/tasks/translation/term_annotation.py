"""Annotation of source texts with target terms, so that a model learns to copy and inflect them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final, Literal, TypeAlias, final

from heedful.characters import letters_and_marks
from heedful.data.tokenizers import Tokenizer
from heedful.data.word_boundaries import find_term, to_lowercase_same_length
from heedful.errors import RecipeError
from heedful.tasks.translation.glossary import TermGlossary

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
        """Annotate the source of a pair with those of its terms that the target contains, perhaps inflected."""
        return self._insert_terms(
            text,
            [
                occurrence
                for occurrence in self.glossary.find_occurrences(text)
                if contains_term(target, self.glossary.entries[occurrence[1]])
            ],
        )

    def _insert_terms(self, text: str, occurrences: list[tuple[int, str]]) -> str:
        """Insert the target terms at these occurrences of source terms."""
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
    """Yield the spans at which a term occurs in a text as whole words, in any case, and perhaps inflected; exact
    occurrences come first.

    Two words match if they share a beginning of at least three letters and differ in at most three letters after it;
    accents
    are ignored, so that `Häuser` matches `Haus`.
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
    """Return whether two words are equal but for their endings."""
    if word == other:
        return True
    stem_length = next(
        (index for index, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other))
    )
    longer = max(len(word), len(other))
    return stem_length >= _MIN_STEM and longer - stem_length <= _MAX_ENDING


@cache
def _word_pattern() -> re.Pattern[str]:
    """Compile the pattern of a word."""
    return re.compile(rf"[{letters_and_marks()}]+")


def _find_words(text: str) -> list[tuple[range, str]]:
    """Return the words of a text with their spans, in lower case and without accents."""
    return [(range(*match.span()), _remove_accents(match[0])) for match in _word_pattern().finditer(text)]


def _remove_accents(word: str) -> str:
    """Return a word in lower case without accents."""
    letters = unicodedata.normalize("NFKD", word.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
