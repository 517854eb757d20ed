"""What may not come, in the light of what was written: repeated n-grams, an early end, forbidden words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol, TypeAlias, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.penalties import Penalty
from heedful.models.interface import State
from heedful.values import Tokens

_NEVER: Final = -1


@runtime_checkable
class Ban(Penalty, Protocol):
    """A penalty that sets logits to minus infinity and changes no others.

    What remains is ranked by the probabilities that the model gives it, as behind a filter: were they to add up to one
    again, a beam that is denied its most probable token would be ranked as if it had found a better one.
    """

    def __call__(self, logits: Float[Tensor, "N V"], state: State, /) -> Float[Tensor, "N V"]:
        """The logits; may overwrite the given ones."""
        ...


@final
@dataclass(frozen=True)
class NoRepeat:
    """No `n` tokens follow each other twice in a row, its prompt included (Paulus et al. 2018, section 2.5).

    Attributes:
        n: 1 allows each token once.
        spared: tokens that may always come, as the one that ends a text.
    """

    n: int
    spared: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.n < 1:
            raise RecipeError(f"no repeated n-gram: n is {self.n}; must be at least 1")

    def begin(self, read: Tokens, /, *, vocabulary: int) -> Int[Tensor, "N L"]:
        """What each row has read, in its order and to the right; -1 to the left of it."""
        order = read.positions.argsort(dim=1, stable=True)
        positions = read.positions.gather(1, order)
        return torch.where(positions >= 0, read.ids.gather(1, order), -1)

    def __call__(self, logits: Float[Tensor, "N V"], state: Int[Tensor, "N L"], /) -> Float[Tensor, "N V"]:
        """In place."""
        if state.size(1) < self.n:
            return logits
        grams = state.unfold(1, self.n, 1)
        known = state[:, state.size(1) - self.n + 1 :]
        again = (grams[:, :, :-1] == known.unsqueeze(1)).all(2) & (grams >= 0).all(2)
        banned = torch.zeros(len(logits), logits.size(1) + 1, dtype=torch.bool, device=logits.device)
        banned.scatter_(1, torch.where(again, grams[:, :, -1], logits.size(1)), True)
        for number in self.spared:
            banned[:, number] = False
        return logits.masked_fill_(banned[:, :-1], -math.inf)

    def extend(self, state: Int[Tensor, "N L"], ids: Int[Tensor, " N"], /) -> Int[Tensor, "N l"]:
        """With these tokens behind the others."""
        return torch.cat((state, ids.unsqueeze(1)), 1)


@final
@dataclass(frozen=True)
class NotBefore:
    """Rows end no sooner than after so many tokens each, a forced prefix not counted; see also `MinimumLength`."""

    eos: int
    tokens: tuple[int, ...]

    def begin(self, read: Tokens, /, *, vocabulary: int) -> Int[Tensor, " N"]:
        """How many are missing."""
        assert len(self.tokens) == len(read.ids), "each row has its least length"
        return torch.tensor(self.tokens, device=read.ids.device)

    def __call__(self, logits: Float[Tensor, "N V"], state: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In place."""
        logits[:, self.eos].masked_fill_(state > 0, -math.inf)
        return logits

    def extend(self, state: Int[Tensor, " N"], _ids: Int[Tensor, " N"], /) -> Int[Tensor, " N"]:
        """One less."""
        return state - 1


_Begun: TypeAlias = frozenset[tuple[int, int]]
"""Words that the end of a text may be the beginning of: number, and how many characters of it are there."""
_Place: TypeAlias = tuple[_Begun, bool]
"""What has begun, and whether the last character is one of those that words are made of."""


@final
@dataclass(frozen=True)
class Word:
    """What a text may not hold.

    Attributes:
        text: it stands for itself only where it is no part of a longer word.
        folded: it is meant whatever its case; `text` is in lower case then.
        open: longer words that begin so are meant, too.
    """

    text: str
    folded: bool = False
    open: bool = False

    def at(self, place: int, character: str) -> bool:
        """Whether that is its character there."""
        return self.text[place] == (character.lower() if self.folded else character)


