"""Translations that somebody approved once, found again: for the same text, or for one that is much like it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

from heedful.characters import compile_comparison_words
from heedful.errors import MissingExtraError
from heedful.localisation.placeholders import insert_accelerator, remove_accelerator, to_plain_text
from heedful.localisation.protection import has_same_codes
from heedful.localisation.segments import InlineCode, Segment, flatten_nodes

_SIMILARITY_TOLERANCE: Final = 1e-9
"""So that a similarity of three quarters, however it is computed, is three quarters."""
_RAPIDFUZZ_TOLERANCE: Final = 1e-4
"""By how much rapidfuzz may take a similarity for less than it is where it leaves out what is less (0.6 of 5 words)."""

_SegmentKey: TypeAlias = tuple[str | tuple[str], ...]


@final
@dataclass(frozen=True)
class MemoryEntry:
    """A text and its translation.

    Attributes:
        source: as its file has it.
        target: likewise.
        origin: the name of the file.
        reusable: whether its translation may count as finished; not where it is in the language of another region or
            script.
    """

    source: Segment
    target: Segment
    origin: str
    reusable: bool = True


@final
@dataclass(frozen=True)
class MemoryMatch:
    """What a memory has for a text.

    Attributes:
        entry: the text there, and its translation.
        similarity: of both texts, from 0 to 1; see `TranslationMemory`.
        exact_target: the translation as the text itself takes it; None where the texts differ, or their placeholders do.
    """

    entry: MemoryEntry
    similarity: float
    exact_target: Segment | None = None

    @property
    def source_text(self) -> str:
        """The text that was found, without the markup of its file."""
        return _get_visible_text(self.entry.source)

    @property
    def target_text(self) -> str:
        """Its translation, likewise."""
        return _get_visible_text(self.entry.target)

    @property
    def percent(self) -> int:
        """The similarity in hundredths, as translators count; 100 only where no word differs."""
        return 100 if self.similarity >= 1 else min(99, round(100 * self.similarity))


NO_MATCHES: Final[Mapping[int, MemoryMatch]] = MappingProxyType({})


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
        entries: file by file. Where a text has several translations, one of the first file is taken; of those there
            the most frequent, and of equally frequent ones the last.
        min_similarity: similarity of what is found, from 0 to 1; a word must be shared in any case.

    Raises:
        MissingExtraError: rapidfuzz is not installed.
    """

    def __init__(self, entries: Iterable[MemoryEntry], *, min_similarity: float = 0.75) -> None:
        self._fuzz = _import_rapidfuzz()
        self._min_similarity = min_similarity
        self._entries = list(entries)
        self._texts = [to_plain_text(entry.source) for entry in self._entries]
        self._words = [tuple(compile_comparison_words().findall(text)) for text in self._texts]
        keys = [_get_segment_key(entry.source) for entry in self._entries]
        self._ranks = _rank_entries(self._entries, keys)
        self._by_text = defaultdict[_SegmentKey, list[int]](list)
        self._by_text_without_accelerator = defaultdict[_SegmentKey, list[int]](list)
        self._by_word = defaultdict[str, list[int]](list)
        for number, (entry, key) in enumerate(zip(self._entries, keys, strict=True)):
            cleaned, mark = remove_accelerator(entry.source)
            self._by_text[key].append(number)
            self._by_text_without_accelerator[_get_segment_key(cleaned) if mark else key].append(number)
            for word in set(self._words[number]):
                self._by_word[word].append(number)

    def __len__(self) -> int:
        return len(self._entries)

    def find_match(self, segment: Segment, *, accelerators: bool = True) -> MemoryMatch | None:
        """What is known of a text: its translation, else the text that is most like it; None where nothing is.

        Args:
            segment: as its file has it.
            accelerators: whether a sign before a letter may choose it from a menu, so that texts may differ by it.
        """
        exact = self._find_exact(segment, accelerators=accelerators)
        return exact if exact is not None else self._find_similar(to_plain_text(segment))

    def _find_exact(self, segment: Segment, *, accelerators: bool) -> MemoryMatch | None:
        """The approved translation of the same text with the same placeholders."""
        for number in self._rank_reusable(self._by_text.get(_get_segment_key(segment), ())):
            target = _copy_outer_space(self._entries[number].target, source=segment)
            if has_same_codes(segment, target):
                return MemoryMatch(self._entries[number], 1.0, target)
        if not accelerators:
            return None
        cleaned, mark = remove_accelerator(segment)
        for number in self._rank_reusable(self._by_text_without_accelerator.get(_get_segment_key(cleaned), ())):
            target = _copy_outer_space(remove_accelerator(self._entries[number].target)[0], source=segment)
            if has_same_codes(cleaned, target):
                return MemoryMatch(self._entries[number], 1.0, insert_accelerator(target, mark) if mark else target)
        return None

    def _rank_reusable(self, numbers: Sequence[int]) -> list[int]:
        """Those whose translations may be taken, the best first."""
        reusable = (number for number in numbers if self._entries[number].reusable)
        return sorted(reusable, key=self._ranks.__getitem__, reverse=True)

    def _find_similar(self, text: str) -> MemoryMatch | None:
        words = tuple(compile_comparison_words().findall(text))
        similar: list[tuple[float, int]] = [
            (similarity, number)
            for _, similarity, number in self._fuzz.process.extract(
                words,
                {number: self._words[number] for number in self._find_candidates(words)},
                scorer=self._fuzz.distance.Levenshtein.normalized_similarity,
                processor=None,
                score_cutoff=max(0.0, self._min_similarity - _RAPIDFUZZ_TOLERANCE),
                limit=None,
            )
            if similarity >= self._min_similarity - _SIMILARITY_TOLERANCE
        ]
        if not similar:
            return None
        best = max(similarity for similarity, _ in similar)
        nearest = [number for similarity, number in similar if similarity == best]  # one division gave both
        letter_similarity = self._fuzz.distance.Levenshtein.normalized_similarity
        number = max(nearest, key=lambda index: (letter_similarity(text, self._texts[index]), self._ranks[index]))
        return MemoryMatch(self._entries[number], best)

    def _find_candidates(self, words: Sequence[str]) -> set[int]:
        """All that may be like enough."""
        counts = Counter(words)
        needed, remaining = max(1, ceil(self._min_similarity * len(words) - _SIMILARITY_TOLERANCE)), len(words)
        candidates: set[int] = set()
        for word in sorted(counts, key=lambda word: len(self._by_word.get(word, ()))):
            if remaining < needed:
                break
            candidates.update(self._by_word.get(word, ()))
            remaining -= counts[word]
        return candidates


