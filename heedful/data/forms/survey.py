"""All examples of a data set, read once: how many, how long, of which labels, and what may spoil training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop
from typing import Final

from heedful.data.forms.faults import Remark, counted, percent, show, tokens_in
from heedful.data.forms.form import Example, Found
from heedful.data.forms.languages import SPACELESS
from heedful.data.forms.naming import PARTS, Part
from heedful.data.forms.sketch import Histogram, Splitter
from heedful.data.written_numbers import number_in
from heedful.errors import DataError
from heedful.words import singular, with_article

_MANY: Final = 10_000
"""Different labels that are counted, at most."""
_RAISED: Final = 0.005
"""Share of examples that are too long from which on more tokens are read."""
_STEP: Final = 64
_MOST: Final = {True: 512, False: 1024}
"""Tokens that are read at most, where texts are read as one and where they are not."""
_LONGEST: Final = 2
"""Of the longest examples, how many are shown."""


@dataclass(frozen=True)
class Survey:
    """What is in a data set.

    Attributes:
        counts: examples of each part.
        words: of each text of an example, words.
        tokens: about how many tokens of an example are read at once.
        labels: how often each label is given.
        faults: what may spoil training.
        splitter: what the parts for validation and test are chosen by; it knows the data for training.
        longest: the longest examples, shown, with their tokens.
    """

    counts: Mapping[Part, int]
    words: Sequence[Histogram]
    tokens: Histogram
    labels: Counter[str]
    faults: Sequence[Remark]
    splitter: Splitter
    longest: Sequence[tuple[int, str]]

    def max_length(self, usual: int, *, together: bool) -> int | None:
        """How many tokens are to be read, where the usual number would lose more than a few examples; else None."""
        if self.tokens.above(usual) <= _RAISED * self.tokens.size:
            return None
        needed = -(-int(1.15 * self.tokens.share(0.99)) // _STEP) * _STEP
        raised = min(_MOST[together], needed)
        return raised if raised > usual else None

    def too_long(self, tokens: int, *, noun: str) -> Remark | None:
        """What is to be said of examples that are longer than so many tokens."""
        count = self.tokens.above(tokens)
        if not count:
            return None
        probably = "is probably" if count == 1 else "are probably"
        return Remark(
            f"{counted(count, noun)} ({percent(count, self.tokens.size)}) {probably} longer than data.max_length = "
            f"{tokens} tokens",
            [shown for size, shown in self.longest if size > tokens],
            "heedful recipe data.max_length says what becomes of them: split them, or raise that key, which costs "
            "memory and time",
        )


def survey(found: Found) -> Survey:
    """Reads all parts, those that are measured on first.

    Raises:
        DataError: a file is broken, or there is nothing to learn from.
    """
    faults = found.faults()
    counts: dict[Part, int] = {}
    lengths, splitter = _Lengths(found), Splitter()
    labels: Counter[str] = Counter()
    for part in reversed(PARTS):
        if part not in found.files:
            continue
        for example in found.examples(part):
            if found.parts_documents(example):
                continue
            place = found.place(part, example)
            counts[part] = counts.get(part, 0) + 1
            lengths.add(example, place)
            for label in example.labels:
                if label in labels or len(labels) < _MANY:
                    labels[label] += 1
            for fault in faults:
                fault.see(example, part, place)
            if part == "train" and found.usable(example):
                splitter.add(example.keys)
        if part not in counts:
            raise DataError(f"{found.first(part)}: there are no {found.noun} in it; is it the right file?")
    ordered = {part: counts[part] for part in PARTS if part in counts}
    remarks = [remark for fault in faults for remark in fault.remarks(ordered)]
    longest = sorted(lengths.longest, reverse=True)
    return Survey(ordered, lengths.words, lengths.tokens, labels, remarks, splitter, longest)


class _Lengths:
    """How long texts and examples are, and the longest of these."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self.words: list[Histogram] = []
        self.tokens = Histogram()
        self.longest: list[tuple[int, str]] = []

    def add(self, example: Example, place: str) -> None:
        sizes = [tokens_in(text) for text in example.texts]
        size = sum(sizes) if self._found.together else max(sizes)
        self.tokens.add(size)
        while len(self.words) < len(sizes):
            self.words.append(Histogram())
        for number, text in enumerate(example.texts):
            self.words[number].add(len("".join(text.split())) if _spaceless(self._found, number) else len(text.split()))
        if len(self.longest) < _LONGEST:
            heappush(self.longest, (size, show(place, *example.texts)))
        elif size > self.longest[0][0]:
            heappushpop(self.longest, (size, show(place, *example.texts)))


def _spaceless(found: Found, text: int) -> bool:
    """Whether a text of an example is in a language without spaces between words."""
    return text < len(found.languages) and found.languages[text].code in SPACELESS


def described(found: Found, seen: Survey) -> list[str]:
    """What was seen, in lines of a few words and their meaning."""
    counts = ", ".join(f"{count:,} for {_for(part)}" for part, count in seen.counts.items())
    lines = [f"form: {found.seen}", f"learned: {found.taken}", f"{found.noun}: {counts}"]
    for number, words in enumerate(seen.words):
        what = found.called[number] if found.called else singular(found.noun)
        unit = "characters" if _spaceless(found, number) else "words"
        lines.append(
            f"{unit} of {with_article(what)}: {words.share(0.5):,} (median), {words.share(0.95):,} (95th percentile)"
        )
    if found.said == "numbers":
        values = [value for value in map(number_in, seen.labels) if value is not None]
        lines.append(f"numbers: from {min(values):g} to {max(values):g}")
    elif found.said:
        common = seen.labels.most_common(12)
        more = f" and {len(seen.labels) - len(common):,} more" if len(seen.labels) > len(common) else ""
        told = ", ".join(f"{label!r} {count:,}" for label, count in common)
        lines.append(f"{counted(len(seen.labels), found.said)}: {told}{more}")
    return lines


def _for(part: Part) -> str:
    return "training" if part == "train" else part
