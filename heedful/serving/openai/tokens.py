"""The tokens of a text as OpenAI's interface tells them: how each reads, where it stands, how probable it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

from heedful.data.offsets import offsets
from heedful.data.tokenizers import Tokenizer
from heedful.serving.openai.writing import Strict
from heedful.tasks.language.expected import Place
from heedful.tasks.stop_strings import Following, complete

_BROKEN: Final = "\ufffd"
_NEAR: Final = 4
"""Tokens before one that decide how it reads: a character has at most four bytes."""


class Logprobs(Strict):
    """The tokens of a text, behind each other."""

    tokens: list[str]
    """each as what it adds to the text, or as what it is called where that is no whole character"""
    token_logprobs: list[float]
    """the natural logarithm of its probability, given all before it"""
    top_logprobs: list[dict[str, float]] | None
    """the most probable tokens at its place, with the token itself; null where none were asked for"""
    text_offset: list[int]
    """characters before it, those of the prompt included, whether or not the prompt is sent back"""


@dataclass(frozen=True)
class Entry:
    """A token: how it reads, how many characters stand before it, and what the model expected in its place."""

    text: str
    start: int
    log_probability: float
    likeliest: dict[str, float]


@final
class Ledger:
    """The tokens of a prompt and of what follows it, as they come.

    Args:
        tokenizer: of both.
        prompt: as it was given.

    Attributes:
        text: the prompt.
        prompt_ids: its ids.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: str) -> None:
        self.prompt_ids = tokenizer.encode(prompt)
        self._tokenizer = tokenizer
        self.text = prompt
        self._following = Following(tokenizer, self.prompt_ids)
        self._ids: list[int] = []
        self._length = 0

    def prompt(self, places: Iterable[Place]) -> list[Entry]:
        """The tokens of the prompt, which is what all their texts together are.

        Raises:
            DataError: the tokenizer reads the prompt so that its tokens are not found in it again.
        """
        found: list[Entry] = []
        start = 0
        for index, (number, text, place) in enumerate(zip(self.prompt_ids, self._cut(), places, strict=True)):
            found.append(self._entry(number, text, start, place, self.prompt_ids[max(0, index - _NEAR) : index]))
            start += len(text)
        return found

    def _cut(self) -> list[str]:
        """The part of the prompt that each of its ids stands for, with the spaces before it."""
        parts = list(_added(self._tokenizer, self.prompt_ids))
        if "".join(parts) == self.text or not parts:
            return parts
        spans = offsets(self._tokenizer, self.text)
        # a piece that is nothing but a space has all spaces up to the next one
        stops = [behind[0] if start == stop else stop for (start, stop), behind in pairwise(spans)]
        return [self.text[start:stop] for start, stop in pairwise([0, *stops, len(self.text)])]

    def more(self, ids: Sequence[int], places: Iterable[Place]) -> list[Entry]:
        """The tokens that come next."""
        return list(self._more(ids, places))

    def _more(self, ids: Sequence[int], places: Iterable[Place]) -> Iterator[Entry]:
        for number, place in zip(ids, places, strict=True):
            before = [*self.prompt_ids[-_NEAR:], *self._ids[-_NEAR:]]
            self._ids.append(number)
            text = complete(self._following.text(self._ids))
            start = len(self.text) + self._length
            yield self._entry(number, text[self._length :], start, place, before)
            self._length = max(self._length, len(text))

    def _entry(self, number: int, text: str, start: int, place: Place, before: Sequence[int]) -> Entry:
        name = text or self._tokenizer.pieces([number])[0]
        likeliest: dict[str, float] = {}
        for other, value in place.likeliest:
            likeliest.setdefault(name if other == number else self._named(other, before), value)
        if place.likeliest:  # whatever else reads so
            likeliest[name] = place.log_probability
        return Entry(name, start, place.log_probability, likeliest)

    def _named(self, number: int, before: Sequence[int]) -> str:
        """What a token would add."""
        near = before[-_NEAR:]
        text = self._tokenizer.decode([*near, number])[len(self._tokenizer.decode(near)) :]
        return self._tokenizer.pieces([number])[0] if not text or _BROKEN in text else text


def _added(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[str]:
    """What each id adds to the text of those before it, as far as the nearest ones decide that."""
    first = whole = shown = 0  # behind `whole` a character has begun, of what stands there so much is told
    for stop in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[first:stop])
        sure = complete(text)
        begun = len(tokenizer.decode(ids[first:whole])) + shown
        yield sure[begun:]
        shown += max(0, len(sure) - begun)
        if sure == text:
            first, whole, shown = whole, stop, 0


def logprobs_of(entries: Sequence[Entry], *, most: int) -> Logprobs:
    """Of some tokens, with as many others as were asked for."""
    return Logprobs(
        tokens=[each.text for each in entries],
        token_logprobs=[each.log_probability for each in entries],
        top_logprobs=[each.likeliest for each in entries] if most else None,
        text_offset=[each.start for each in entries],
    )
