"""Terms beside their sources in the text that is read, so that a model learns to take them up and to inflect them."""

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
"""Whether a term stands behind its source, or in its place."""

_MAX_ENDING: Final = 3
"""Letters at the end of a word that may be others."""
_MIN_STEM: Final = 3
"""Letters at its beginning that may not."""


@final
@dataclass(frozen=True)
class AnnotationMarks:
    """What stands before a term's source, between both, and behind the term, each as a word of its own.

    As they are, each is one character that is left alone by normalisation, and so a piece of every vocabulary that was
    learned from text with them.
    """

    begin: str = "⟦"
    between: str = "⟶"
    end: str = "⟧"

    @property
    def pattern(self) -> re.Pattern[str]:
        """What is written for a term, the marks around it included."""
        return re.compile(f"{self.begin}[^{self.begin}{self.end}]*{self.end}")

    def require_known(self, tokenizer: Tokenizer) -> None:
        """Raises `RecipeError` where a vocabulary has never read one of them, and a model could make nothing of it."""
        for mark in (self.begin, self.between, self.end):
            if tokenizer.special.unk in tokenizer.encode(mark):
                raise RecipeError(
                    f"{mark!r} is no piece of the source vocabulary, so the model has not learned from annotated text; "
                    "train it on what heedful annotate writes, or leave --annotate away"
                )


@final
@dataclass(frozen=True)
class TermAnnotator:
    """Writes the terms of a glossary into sentences (Dinu et al. 2019, 2.1; marks instead of their factors).

    `two black cats` becomes `two ⟦ black cats ⟶ schwarze Katze ⟧`, and with "replace" `two ⟦ schwarze Katze ⟧`. A
    sentence in which one of the marks stands already stays as it is.

    Attributes:
        glossary: which terms, in the form in which they are annotated; translations may have other endings.
        style: see `AnnotationStyle`.
        marks: around them.
    """

    glossary: TermGlossary
    style: AnnotationStyle = "append"
    marks: AnnotationMarks = AnnotationMarks()

    def annotate_sentence(self, text: str) -> str:
        """A sentence to be translated, with all its terms."""
        return self._insert_terms(text, self.glossary.find_occurrences(text))

    def annotate_source(self, text: str, target: str) -> str:
        """The source of a pair, with those of its terms that the target has, but for their endings."""
        return self._insert_terms(
            text,
            [
                occurrence
                for occurrence in self.glossary.find_occurrences(text)
                if contains_term(target, self.glossary.entries[occurrence[1]])
            ],
        )

    def _insert_terms(self, text: str, occurrences: list[tuple[int, str]]) -> str:
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
    """Whether a term stands in a text; see `iter_term_spans`."""
    return any(True for _ in iter_term_spans(text, term))


def iter_term_spans(text: str, term: str) -> Iterator[range]:
    """Where a term stands in a text as words of its own, in any case, and perhaps with other endings.

    Two words are one but for their endings if both go on for at most three letters behind what they begin with alike,
    which is at least three letters; accents do not count, so that `Häuser` has `Haus`. Where it stands as it is comes
    first.
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
    """Each with its place, in lower case and without accents."""
    return [(range(*match.span()), _remove_accents(match[0])) for match in _word_pattern().finditer(text)]


def _remove_accents(word: str) -> str:
    letters = unicodedata.normalize("NFKD", word.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
