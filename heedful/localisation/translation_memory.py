"""Translation memory: approved translations, found for the same text or a similar one."""

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
"""Rounding tolerance for comparisons of similarities."""
_RAPIDFUZZ_TOLERANCE: Final = 1e-4
"""Amount by which rapidfuzz may underestimate a similarity at its cutoff (0.6 of 5 words)."""

_SegmentKey: TypeAlias = tuple[str | tuple[str], ...]


@final
@dataclass(frozen=True)
class MemoryEntry:
    """A text of a translation memory with its approved translation.

    Attributes:
        source: as in its file.
        target: as in its file.
        origin: name of the file.
        reusable: whether its translation may count as finished; false for the language of another region or script.
    """

    source: Segment
    target: Segment
    origin: str
    reusable: bool = True


@final
@dataclass(frozen=True)
class MemoryMatch:
    """The entry of a translation memory that was found for a text.

    Attributes:
        entry: the stored text and its translation.
        similarity: of both texts, from 0 to 1; see `TranslationMemory`.
        exact_target: the translation adapted to the text; None if the texts or their placeholders differ.
    """

    entry: MemoryEntry
    similarity: float
    exact_target: Segment | None = None

    @property
    def source_text(self) -> str:
        """Stored text without the markup of its file."""
        return _get_visible_text(self.entry.source)

    @property
    def target_text(self) -> str:
        """Stored translation without the markup of its file."""
        return _get_visible_text(self.entry.target)

    @property
    def percent(self) -> int:
        """Similarity in percent, as translators count it; 100 only if no word differs."""
        return 100 if self.similarity >= 1 else min(99, round(100 * self.similarity))


NO_MATCHES: Final[Mapping[int, MemoryMatch]] = MappingProxyType({})


@final
class TranslationMemory:
    """A searchable index of approved translations by their source texts.

    Two texts are the same if they differ in white space only. The similarity of others is 1 - d / n: d is the smallest
    number of words to be inserted, deleted or replaced to turn one into the other, n the number of words of the longer
    one (Koehn and Senellart 2010; Bulte and Tezcan 2019, equation 1). Signs are words, and so are letters of scripts
    without spaces; markup is not.

    Only texts that share rare words are compared: a text of n words with a similarity of at least t shares at least t n
    of them, so it has one of the rarest n - t n + 1 (the prefix filter of Chaudhuri et al. 2006).

    Args:
        entries: entries file by file. If a text has several translations, those of the first file are preferred, among
            them the most frequent, and among equally frequent ones the last.
        min_similarity: minimum similarity of a match, from 0 to 1; at least one word must be shared.

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
        """Return the exact match of a text, else the most similar one; None if there is none.

        Args:
            segment: as in its file.
            accelerators: whether a sign before a letter may be a menu accelerator, so that texts may differ by it.
        """
        exact = self._find_exact(segment, accelerators=accelerators)
        return exact if exact is not None else self._find_similar(to_plain_text(segment))

    def _find_exact(self, segment: Segment, *, accelerators: bool) -> MemoryMatch | None:
        """Return the match of the best reusable entry with the same text and placeholders as a segment, or None. With
        `accelerators`, texts may differ by a menu accelerator.
        """
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
        """Return those of the numbered entries whose translations may be reused, best first."""
        reusable = (number for number in numbers if self._entries[number].reusable)
        return sorted(reusable, key=self._ranks.__getitem__, reverse=True)

    def _find_similar(self, text: str) -> MemoryMatch | None:
        """Return the match of the entry that is most similar to a text, or None if none has the minimum similarity;
        ties are broken by letters.
        """
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
        """Return the numbers of all entries that may be similar enough to a text with these words, by the rare words
        they share.
        """
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
    """Return sort keys that decide between translations of one text: file, frequency in it, and position; higher is
    better. `keys` are those of the source texts.
    """
    files = {name: -number for number, name in enumerate(dict.fromkeys(entry.origin for entry in entries))}
    pairs = [(entry.origin, key, _get_segment_key(entry.target)) for entry, key in zip(entries, keys, strict=True)]
    counts = Counter(pairs)
    return [(files[pair[0]], counts[pair], number) for number, pair in enumerate(pairs)]


def _get_segment_key(segment: Segment) -> _SegmentKey:
    """Return a key that is equal for segments that differ in white space only."""
    parts = (re.sub(r"\s+", " ", part) if isinstance(part, str) else (part.raw,) for part in _strip_segment(segment))
    return tuple(part for part in parts if part)


def _copy_outer_space(target: Segment, *, source: Segment) -> Segment:
    """Return a translation with the white space at its ends that its source has."""
    first, last = (part if isinstance(part, str) else "" for part in (source[0], source[-1]))
    lead, trail = first[: len(first) - len(first.lstrip())], last[len(last.rstrip()) :]
    return flatten_nodes([lead, *_strip_segment(target), trail])


def _strip_segment(segment: Segment) -> list[str | InlineCode]:
    """Return the parts of a segment without white space at its ends."""
    parts = list(flatten_nodes(segment))
    if parts and isinstance(parts[0], str):
        parts[0] = parts[0].lstrip()
    if parts and isinstance(parts[-1], str):
        parts[-1] = parts[-1].rstrip()
    return parts


def _get_visible_text(segment: Segment) -> str:
    """Return the text of a segment with the values of its codes, without markup."""
    return "".join(part if isinstance(part, str) else part.value for part in segment).strip()


def _import_rapidfuzz() -> Any:
    """Import and return the module rapidfuzz; raise MissingExtraError if it is not installed."""
    try:
        import rapidfuzz
    except ImportError:
        raise MissingExtraError(
            "translation memories need the package rapidfuzz; install it with: pip install 'heedful[localisation]'"
        ) from None
    return rapidfuzz
