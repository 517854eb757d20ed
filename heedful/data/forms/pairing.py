"""What spoils pairs of texts that should say the same: other languages, other lengths, copies, lines out of step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import Final, final

from heedful.data.forms.faults import FEW, SHOWN, Counted, Fault, Remark, counted, keep, percent, show, tokens_in
from heedful.data.forms.form import Example
from heedful.data.forms.languages import LEARNED, Language, Telling, guessed
from heedful.data.forms.naming import Part
from heedful.data.forms.sketch import Sample, normalised


def is_copied(source: str, target: str) -> bool:
    """Whether a text of several words stands on both sides."""
    return len(source.split()) > 1 and normalised(source) == normalised(target) and any(map(str.isalpha, source))


@final
class Copied(Counted):
    """Sources that are their own target."""

    least = 5 * FEW

    def __init__(self, noun: str) -> None:
        super().__init__()
        self._noun = noun

    def _faulty(self, example: Example) -> Sequence[str] | None:
        return example.texts[:1] if is_copied(*example.texts) else None

    def _told(self, count: int, share: str) -> tuple[str, str]:
        return (
            f"{counted(count, self._noun)} ({share}) with the same text on both sides",
            "the model learns to copy from them: take them out unless it shall",
        )


@final
class Balance:
    """How much longer sources are than their targets, counted in tenths of its logarithm."""

    _STEPS: Final = 10
    _LEAST: Final = 12
    """Tokens of the longer side from which on that is worth a look."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def of(self, source: str, target: str) -> int | None:
        """That of a pair; None where it is too short to say."""
        sizes = tokens_in(source), tokens_in(target)
        if not min(sizes) or max(sizes) < self._LEAST:
            return None
        return round(self._STEPS * log(sizes[0] / sizes[1]))

    @property
    def usual(self) -> int:
        """The median of those that were counted; 0 of none."""
        half, seen = self.counts.total() // 2, 0
        for ratio in sorted(self.counts):
            seen += self.counts[ratio]
            if seen > half:
                return ratio
        return 0

    def is_far(self, ratio: int, factor: float, *, usual: int) -> bool:
        """Whether it is more than so many times the usual one, or less than that part of it."""
        return abs(ratio - usual) > self._STEPS * log(factor)


@final
class Unequal(Fault):
    """Sides of which one is far longer, or far shorter, than it is in most examples."""

    _FAR: Final = 4

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._found: dict[int, list[str]] = {}
        self._balance = Balance()

    def see(self, example: Example, part: Part, place: str) -> None:
        """Counts how much longer one side is."""
        ratio = self._balance.of(*example.texts)
        if ratio is not None:
            self._balance.counts[ratio] += 1
            keep(self._found.setdefault(ratio, []), show(place, *example.texts))

    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """One, where there are enough."""
        found, usual, whole = self._balance.counts, self._balance.usual, sum(counts.values())
        far = [ratio for ratio in found if self._balance.is_far(ratio, self._FAR, usual=usual)]
        count = sum(found[ratio] for ratio in far)
        if count > FEW * whole:
            far.sort(key=lambda ratio: -abs(ratio - usual))
            yield Remark(
                f"{counted(count, self._noun)} ({percent(count, whole)}) with a side that is four times as long as "
                "usual beside the other, or longer",
                [each for ratio in far for each in self._found[ratio]][:SHOWN],
                "look whether they translate each other; take out those that do not",
            )