def _rank_entries(entries: Sequence[MemoryEntry], keys: Sequence[_SegmentKey]) -> list[tuple[int, int, int]]:
    """What decides between translations of one text: the file, how frequent they are in it, and their place."""
    files = {name: -number for number, name in enumerate(dict.fromkeys(entry.origin for entry in entries))}
    pairs = [(entry.origin, key, _get_segment_key(entry.target)) for entry, key in zip(entries, keys, strict=True)]
    counts = Counter(pairs)
    return [(files[pair[0]], counts[pair], number) for number, pair in enumerate(pairs)]


def _get_segment_key(segment: Segment) -> _SegmentKey:
    """What two segments share that are the same but for white space."""
    parts = (re.sub(r"\s+", " ", part) if isinstance(part, str) else (part.raw,) for part in _strip_segment(segment))
    return tuple(part for part in parts if part)


def _copy_outer_space(target: Segment, *, source: Segment) -> Segment:
    """A translation with the white space at its ends that its source has."""
    first, last = (part if isinstance(part, str) else "" for part in (source[0], source[-1]))
    lead, trail = first[: len(first) - len(first.lstrip())], last[len(last.rstrip()) :]
    return flatten_nodes([lead, *_strip_segment(target), trail])


def _strip_segment(segment: Segment) -> list[str | InlineCode]:
    """A segment without white space at its ends."""
    parts = list(flatten_nodes(segment))
    if parts and isinstance(parts[0], str):
        parts[0] = parts[0].lstrip()
    if parts and isinstance(parts[-1], str):
        parts[-1] = parts[-1].rstrip()
    return parts


def _get_visible_text(segment: Segment) -> str:
    return "".join(part if isinstance(part, str) else part.value for part in segment).strip()


def _import_rapidfuzz() -> Any:
    try:
        import rapidfuzz
    except ImportError:
        raise MissingExtraError(
            "looking into translation memories needs the package rapidfuzz; install it with: "
            "pip install 'heedful[localisation]'"
        ) from None
    return rapidfuzz
