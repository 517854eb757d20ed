"""What is translated, as a model reads it: behind what it follows, in parts where it is long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, final

from heedful.data.context import Readable, before, led, own_places, readable, text_of
from heedful.data.corpus import CHARACTERS_PER_TOKEN
from heedful.data.factors import Encoded, Reading
from heedful.data.links import led_numbers
from heedful.data.parts import parts
from heedful.errors import DataError, RecipeError
from heedful.tasks.translation.annotation import Marks
from heedful.tasks.translation.directions import languages_of
from heedful.tasks.translation.glossary import Term, shared_out

_BEGINNING: Final = 40
"""Letters in which a text names a language, if it does."""


@final
@dataclass(frozen=True)
class Part:
    """A sentence, or a part of one, without the `cut` tokens at its end, and what its translation is to hold; what is
    `read` may begin with pieces of what it follows.
    """

    sentence: Readable
    read: Encoded
    cut: int = 0
    terms: tuple[Term, ...] = ()

    @property
    def text(self) -> str:
        """It alone."""
        return text_of(self.sentence)


@final
@dataclass(frozen=True)
class Source:
    """How a model reads sentences.

    Attributes:
        reading: how a text becomes pieces.
        longest: how many of them, the one that ends a sentence included.
        context: sentences before another one that are read with it, at most.
    """

    reading: Reading
    longest: int
    context: int = 0

    def parts(self, sentence: Readable) -> list[Part]:
        """The sentence, or what it is split into where it is too long (`heedful.data.parts`), each part behind those
        before it."""
        self._require_language(sentence)
        whole = self.part(sentence)
        found = parts(text_of(sentence), self._fits, whole=Marks().annotated) if whole.cut else []
        if len(found) < 2:
            return [whole]
        seen = [*before(sentence), *(part.strip() for part in found)]
        first = len(seen) - len(found)
        return [self.part(readable(seen[at], seen[max(0, at - self.context) : at])) for at in range(first, len(seen))]

    def part(self, sentence: Readable) -> Part:
        """As much of it as can be read."""
        read, room = self._whole(sentence), self.longest - 1
        return Part(sentence, read.up_to(room), max(0, len(read) - room))

    def whole(self, sentence: Readable, number: int) -> Encoded:
        """All of it; `DataError` with its number where it is too long."""
        self._require_language(sentence)
        read = self._whole(sentence)
        if len(read) >= self.longest:
            raise DataError(
                f"sentence {number}: has {len(read)} tokens, this model reads at most {self.longest - 1}; split it"
            )
        return read

    def beginning(self, text: str, number: int, cut: Callable[[int], None] | None) -> Encoded:
        """A text that stands by itself, as far as it can be read; `cut` is told its number where something is left, and
        without it that is a `DataError`."""
        read, room = self.reading.encode(text), self.longest - 1
        if len(read) <= room:
            return read
        if cut is None:
            raise DataError(f"text {number}: has {len(read)} tokens, this model reads at most {room}; split it")
        cut(number)
        return read.up_to(room)

    def own_places(self, read: Encoded) -> list[int]:
        """Where the pieces of a sentence stand among those that are read, which may begin with what it follows."""
        return own_places(self.reading.tokenizer, read.ids)

    def words(self, sentence: Readable) -> list[int]:
        """For each piece that is read the number of the word, between white space, in which it begins; -1 for what the
        sentence follows, and for tags.

        Raises:
            DataError: the sentence is longer than the model can read, or its pieces are not found again in it.
        """
        plain = self.reading.plain(text_of(sentence))
        return led_numbers(self.reading.tokenizer, plain, self.whole(sentence, 1).ids)

    def _fits(self, text: str) -> bool:
        return len(text) <= CHARACTERS_PER_TOKEN * self.longest and not self.part(text.strip()).cut

    def _whole(self, sentence: Readable) -> Encoded:
        lead = before(sentence)
        if lead and not self.context:
            raise RecipeError(
                "this model reads each sentence by itself: give sentences alone, or train one with data.context"
            )
        read = self.reading.encode(text_of(sentence))
        return led(self.reading, read, lead[-self.context :], longest=self.longest - 1) if lead else read

    def _require_language(self, sentence: Readable) -> None:
        """`RecipeError` where a model of several languages is asked for none of them, or for two."""
        if not self._asking:
            return
        tokenizer = self.reading.tokenizer
        opened = [self._asking[number] for number in tokenizer.opening if number in self._asking]
        begun = tokenizer.encode(text_of(sentence)[:_BEGINNING])[len(tokenizer.opening) :][:1]
        own = [self._asking[number] for number in begun if number in self._asking]
        if opened and own:
            raise RecipeError(
                f"a sentence begins with >>{own[0]}<<, and {opened[0]} is asked for already: leave one of them away"
            )
        if begun and len(self._asking) > 1 and not opened and not own:
            known = ", ".join(self._asking.values())
            raise RecipeError(f"this model writes {known}: say which of them, with --to or towards()")

    @cached_property
    def _asking(self) -> Mapping[int, str]:
        """The languages that can be asked for, by the pieces that do so."""
        tags = self.reading.tokenizer.tags
        return {number: language for tag, number in tags.items() for language in languages_of([tag])}


def holding(own: Sequence[Part], terms: Sequence[Term | str]) -> list[Part]:
    """Parts of a sentence with what its translation is to hold, each term where it belongs (`shared_out`)."""
    given = dict.fromkeys(Term(each) if isinstance(each, str) else each for each in terms)
    shares = shared_out(list(given), [part.text for part in own])
    return [replace(part, terms=share) for part, share in zip(own, shares, strict=True)]
