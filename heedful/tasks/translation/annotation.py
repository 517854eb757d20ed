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
from heedful.data.spelling import lowered, occurrences
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.tasks.translation.glossary import Glossary

Way: TypeAlias = Literal["append", "replace"]
"""Whether a term stands behind its source, or in its place."""

_ENDING: Final = 3
"""Letters at the end of a word that may be others."""
_STEM: Final = 3
"""Letters at its beginning that may not."""


@final
@dataclass(frozen=True)
class Marks:
    """What stands before a term's source, between both, and behind the term, each as a word of its own.

    As they are, each is one character that is left alone by normalisation, and so a piece of every vocabulary that was
    learned from text with them.
    """

    begin: str = "⟦"
    between: str = "⟶"
    end: str = "⟧"

    @property
    def annotated(self) -> re.Pattern[str]:
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
class Annotation:
    """Writes the terms of a glossary into sentences (Dinu et al. 2019, 2.1; marks instead of their factors).

    `two black cats` becomes `two ⟦ black cats ⟶ schwarze Katze ⟧`, and with "replace" `two ⟦ schwarze Katze ⟧`. A
    sentence in which one of the marks stands already stays as it is.

    Attributes:
        glossary: which terms, in the form in which they are annotated; translations may have other endings.
        way: see `Way`.
        marks: around them.
    """

    glossary: Glossary
    way: Way = "append"
    marks: Marks = Marks()

    def sentence(self, text: str) -> str:
        """A sentence to be translated, with all its terms."""
        return self._annotated(text, self.glossary.places(text))

    def source(self, text: str, target: str) -> str:
        """The source of a pair, with those of its terms that the target has, but for their endings."""
        return self._annotated(
            text, [each for each in self.glossary.places(text) if has(target, self.glossary.entries[each[1]])]
        )

    def _annotated(self, text: str, places: list[tuple[int, str]]) -> str:
        marks = self.marks
        if not places or any(mark in text for mark in (marks.begin, marks.between, marks.end)):
            return text
        spans = [(place, place + len(source)) for place, source in places]
        borders = [0, *(border for span in spans for border in span), len(text)]
        parts = [text[start:stop] for start, stop in pairwise(borders)]
        for number, (_, source) in enumerate(places):
            before, here, behind = parts[2 * number : 2 * number + 3]
            kept = f"{here} {marks.between} " if self.way == "append" else ""
            left = " " if before and not before[-1].isspace() else ""
            right = " " if behind and not behind[0].isspace() else ""
            term = self.glossary.entries[source]
            parts[2 * number + 1] = f"{left}{marks.begin} {kept}{term} {marks.end}{right}"
        return "".join(parts)


def has(text: str, term: str) -> bool:
    """Whether a term stands in a text; see `standing`."""
    return any(True for _ in standing(text, term))


def standing(text: str, term: str) -> Iterator[range]:
    """Where a term stands in a text as words of its own, in any case, and perhaps with other endings.

    Two words are one but for their endings if both go on for at most three letters behind what they begin with alike,
    which is at least three letters; accents do not count, so that `Häuser` has `Haus`. Where it stands as it is comes
    first.
    """
    yield from (range(at, at + len(term)) for at in occurrences(lowered(term), lowered(text)))
    wanted, words = [word for _, word in _words(term)], _words(text)
    for first in range(len(words) - len(wanted) + 1 if wanted else 0):
        here = words[first : first + len(wanted)]
        if all(_alike(one, other) for one, (_, other) in zip(wanted, here, strict=True)):
            yield range(here[0][0].start, here[-1][0].stop)


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    stem = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    longer = max(len(one), len(other))
    return stem >= _STEM and longer - stem <= _ENDING


@cache
def _word() -> re.Pattern[str]:
    return re.compile(rf"[{letters_and_marks()}]+")


def _words(text: str) -> list[tuple[range, str]]:
    """Each with its place, in lower case and without accents."""
    return [(range(*found.span()), _plain(found[0])) for found in _word().finditer(text)]


def _plain(word: str) -> str:
    letters = unicodedata.normalize("NFKD", word.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
