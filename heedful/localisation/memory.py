"""Translations that somebody approved once, found again: for the same text, or for one that is much like it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

from heedful.characters import comparable_words
from heedful.errors import MissingExtraError
from heedful.localisation.placeholders import plain, with_accelerator, without_accelerator
from heedful.localisation.protection import kept
from heedful.localisation.segments import Code, Segment, flat

_SLACK: Final = 1e-9
"""So that a similarity of three quarters, however it is computed, is three quarters."""
_ROUNDED: Final = 1e-4
"""By how much rapidfuzz may take a similarity for less than it is where it leaves out what is less (0.6 of 5 words)."""

_Key: TypeAlias = tuple[str | tuple[str], ...]


@final
@dataclass(frozen=True)
class Approved:
    """A text and its translation.

    Attributes:
        source: as its file has it.
        target: likewise.
        origin: the name of the file.
        takeable: whether its translation may count as finished; not where it is in the language of another region or
            script.
    """

    source: Segment
    target: Segment
    origin: str
    takeable: bool = True


@final
@dataclass(frozen=True)
class Match:
    """What a memory has for a text.

    Attributes:
        approved: the text there, and its translation.
        similarity: of both texts, from 0 to 1; see `TranslationMemory`.
        taken: the translation as the text itself takes it; None where the texts differ, or their placeholders do.
    """

    approved: Approved
    similarity: float
    taken: Segment | None = None

    @property
    def source(self) -> str:
        """The text that was found, without the markup of its file."""
        return _shown(self.approved.source)

    @property
    def target(self) -> str:
        """Its translation, likewise."""
        return _shown(self.approved.target)

    @property
    def percent(self) -> int:
        """The similarity in hundredths, as translators count; 100 only where no word differs."""
        return 100 if self.similarity >= 1 else min(99, round(100 * self.similarity))


NO_MATCHES: Final[Mapping[int, Match]] = MappingProxyType({})


@final
class TranslationMemory:
    """Approved translations by their texts.

    Two texts are the same if they differ in white space alone. How much others are alike is 1 - d / n: d is the least
    number of words to be inserted, deleted or replaced to make one of the other, n the number of words of the longer
    one (Koehn and Senellart 2010; Bulte and Tezcan 2019, equation 1). Signs are words, and so are letters of scripts
    without spaces; markup is none.

    Only texts that share rare words are compared: one of n words that is to be alike by t shares at least t n of them,
    so it has one of the rarest n - t n + 1 (the prefix filter of Chaudhuri et al. 2006).

    Args:
        approved: file by file. Where a text has several translations, one of the first file is taken; of those there
            the most frequent, and of equally frequent ones the last.
        least: similarity of what is found, from 0 to 1; a word must be shared in any case.

    Raises:
        MissingExtraError: rapidfuzz is not installed.
    """

    def __init__(self, approved: Iterable[Approved], *, least: float = 0.75) -> None:
        self._fuzz = _rapidfuzz()
        self._least = least
        self._all = list(approved)
        self._texts = [plain(each.source) for each in self._all]
        self._words = [tuple(comparable_words().findall(text)) for text in self._texts]
        keys = [_key(each.source) for each in self._all]
        self._worth = _worths(self._all, keys)
        self._same = defaultdict[_Key, list[int]](list)
        self._bare = defaultdict[_Key, list[int]](list)
        self._holding = defaultdict[str, list[int]](list)
        for number, (each, key) in enumerate(zip(self._all, keys, strict=True)):
            bare, mark = without_accelerator(each.source)
            self._same[key].append(number)
            self._bare[_key(bare) if mark else key].append(number)
            for word in set(self._words[number]):
                self._holding[word].append(number)

    def __len__(self) -> int:
        return len(self._all)

    def find(self, segment: Segment, *, accelerators: bool = True) -> Match | None:
        """What is known of a text: its translation, else the text that is most like it; None where nothing is.

        Args:
            segment: as its file has it.
            accelerators: whether a sign before a letter may choose it from a menu, so that texts may differ by it.
        """
        taken = self._taken(segment, accelerators=accelerators)
        return taken if taken is not None else self._alike(plain(segment))

    def _taken(self, segment: Segment, *, accelerators: bool) -> Match | None:
        """The approved translation of the same text with the same placeholders."""
        for number in self._takeable(self._same.get(_key(segment), ())):
            target = _spaced(self._all[number].target, like=segment)
            if kept(segment, target):
                return Match(self._all[number], 1.0, target)
        if not accelerators:
            return None
        bare, mark = without_accelerator(segment)
        for number in self._takeable(self._bare.get(_key(bare), ())):
            target = _spaced(without_accelerator(self._all[number].target)[0], like=segment)
            if kept(bare, target):
                return Match(self._all[number], 1.0, with_accelerator(target, mark) if mark else target)
        return None

    def _takeable(self, numbers: Sequence[int]) -> list[int]:
        """Those whose translations may be taken, the best first."""
        takeable = (number for number in numbers if self._all[number].takeable)
        return sorted(takeable, key=self._worth.__getitem__, reverse=True)

    def _alike(self, text: str) -> Match | None:
        words = tuple(comparable_words().findall(text))
        near: list[tuple[float, int]] = [
            (similarity, number)
            for _, similarity, number in self._fuzz.process.extract(
                words,
                {number: self._words[number] for number in self._candidates(words)},
                scorer=self._fuzz.distance.Levenshtein.normalized_similarity,
                processor=None,
                score_cutoff=max(0.0, self._least - _ROUNDED),
                limit=None,
            )
            if similarity >= self._least - _SLACK
        ]
        if not near:
            return None
        most = max(similarity for similarity, _ in near)
        nearest = [number for similarity, number in near if similarity == most]  # one division gave both
        by_letters = self._fuzz.distance.Levenshtein.normalized_similarity
        number = max(nearest, key=lambda each: (by_letters(text, self._texts[each]), self._worth[each]))
        return Match(self._all[number], most)

    def _candidates(self, words: Sequence[str]) -> set[int]:
        """All that may be like enough."""
        counts = Counter(words)
        needed, left = max(1, ceil(self._least * len(words) - _SLACK)), len(words)
        found: set[int] = set()
        for word in sorted(counts, key=lambda word: len(self._holding.get(word, ()))):
            if left < needed:
                break
            found.update(self._holding.get(word, ()))
            left -= counts[word]
        return found


def _worths(approved: Sequence[Approved], keys: Sequence[_Key]) -> list[tuple[int, int, int]]:
    """What decides between translations of one text: the file, how frequent they are in it, and their place."""
    files = {name: -number for number, name in enumerate(dict.fromkeys(each.origin for each in approved))}
    pairs = [(each.origin, key, _key(each.target)) for each, key in zip(approved, keys, strict=True)]
    counts = Counter(pairs)
    return [(files[pair[0]], counts[pair], number) for number, pair in enumerate(pairs)]


def _key(segment: Segment) -> _Key:
    """What two segments share that are the same but for white space."""
    parts = (re.sub(r"\s+", " ", part) if isinstance(part, str) else (part.raw,) for part in _bared(segment))
    return tuple(part for part in parts if part)


def _spaced(target: Segment, *, like: Segment) -> Segment:
    """A translation with the white space at its ends that its source has."""
    first, last = (part if isinstance(part, str) else "" for part in (like[0], like[-1]))
    lead, trail = first[: len(first) - len(first.lstrip())], last[len(last.rstrip()) :]
    return flat([lead, *_bared(target), trail])


def _bared(segment: Segment) -> list[str | Code]:
    """A segment without white space at its ends."""
    parts = list(flat(segment))
    if parts and isinstance(parts[0], str):
        parts[0] = parts[0].lstrip()
    if parts and isinstance(parts[-1], str):
        parts[-1] = parts[-1].rstrip()
    return parts


def _shown(segment: Segment) -> str:
    return "".join(part if isinstance(part, str) else part.value for part in segment).strip()


def _rapidfuzz() -> Any:
    try:
        import rapidfuzz
    except ImportError:
        raise MissingExtraError(
            "looking into translation memories needs the package rapidfuzz; install it with: "
            "pip install 'heedful[localisation]'"
        ) from None
    return rapidfuzz
