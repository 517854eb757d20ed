"""Filters of parallel text: each rejects pairs with one kind of problem."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, final

from heedful.data.detect.checks import CONTROL_CHARACTERS, MARKUP, MOJIBAKE, REPLACEMENT_CHARACTER, estimate_tokens
from heedful.data.detect.hash_sample import hash_texts
from heedful.data.detect.languages import NUM_LEARNING_PAIRS, LanguageDiscriminator, LanguageInfo, guess_language
from heedful.data.detect.pair_checks import LengthRatioCounter, is_copy, is_similar_language

_NUMBER: Final = re.compile(r"\d(?:[\d.,\u00a0\u202f'’]*\d)?")  # noqa: RUF001  # separators of thousands
_NON_DIGITS: Final = re.compile(r"\D")


class PairFilter(ABC):
    """Base of filters that reject pairs.

    Abstract. Filters are applied in order; each judges only the pairs that all filters before it have accepted.

    Attributes:
        name: its name on the command line.
        description: what it rejects, in words that follow "pairs".
    """

    name: str
    description: str

    def learn(self, source: str, target: str) -> None:
        """Learn from a pair; called for every pair before the first is judged."""
        return

    @abstractmethod
    def should_reject(self, source: str, target: str) -> bool:
        """Return whether a pair is rejected."""


@final
class EmptyFilter(PairFilter):
    """Rejects pairs with an empty side."""

    name, description = "empty", "with an empty side"

    def should_reject(self, source: str, target: str) -> bool:
        """Return whether a side is empty."""
        return not (source.strip() and target.strip())


@final
class EncodingFilter(PairFilter):
    """Rejects pairs with lost or misread characters, or control characters."""

    name, description = "garbled", "with traces of a wrong encoding, or control characters"

    def should_reject(self, source: str, target: str) -> bool:
        """Return whether a side has traces of a wrong encoding."""
        return any(
            pattern.search(text)
            for pattern in (REPLACEMENT_CHARACTER, MOJIBAKE, CONTROL_CHARACTERS)
            for text in (source, target)
        )


@final
class HtmlFilter(PairFilter):
    """Rejects pairs with HTML elements or entities, which translators' files have on purpose."""

    name, description = "html", "with remains of HTML"

    def should_reject(self, source: str, target: str) -> bool:
        """Return whether a side has remains of HTML."""
        return any(map(MARKUP.search, (source, target)))


@final
class CopyFilter(PairFilter):
    """Rejects pairs whose target is a copy of the source."""

    name, description = "copied", "with the same text on both sides"

    def should_reject(self, source: str, target: str) -> bool:
        """Return whether both sides are the same text."""
        return is_copy(source, target)


@final
class LengthFilter(PairFilter):
    """Rejects pairs with more than about `max_tokens` tokens on a side, estimated without a vocabulary."""

    name = "long"

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self.description = f"with more than about {max_tokens:,} tokens on a side"

    def should_reject(self, source: str, target: str) -> bool:
        """Return whether a side is too long."""
        return max(map(estimate_tokens, (source, target))) > self._max_tokens


@final
class LengthRatioFilter(PairFilter):
    """Rejects pairs whose length ratio differs from the median of all pairs by more than `factor`."""

    name = "unequal"

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._ratio_counter = LengthRatioCounter()
        self.description = f"with a side more than {factor:g} times as long as usual compared with the other"

    def learn(self, source: str, target: str) -> None:
        """Count the length ratio of a pair."""
        ratio = self._ratio_counter.measure_ratio(source, target)
        if ratio is not None:
            self._ratio_counter.counts[ratio] += 1

    def should_reject(self, source: str, target: str) -> bool:
        """Return whether the length ratio is an outlier."""
        ratio = self._ratio_counter.measure_ratio(source, target)
        return ratio is not None and self._ratio_counter.is_outlier(
            ratio, self._factor, median_ratio=self._ratio_counter.median_ratio
        )


@final
class LanguageFilter(PairFilter):
    """Rejects pairs with a side in the other side's language, or in a third one.

    A sentence is judged if it has several words, or letters, that only one of the two languages has; a third language
    is detected in texts of at least twenty words.
    """

    name = "language"

    def __init__(self, source: LanguageInfo, target: LanguageInfo) -> None:
        self._expected_languages = source, target
        self._discriminator = LanguageDiscriminator(source, target) if source and target and source != target else None
        self._num_learned = 0
        self.description = f"that are not {source} on one side and {target} on the other"

    def learn(self, source: str, target: str) -> None:
        """Learn from the first pairs which words are ambiguous between the languages."""
        if self._discriminator is not None and self._num_learned < NUM_LEARNING_PAIRS:
            self._num_learned += 1
            for text in (source, target):
                self._discriminator.learn(text)

    def should_reject(self, source: str, target: str) -> bool:
        """Return whether a side is in a wrong language."""
        for side, text in enumerate((source, target)):
            if self._discriminator is not None and self._discriminator.classify(text) == 1 - side:
                return True
            expected, guessed_language = self._expected_languages[side], guess_language([text])
            if expected and guessed_language and not is_similar_language(guessed_language, expected):
                return True
        return False


@final
class DuplicateFilter(PairFilter):
    """Rejects repeated pairs, ignoring case and white space; 64 bits of each pair are remembered."""

    name, description = "repeated", "that repeat another one"

    def __init__(self) -> None:
        self._pair_hashes: set[int] = set()

    def should_reject(self, source: str, target: str) -> bool:
        """Return whether the pair is a repetition; if not, remember it."""
        pair_hash = hash_texts(source, target)
        is_known = pair_hash in self._pair_hashes
        self._pair_hashes.add(pair_hash)
        return is_known


@final
class NumberFilter(PairFilter):
    """Rejects pairs whose sides have different numbers in digits, ignoring thousands and decimal separators."""

    name, description = "numbers", "with different numbers on the two sides"

    def should_reject(self, source: str, target: str) -> bool:
        """Return whether the numbers of both sides differ."""
        return _extract_numbers(source) != _extract_numbers(target)


def _extract_numbers(text: str) -> Sequence[str]:
    """Return the digits of all numbers in a text, sorted."""
    return sorted(_NON_DIGITS.sub("", number) for number in _NUMBER.findall(text))
