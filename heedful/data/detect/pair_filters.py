"""Which pairs are worth learning from: rules that each turn away what spoils training."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, final

from heedful.data.detect.checks import CONTROL_CHARACTERS, MARKUP, MOJIBAKE, REPLACEMENT_CHARACTER, estimate_tokens
from heedful.data.detect.hash_sample import hash_texts
from heedful.data.detect.languages import NUM_LEARNING_PAIRS, LanguageDiscriminator, LanguageInfo, guess_language
from heedful.data.detect.pair_checks import LengthRatioCounter, is_copy, is_similar_language

_NUMBER: Final = re.compile(r"\d(?:[\d.,\u00a0\u202f'’]*\d)?")  # noqa: RUF001  # what stands between thousands
_NON_DIGITS: Final = re.compile(r"\D")


class PairFilter(ABC):
    """Turns pairs away.

    Abstract: each knows which. Rules are asked in order, each once for every pair that those before it have passed.

    Attributes:
        name: its word on a command line.
        description: what it turns away, in words behind "pairs".
    """

    name: str
    description: str

    def learn(self, source: str, target: str) -> None:
        """Sees every pair before the first is judged."""
        return

    @abstractmethod
    def should_reject(self, source: str, target: str) -> bool:
        """Whether a pair is turned away."""


@final
class EmptyFilter(PairFilter):
    """A side without a word."""

    name, description = "empty", "with an empty side"

    def should_reject(self, source: str, target: str) -> bool:
        """See above."""
        return not (source.strip() and target.strip())


@final
class EncodingFilter(PairFilter):
    """Letters that were lost or misread."""

    name, description = "garbled", "with traces of a wrong encoding, or control characters"

    def should_reject(self, source: str, target: str) -> bool:
        """See above."""
        return any(
            pattern.search(text)
            for pattern in (REPLACEMENT_CHARACTER, MOJIBAKE, CONTROL_CHARACTERS)
            for text in (source, target)
        )


@final
class HtmlFilter(PairFilter):
    """Elements and entities of HTML, which files of translators have on purpose."""

    name, description = "html", "with remains of HTML"

    def should_reject(self, source: str, target: str) -> bool:
        """See above."""
        return any(map(MARKUP.search, (source, target)))


@final
class CopyFilter(PairFilter):
    """Nothing was translated."""

    name, description = "copied", "with the same text on both sides"

    def should_reject(self, source: str, target: str) -> bool:
        """See above."""
        return is_copy(source, target)


@final
class LengthFilter(PairFilter):
    """More than so many tokens on one side, as far as they can be told without a vocabulary."""

    name = "long"

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self.description = f"with more than about {max_tokens:,} tokens on a side"

    def should_reject(self, source: str, target: str) -> bool:
        """See above."""
        return max(map(estimate_tokens, (source, target))) > self._max_tokens


@final
class LengthRatioFilter(PairFilter):
    """One side is so many times as long as usual beside the other; the usual is the median of all pairs."""

    name = "unequal"

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._ratio_counter = LengthRatioCounter()
        self.description = f"with a side more than {factor:g} times as long as usual beside the other"

    def learn(self, source: str, target: str) -> None:
        """Counts how much longer one side is."""
        ratio = self._ratio_counter.measure_ratio(source, target)
        if ratio is not None:
            self._ratio_counter.counts[ratio] += 1

    def should_reject(self, source: str, target: str) -> bool:
        """See above."""
        ratio = self._ratio_counter.measure_ratio(source, target)
        return ratio is not None and self._ratio_counter.is_outlier(
            ratio, self._factor, median_ratio=self._ratio_counter.median_ratio
        )


@final
class LanguageFilter(PairFilter):
    """A side is in the other side's language, or in a third one.

    A sentence is judged where it has several words, or letters, that one of both languages has alone; a third language
    is seen in texts of twenty words and more.
    """

    name = "language"

    def __init__(self, source: LanguageInfo, target: LanguageInfo) -> None:
        self._expected_languages = source, target
        self._discriminator = LanguageDiscriminator(source, target) if source and target and source != target else None
        self._num_learned = 0
        self.description = f"that are not {source} on one side and {target} on the other"

    def learn(self, source: str, target: str) -> None:
        """Finds out, by the first pairs, which words are no signs of a language."""
        if self._discriminator is not None and self._num_learned < NUM_LEARNING_PAIRS:
            self._num_learned += 1
            for text in (source, target):
                self._discriminator.learn(text)

    def should_reject(self, source: str, target: str) -> bool:
        """See above."""
        for side, text in enumerate((source, target)):
            if self._discriminator is not None and self._discriminator.classify(text) == 1 - side:
                return True
            expected, guessed_language = self._expected_languages[side], guess_language([text])
            if expected and guessed_language and not is_similar_language(guessed_language, expected):
                return True
        return False


@final
class DuplicateFilter(PairFilter):
    """What came before, case and white space aside; of each pair 64 bits are remembered."""

    name, description = "repeated", "that repeat another one"

    def __init__(self) -> None:
        self._pair_hashes: set[int] = set()

    def should_reject(self, source: str, target: str) -> bool:
        """See above; a pair that it has passed is known from then on."""
        pair_hash = hash_texts(source, target)
        is_known = pair_hash in self._pair_hashes
        self._pair_hashes.add(pair_hash)
        return is_known


@final
class NumberFilter(PairFilter):
    """Numbers in digits that only one side has, signs between thousands and before decimals aside."""

    name, description = "numbers", "with other numbers on one side than on the other"

    def should_reject(self, source: str, target: str) -> bool:
        """See above."""
        return _extract_numbers(source) != _extract_numbers(target)


def _extract_numbers(text: str) -> Sequence[str]:
    return sorted(_NON_DIGITS.sub("", number) for number in _NUMBER.findall(text))
