"""Which pairs are worth learning from: rules that each turn away what spoils training."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, final

from heedful.data.forms.faults import CONTROL, MARKUP, MISREAD, UNREADABLE, tokens_in
from heedful.data.forms.languages import LEARNED, Language, Telling, guessed
from heedful.data.forms.pairing import Balance, is_copied, is_like
from heedful.data.forms.sketch import fingerprint

_NUMBER: Final = re.compile(r"\d(?:[\d.,\u00a0\u202f'’]*\d)?")  # noqa: RUF001  # what stands between thousands
_NO_DIGIT: Final = re.compile(r"\D")


class Rule(ABC):
    """Turns pairs away.

    Abstract: each knows which. Rules are asked in order, each once for every pair that those before it have passed.

    Attributes:
        name: its word on a command line.
        about: what it turns away, in words behind "pairs".
    """

    name: str
    about: str

    def learn(self, source: str, target: str) -> None:
        """Sees every pair before the first is judged."""
        return

    @abstractmethod
    def rejects(self, source: str, target: str) -> bool:
        """Whether a pair is turned away."""


@final
class Bare(Rule):
    """A side without a word."""

    name, about = "empty", "with an empty side"

    def rejects(self, source: str, target: str) -> bool:
        """See above."""
        return not (source.strip() and target.strip())


@final
class Spoiled(Rule):
    """Letters that were lost or misread."""

    name, about = "garbled", "with traces of a wrong encoding, or control characters"

    def rejects(self, source: str, target: str) -> bool:
        """See above."""
        return any(each.search(text) for each in (UNREADABLE, MISREAD, CONTROL) for text in (source, target))


@final
class Marked(Rule):
    """Elements and entities of HTML, which files of translators have on purpose."""

    name, about = "html", "with remains of HTML"

    def rejects(self, source: str, target: str) -> bool:
        """See above."""
        return any(map(MARKUP.search, (source, target)))


@final
class Same(Rule):
    """Nothing was translated."""

    name, about = "copied", "with the same text on both sides"

    def rejects(self, source: str, target: str) -> bool:
        """See above."""
        return is_copied(source, target)


@final
class Long(Rule):
    """More than so many tokens on one side, as far as they can be told without a vocabulary."""

    name = "long"

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self.about = f"with more than about {longest:,} tokens on a side"

    def rejects(self, source: str, target: str) -> bool:
        """See above."""
        return max(map(tokens_in, (source, target))) > self._longest


@final
class Unbalanced(Rule):
    """One side is so many times as long as usual beside the other; the usual is the median of all pairs."""

    name = "unequal"

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._balance = Balance()
        self.about = f"with a side more than {factor:g} times as long as usual beside the other"

    def learn(self, source: str, target: str) -> None:
        """Counts how much longer one side is."""
        ratio = self._balance.of(source, target)
        if ratio is not None:
            self._balance.counts[ratio] += 1

    def rejects(self, source: str, target: str) -> bool:
        """See above."""
        ratio = self._balance.of(source, target)
        return ratio is not None and self._balance.is_far(ratio, self._factor, usual=self._balance.usual)


@final
class Foreign(Rule):
    """A side is in the other side's language, or in a third one.

    A sentence is judged where it has several words, or letters, that one of both languages has alone; a third language
    is seen in texts of twenty words and more.
    """

    name = "language"

    def __init__(self, source: Language, target: Language) -> None:
        self._wanted = source, target
        self._telling = Telling(source, target) if source and target and source != target else None
        self._learned = 0
        self.about = f"that are not {source} on one side and {target} on the other"

    def learn(self, source: str, target: str) -> None:
        """Finds out, by the first pairs, which words are no signs of a language."""
        if self._telling is not None and self._learned < LEARNED:
            self._learned += 1
            for text in (source, target):
                self._telling.learn(text)

    def rejects(self, source: str, target: str) -> bool:
        """See above."""
        for side, text in enumerate((source, target)):
            if self._telling is not None and self._telling.side(text) == 1 - side:
                return True
            wanted, found = self._wanted[side], guessed([text])
            if wanted and found and not is_like(found, wanted):
                return True
        return False


@final
class Again(Rule):
    """What came before, case and white space aside; of each pair 64 bits are remembered."""

    name, about = "repeated", "that repeat another one"

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def rejects(self, source: str, target: str) -> bool:
        """See above; a pair that it has passed is known from then on."""
        mark = fingerprint(source, target)
        known = mark in self._seen
        self._seen.add(mark)
        return known


@final
class Numbers(Rule):
    """Numbers in digits that only one side has, signs between thousands and before decimals aside."""

    name, about = "numbers", "with other numbers on one side than on the other"

    def rejects(self, source: str, target: str) -> bool:
        """See above."""
        return _numbers(source) != _numbers(target)


def _numbers(text: str) -> Sequence[str]:
    return sorted(_NO_DIGIT.sub("", each) for each in _NUMBER.findall(text))