@final
class Tongues(Fault):
    """Sides that are in another language than they should be, in single examples or whole files.

    Args:
        languages: what the sides should be in, by the names of files; unknown where these say nothing.
        files: what the sides are called in messages, for each part.
    """

    def __init__(self, languages: Sequence[Language], files: Mapping[Part, Sequence[str]]) -> None:
        self._named = languages
        self._files = files
        self._samples: dict[tuple[Part, int], Sample] = {}
        self._telling = Telling(*languages) if len(languages) == 2 and all(languages) else None
        self._waiting: list[tuple[tuple[str, ...], str]] = []
        self._learned = 0
        self._swapped: list[str] = []
        self._alike: list[str] = []
        self._counts = [0, 0]

    def see(self, example: Example, part: Part, place: str) -> None:
        """Samples its sides, and compares them once it is known which words are signs of a language."""
        for side, text in enumerate(example.texts):
            self._samples.setdefault((part, side), Sample()).add(text)
        if self._telling is None:
            return
        if self._learned == LEARNED:
            self._compare(self._telling, example.texts, place)
            return
        self._learned += 1
        self._waiting.append((example.texts, place))
        for text in example.texts:
            self._telling.learn(text)
        if self._learned == LEARNED:
            self._compare_waiting(self._telling)

    def _compare_waiting(self, telling: Telling) -> None:
        for texts, place in self._waiting:
            self._compare(telling, texts, place)
        self._waiting.clear()

    def _compare(self, telling: Telling, texts: Sequence[str], place: str) -> None:
        sides = [telling.side(text) for text in texts]
        if sides == [1, 0]:
            self._counts[0] += 1
            keep(self._swapped, show(place, *texts))
        elif sides in ([0, 0], [1, 1]):
            self._counts[1] += 1
            keep(self._alike, show(place, *texts))

    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """Whole files first."""
        if self._telling is not None:
            self._compare_waiting(self._telling)
        found = {where: guessed(sample.texts) for where, sample in self._samples.items()}
        files = list(self._whole_files(found))
        yield from files
        if files or self._telling is None:
            return
        whole = sum(counts.values())
        first, second = self._named
        for number, (shown, what, remedy) in enumerate(
            (
                (
                    self._swapped,
                    f"probably have {second} first and {first} second",
                    "look at them: exchange the sides of those that do",
                ),
                (
                    self._alike,
                    "probably have the same language on both sides",
                    "look at them: take out those that are not translated, unless the model shall write both languages",
                ),
            )
        ):
            if self._counts[number] > FEW * whole:
                count = self._counts[number]
                yield Remark(f"{count:,} pairs ({percent(count, whole)}) {what}", shown, remedy)

    def _whole_files(self, found: Mapping[tuple[Part, int], Language]) -> Iterator[Remark]:
        for (part, side), language in found.items():
            named = self._named[side] if side < len(self._named) else Language()
            if not (language and named) or is_like(language, named):
                continue
            other = self._named[1 - side] if len(self._named) == 2 else Language()
            swapped = is_like(language, other) and is_like(found.get((part, 1 - side), Language()), named)
            if swapped and side == 1:
                continue  # which was told with the first side
            name = self._files[part][side]
            if swapped:
                yield Remark(
                    f"{name} should be {named} and is {language}, and {self._files[part][1 - side]} is {named}",
                    [show(name, text) for text in self._samples[part, side].texts[:SHOWN]],
                    "the sides of this part are in the wrong order, or the files have each other's names: exchange "
                    "them",
                )
            else:
                yield Remark(
                    f"{name} should be {named} and looks like {language}",
                    [show(name, text) for text in self._samples[part, side].texts[:SHOWN]],
                    "look whether this is the right file",
                )


_CLOSE: Final = tuple(
    map(frozenset, ("da no nb nn", "hr sr bs", "id ms", "cs sk", "pt gl", "hi mr ne", "be ru", "fa ur"))
)
"""Languages that are easily mistaken for each other."""


def is_like(one: Language, other: Language) -> bool:
    """Whether they are the same or hard to tell apart; the unknown one is like none."""
    return one == other or any(one.code in close and other.code in close for close in _CLOSE)


@final
class Misaligned(Fault):
    """Lines that have nothing to do with the lines they should translate: their lengths are not alike.

    The correlation of both sides' log lengths is about 0.6 to 0.9 in translations.
    """

    _WINDOW: Final = 500

    def __init__(self, files: Mapping[Part, Sequence[str]]) -> None:
        self._files = files
        self._windows: dict[Part, list[tuple[float, str, str]]] = {}
        self._open: dict[Part, list[tuple[float, float]]] = {}
        self._begin: dict[Part, tuple[str, str]] = {}

    def see(self, example: Example, part: Part, place: str) -> None:
        """Collects lengths."""
        sizes = [tokens_in(text) for text in example.texts]
        window = self._open.setdefault(part, [])
        if not window:
            self._begin[part] = (place, show(place, *example.texts))
        if all(sizes):
            window.append((log(sizes[0]), log(sizes[1])))
        if len(window) == self._WINDOW:
            self._windows.setdefault(part, []).append((correlation(window), *self._begin[part]))
            window.clear()

    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """One for each part whose sides do not go together, or no more from some line on."""
        for part, windows in self._windows.items():
            bad = [not (value > 0.15) for value, _, _ in windows]
            names = " and ".join(self._files[part])
            if all(bad):
                yield Remark(
                    f"the lines of {names} do not seem to translate each other: long ones stand beside short ones",
                    [shown for _, _, shown in windows[:SHOWN]],
                    "look whether the files belong together and are in the same order",
                )
            elif bad[-1] and len(windows) > 2:
                first = len(bad) - next((n for n, each in enumerate(reversed(bad)) if not each), len(bad))
                if all(bad[first:]) and first < len(bad):
                    _, place, shown = windows[first]
                    yield Remark(
                        f"the lines of {names} do not seem to translate each other from about {place} on",
                        [shown],
                        "a line is probably missing on one side, and another one further down: find where they part",
                    )


def correlation(points: Sequence[tuple[float, float]]) -> float:
    """Pearson's; 1 where one side never changes, of which nothing can be said."""
    size = len(points)
    means = [sum(point[side] for point in points) / size for side in (0, 1)]
    spread = [sum((point[side] - means[side]) ** 2 for point in points) for side in (0, 1)]
    if min(spread) < 0.01 * size:
        return 1.0
    both = sum((a - means[0]) * (b - means[1]) for a, b in points)
    return float(both / (spread[0] * spread[1]) ** 0.5)