@final
class Unwritten:
    """Words that no text holds, however it is cut into tokens.

    Texts are read character by character as tokens come, by an automaton whose states are what may have begun. A word
    has been written when a character comes behind it that belongs to no word, or the end: so `cat` is no reason to
    forgo `category`, unless no token of the vocabulary goes on so. A text that does not end by itself may therefore end
    in such a word.

    Args:
        words: what is forbidden.
        surfaces: what each token adds to a text.
        joining: characters that words are made of, where they stand beside each other.
        eos: what ends a text.
    """

    def __init__(self, words: Iterable[Word], *, surfaces: Sequence[str], joining: frozenset[str], eos: int) -> None:
        self.words = tuple(dict.fromkeys(words))
        if any(not word.text for word in self.words):
            raise RecipeError("forbidden word: one is empty; leave it out")
        self._surfaces = tuple(surfaces)
        self._joining = joining
        self._eos = eos
        self._lock = Lock()
        self._numbers: dict[_Place, int] = {}
        self._places: list[_Place] = []
        self._leading: dict[int, list[int]] = {}
        self._following: dict[int, Int[Tensor, " V"]] = {}
        self._beginning = defaultdict[str, list[int]](list)
        for number, word in enumerate(self.words):
            for character in {word.text[0], word.text[0].upper()} if word.folded else {word.text[0]}:
                self._beginning[character].append(number)
        self._by_first = defaultdict[str, list[int]](list)
        for number, surface in enumerate(self._surfaces):
            self._by_first[surface[:1]].append(number)
        self._number((frozenset(), False))

    def begin(self, read: Tokens, /, *, vocabulary: int) -> Int[Tensor, " N"]:
        """Behind what each row has read."""
        assert len(self._surfaces) == vocabulary, "each token has its surface"
        rows = zip(read.ids.tolist(), read.positions.tolist(), strict=True)
        return torch.tensor([self._behind(*row) for row in rows], device=read.ids.device)

    def __call__(self, logits: Float[Tensor, "N V"], state: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In place."""
        return logits.masked_fill_(self._rows(state).to(logits.device) == _NEVER, -math.inf)

    def extend(self, state: Int[Tensor, " N"], ids: Int[Tensor, " N"], /) -> Int[Tensor, " N"]:
        """Behind these tokens; where one was not allowed, as if nothing had been written."""
        after = self._rows(state).gather(1, ids.cpu().unsqueeze(1)).squeeze(1)
        return after.clamp(min=0).to(ids.device)

    def _rows(self, state: Int[Tensor, " N"]) -> Int[Tensor, "N V"]:
        return torch.stack([self._after(number) for number in state.tolist()])

    def _behind(self, ids: list[int], positions: list[int]) -> int:
        number = 0
        for _, token in sorted((at, token) for at, token in zip(positions, ids, strict=True) if at >= 0):
            number = max(0, int(self._after(number)[token]))
        return number

    def _number(self, place: _Place) -> int:
        if place not in self._numbers:
            self._numbers[place] = len(self._places)
            self._places.append(place)
        return self._numbers[place]

    def _after(self, number: int) -> Int[Tensor, " V"]:
        """Where each token leads from a state; -1 where it must not be taken."""
        found = self._following.get(number)
        if found is None:
            with self._lock, torch.inference_mode(False):  # is kept, whoever wants it next
                row = self._leads(number)
                dead = {each for each in set(row) if each != _NEVER and self._dead(each)}
                found = self._following[number] = torch.tensor([_NEVER if each in dead else each for each in row])
        return found

    def _written(self, place: _Place) -> bool:
        """Whether a word is there but for what follows it."""
        return any(at == len(self.words[word].text) for word, at in place[0])

    def _dead(self, number: int) -> bool:
        """Whether nothing could follow: not the end, and no token goes on with a word that must become another."""
        if not self._written(self._places[number]):
            return False
        return all(to == _NEVER or not text for to, text in zip(self._leads(number), self._surfaces, strict=True))

    def _leads(self, number: int) -> list[int]:
        """Where each token leads, whatever can follow there."""
        if number not in self._leading:
            self._leading[number] = self._found(self._places[number])
        return self._leading[number]

    def _found(self, place: _Place) -> list[int]:
        begun, inside = place
        nothing: _Place = (frozenset(), inside)
        if not begun:
            tokens: Iterable[int] = range(len(self._surfaces))
            row = [0] * len(self._surfaces)
        else:  # tokens with which nothing of it goes on lead where they lead from nothing
            row = list(self._leads(self._number(nothing)))
            tokens = [each for first, own in self._by_first.items() if self._concerns(first, begun) for each in own]
        for token in tokens:
            row[token] = self._read(place, self._surfaces[token])
        if self._written(place):
            row[self._eos] = _NEVER
        return row

    def _concerns(self, first: str, begun: _Begun) -> bool:
        """Whether a token that begins so goes on with something that has begun, or ends it; all empty ones do."""
        return not first or any(
            self.words[word].at(at, first) if at < len(self.words[word].text) else not self._joins(word, first)
            for word, at in begun
        )

    def _joins(self, word: int, character: str) -> bool:
        return self.words[word].text[-1] in self._joining and character in self._joining

    def _read(self, place: _Place, surface: str) -> int:
        begun, inside = place
        for character in surface:
            joining, going = character in self._joining, set()
            for word, at in begun:
                if at == len(self.words[word].text):
                    if not self._joins(word, character):
                        return _NEVER
                elif self.words[word].at(at, character):
                    going.add((word, at + 1))
            for word in self._beginning.get(character, ()):
                if not (inside and joining):
                    going.add((word, 1))
            if any(self._sure(word) for word, at in going if at == len(self.words[word].text)):
                return _NEVER
            begun, inside = frozenset(going), joining
        return self._number((begun, inside))

    def _sure(self, word: int) -> bool:
        """Whether nothing that follows could make another word of it."""
        return self.words[word].open or self.words[word].text[-1] not in self._joining
