"""Sentences as a translator reads them: with what they follow, and in parts where they are too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from heedful.data.context import Readable, before, led, readable, text_of
from heedful.data.corpus import CHARACTERS_PER_TOKEN
from heedful.data.parts import parts
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.tasks.translation.directions import languages_of
from heedful.tasks.translation.glossary import Term


@final
@dataclass(frozen=True)
class Part:
    """A sentence, or a part of one, without the `cut` tokens at its end, and what its translation is to hold; among the
    `ids` are those of what it follows.
    """

    sentence: Readable
    ids: list[int]
    cut: int = 0
    terms: tuple[Term, ...] = ()

    @property
    def text(self) -> str:
        """It alone."""
        return text_of(self.sentence)


@final
@dataclass(frozen=True)
class Reading:
    """How a translator reads.

    Attributes:
        tokenizer: of the source, opened by what stands before every sentence.
        longest: source in tokens, the one that ends it included.
        context: sentences before another one that are read with it, at most.
        asked: ids of the tags that ask for languages, of which one must stand before a sentence if there are any.
    """

    tokenizer: Tokenizer
    longest: int
    context: int
    asked: frozenset[int]

    def parts(self, sentence: Readable) -> list[Part]:
        """A sentence, or its parts where it is longer than the model reads; each follows the one before it."""
        whole = self.part(sentence)
        found = [part.strip() for part in parts(text_of(sentence), self._fits)] if whole.cut else []
        if len(found) < 2:
            return [whole]
        seen = [*before(sentence), *found]
        first = len(seen) - len(found)
        return [self.part(readable(part, seen[max(0, at - self.context) : at])) for at, part in enumerate(found, first)]

    def part(self, sentence: Readable) -> Part:
        """A sentence as far as the model reads it."""
        ids, room = self._ids(sentence), self.longest - 1
        return Part(sentence, ids[:room], max(0, len(ids) - room))

    def encode(self, sentence: Readable, number: int) -> list[int]:
        """The ids of a sentence; `DataError`, which says its number, where it is longer than the model reads."""
        ids = self._ids(sentence)
        if len(ids) >= self.longest:
            raise DataError(
                f"sentence {number}: has {len(ids)} tokens, this model reads at most {self.longest - 1}; split it"
            )
        return ids

    def _fits(self, text: str) -> bool:
        return len(text) <= CHARACTERS_PER_TOKEN * self.longest and not self.part(text.strip()).cut

    def _ids(self, sentence: Readable) -> list[int]:
        if self.asked and self.asked.isdisjoint(self.tokenizer.opening):
            languages = ", ".join(languages_of(self.tokenizer.tags))
            raise RecipeError(f"this model writes {languages}: say which of them, with --to or towards()")
        lead = before(sentence)
        if lead and not self.context:
            raise RecipeError(
                "this model reads each sentence by itself: give sentences alone, or train one with data.context"
            )
        ids = self.tokenizer.encode(text_of(sentence))
        return led(self.tokenizer, ids, lead[-self.context :], longest=self.longest - 1) if lead else ids
