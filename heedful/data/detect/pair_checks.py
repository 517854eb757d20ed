"""Checks of parallel text: copies, lengths, numbers, languages, repetitions, and misaligned lines.

The rules of `heedful filter` and the report of `heedful new` use the same checks, and differ where their use differs.
The report reads texts of any size once and in bounded memory, so it estimates repetitions (`RepeatCheck`), but the
filter must find every one (`RepeatedPairCheck`). The report advises a person, so it also looks at whole files, and
names a pair only if its sides are swapped or in one language; the filter drops sides in a third language too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import Final, Literal, final

from heedful.data.detect.checks import (
    MAX_SHOWN,
    RARE_SHARE,
    TextCheck,
    append_if_few,
    estimate_tokens,
    format_example,
    format_percent,
)
from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import CheckResult, DataCheck, DatasetExample
from heedful.data.detect.hash_sample import HashSet, TextSample, hash_texts, normalise_text
from heedful.data.detect.languages import (
    LanguageInfo,
    guess_language,
    guess_languages,
    is_other_language,
    is_similar_language,
)

_NUMBER: Final = re.compile(r"\d(?:[\d.,\u00a0\u202f'’]*\d)?")  # noqa: RUF001  # separators of thousands
_NON_DIGITS: Final = re.compile(r"\D")
_MIN_TOKENS: Final = 20
"""Estimated number of tokens of a text from which on it may be in a third language."""
LanguageFault = Literal["swapped", "same", "other"]


@final
class CopyCheck(TextCheck[bool]):
    """Finds pairs whose target is a copy of the source, of several words."""

    name, description = "copied", "with the same text on both sides"
    problem = description
    remedy = "the model learns to copy from them: take them out unless that is intended"
    min_share = 5 * RARE_SHARE

    def measure(self, texts: Sequence[str]) -> bool | None:
        """Return True if both sides are the same text."""
        source, target = texts
        is_copy = len(source.split()) > 1 and normalise_text(source) == normalise_text(target)
        return True if is_copy and any(map(str.isalpha, source)) else None

    def get_shown_texts(self, example: DatasetExample) -> Sequence[str]:
        """Return the source."""
        return example.texts[:1]


@final
class LengthCheck(TextCheck[bool]):
    """Finds pairs with more than about `max_tokens` tokens on a side, estimated without a vocabulary."""

    name = "long"

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self.description = f"with more than about {max_tokens:,} tokens on a side"

    def measure(self, texts: Sequence[str]) -> bool | None:
        """Return True if a side is too long."""
        return True if max(map(estimate_tokens, texts)) > self._max_tokens else None


@final
class LengthRatioCheck(TextCheck[int]):
    """Finds pairs whose ratio of lengths differs from the median of all pairs by more than `factor`, in either
    direction.

    Ratios are measured in tenths of their logarithm.
    """

    name = "unequal"
    problem = "with a side at least four times as long as usual compared with the other"
    remedy = "check whether they translate each other; take out those that do not"
    min_share = RARE_SHARE
    needs_all = True
    _STEPS_PER_LOG: Final = 10
    _MIN_TOKENS: Final = 12
    """Number of tokens of the longer side below which a pair is ignored."""

    def __init__(self, factor: float = 4.0) -> None:
        self._factor = factor
        self.description = f"with a side more than {factor:g} times as long as usual compared with the other"

    def measure(self, texts: Sequence[str]) -> int | None:
        """Return the ratio of the lengths of both sides, in tenths of its logarithm; None if the pair is too short."""
        sizes = [estimate_tokens(text) for text in texts]
        if not min(sizes) or max(sizes) < self._MIN_TOKENS:
            return None
        return round(self._STEPS_PER_LOG * log(sizes[0] / sizes[1]))

    def find_faults(self, counts: Counter[int]) -> Sequence[int]:
        """Return the ratios that differ from the median of all by more than the factor, the most different first."""
        median_ratio = find_median(counts)
        outliers = [ratio for ratio in counts if abs(ratio - median_ratio) > self._STEPS_PER_LOG * log(self._factor)]
        return sorted(outliers, key=lambda ratio: -abs(ratio - median_ratio))


def find_median(counts: Counter[int]) -> int:
    """Return the median of counted numbers; 0 if there are none."""
    half_total, cumulative = counts.total() // 2, 0
    for number in sorted(counts):
        cumulative += counts[number]
        if cumulative > half_total:
            return number
    return 0


@final
class NumberCheck(TextCheck[bool]):
    """Finds pairs whose sides have different numbers in digits, ignoring thousands and decimal separators."""

    name, description = "numbers", "with different numbers on the two sides"

    def measure(self, texts: Sequence[str]) -> bool | None:
        """Return True if the numbers of both sides differ."""
        source, target = map(_extract_numbers, texts)
        return True if source != target else None


def _extract_numbers(text: str) -> Sequence[str]:
    """Return the digits of all numbers in a text, sorted."""
    return sorted(_NON_DIGITS.sub("", number) for number in _NUMBER.findall(text))


@final
class RepeatedPairCheck(TextCheck[bool]):
    """Finds pairs that repeat an earlier one, ignoring case and white space; 64 bits of each pair are remembered."""

    name, description = "repeated", "that repeat another one"
    remembers = True

    def __init__(self) -> None:
        self._pair_hashes = HashSet()

    def measure(self, texts: Sequence[str]) -> bool | None:
        """Return True if the pair is a repetition; if not, remember it."""
        return None if self._pair_hashes.add_hash(hash_texts(*texts)) else True


@final
class PairLanguageCheck(TextCheck[LanguageFault]):
    """Finds pairs with a side in the other side's language, or in a third one.

    A language that is similar to the expected one is not a fault, unless the sides are exactly swapped. A third
    language is looked for in texts of at least about twenty tokens, since short ones may be names or terms.
    """

    name = "language"

    def __init__(self, source: LanguageInfo, target: LanguageInfo) -> None:
        self._languages = source, target
        self.description = f"that are not {source} on one side and {target} on the other"

    def measure(self, texts: Sequence[str]) -> LanguageFault | None:
        """Return "swapped" if each side is in the other's language, "same" if both are in one language, "other" if a
        side is in a third one; None if both are right.
        """
        return self.measure_batch([texts])[0]

    def measure_batch(self, examples: Sequence[Sequence[str]]) -> Sequence[LanguageFault | None]:
        """Return what `measure` returns for each pair; languages of many texts are identified together."""
        if not any(self._languages):
            return [None] * len(examples)
        sources, targets = (guess_languages([texts[side] for texts in examples]) for side in (0, 1))
        return [self._judge_pair(*each) for each in zip(examples, sources, targets, strict=True)]

    def _judge_pair(self, texts: Sequence[str], source: LanguageInfo, target: LanguageInfo) -> LanguageFault | None:
        """Return the fault of a pair whose sides are in these languages."""
        expected = self._languages
        if all(expected) and expected[0] != expected[1]:
            if (source, target) == expected[::-1]:
                return "swapped"
            if _is_foreign_side(source, *expected) or _is_foreign_side(target, *expected[::-1]):
                return "same"
        has_third_language = any(
            is_other_language(guessed, language) and estimate_tokens(text) >= _MIN_TOKENS
            for text, guessed, language in zip(texts, (source, target), expected, strict=True)
        )
        return "other" if has_third_language else None


def _is_foreign_side(guessed: LanguageInfo, expected: LanguageInfo, other_expected: LanguageInfo) -> bool:
    """Return whether a side is in the language of the other side."""
    return guessed == other_expected and not is_similar_language(guessed, expected)


@final
class LanguageCheck(DataCheck):
    """Finds sides in the wrong language, in single examples or whole files.

    Args:
        languages: the languages of the sides by the names of files; unknown if the names do not say.
        files: what the sides of each part are called in messages.
    """

    def __init__(self, languages: Sequence[LanguageInfo], files: Mapping[DatasetPart, Sequence[str]]) -> None:
        self._expected_languages = languages
        self._files = files
        self._samples: dict[tuple[DatasetPart, int], TextSample] = {}
        self._check = PairLanguageCheck(*languages) if len(languages) == 2 and all(languages) else None
        self._counts = Counter[LanguageFault]()
        self._examples: dict[LanguageFault, list[str]] = {}

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Sample the sides of a pair of a part, and count the pair if its sides are swapped or in the same language;
        the first such pairs are shown with their location.
        """
        self.add_measured(example, part, location, value=self.measure(example.texts, example.labels))

    def measure(self, texts: Sequence[str], labels: Sequence[str]) -> LanguageFault | None:
        """Return what is wrong with the languages of a pair; None if nothing is."""
        return None if self._check is None else self._check.measure(texts)

    def measure_batch(self, examples: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Sequence[LanguageFault | None]:
        """Return what `measure` returns for each example."""
        if self._check is None:
            return [None] * len(examples)
        return self._check.measure_batch([texts for texts, _ in examples])

    def add_measured(
        self, example: DatasetExample, part: DatasetPart, location: str, *, value: LanguageFault | None
    ) -> None:
        """Sample and count a pair with this fault, as `add_example` does."""
        for side, text in enumerate(example.texts):
            self._samples.setdefault((part, side), TextSample()).add_text(text)
        if value is not None:
            self._counts[value] += 1
            append_if_few(self._examples.setdefault(value, []), format_example(location, *example.texts))

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield results for whole files; if there are none, for single pairs that are swapped or in one language.
        `counts` has the number of examples of each part.
        """
        languages = {key: guess_language(sample.texts) for key, sample in self._samples.items()}
        file_results = list(self._check_whole_files(languages))
        yield from file_results
        if file_results or self._check is None:
            return
        total = sum(counts.values())
        first, second = self._expected_languages
        problems: Mapping[LanguageFault, tuple[str, str]] = {
            "swapped": (
                f"probably have {second} first and {first} second",
                "check them, and exchange the sides where this is so",
            ),
            "same": (
                "probably have the same language on both sides",
                "check them, and take out those that are not translated, unless the model is meant to write both "
                "languages",
            ),
        }
        for fault, (description, remedy) in problems.items():
            count = self._counts[fault]
            if count > RARE_SHARE * total:
                yield CheckResult(
                    f"{count:,} pairs ({format_percent(count, total)}) {description}", self._examples[fault], remedy
                )

    def _check_whole_files(self, languages: Mapping[tuple[DatasetPart, int], LanguageInfo]) -> Iterator[CheckResult]:
        """Yield a result for each side of a part that is in another language than its name says; `languages` has the
        guessed language by part and side.
        """
        for (part, side), language in languages.items():
            expected = self._expected_languages[side] if side < len(self._expected_languages) else LanguageInfo()
            if not (language and expected) or language == expected:
                continue
            other_expected = (
                self._expected_languages[1 - side] if len(self._expected_languages) == 2 else LanguageInfo()
            )
            is_swapped = language == other_expected and languages.get((part, 1 - side)) == expected
            if is_swapped and side == 1:
                continue  # which was reported with the first side
            name = self._files[part][side]
            examples = [format_example(name, text) for text in self._samples[part, side].texts[:MAX_SHOWN]]
            if is_swapped:
                yield CheckResult(
                    f"{name} should be {expected} and is {language}, and {self._files[part][1 - side]} is {expected}",
                    examples,
                    "the sides of this part are in the wrong order, or the files have each other's names: exchange "
                    "them",
                )
            elif is_other_language(language, expected):
                yield CheckResult(
                    f"{name} should be {expected} and looks like {language}",
                    examples,
                    "check whether this is the right file",
                )


@final
class AlignmentCheck(DataCheck):
    """Finds lines that do not translate each other, by the correlation of their lengths.

    The correlation of both sides' log lengths is about 0.6 to 0.9 in translations.
    """

    _WINDOW_SIZE: Final = 500

    def __init__(self, files: Mapping[DatasetPart, Sequence[str]]) -> None:
        self._files = files
        self._windows: dict[DatasetPart, list[tuple[float, str, str]]] = {}
        self._current_windows: dict[DatasetPart, list[tuple[float, float]]] = {}
        self._window_starts: dict[DatasetPart, tuple[str, str]] = {}

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Collect the lengths of a pair of a part, and compute the correlation of each full window, which begins at the
        location of its first pair.
        """
        sizes = [estimate_tokens(text) for text in example.texts]
        window = self._current_windows.setdefault(part, [])
        if not window:
            self._window_starts[part] = (location, format_example(location, *example.texts))
        if all(sizes):
            window.append((log(sizes[0]), log(sizes[1])))
        if len(window) == self._WINDOW_SIZE:
            self._windows.setdefault(part, []).append((compute_correlation(window), *self._window_starts[part]))
            window.clear()

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield one result for each part whose sides do not correlate, or no longer do from some line on; `counts` is
        not used.
        """
        for part, windows in self._windows.items():
            is_uncorrelated = [not (value > 0.15) for value, _, _ in windows]
            names = " and ".join(self._files[part])
            if all(is_uncorrelated):
                yield CheckResult(
                    f"the lines of {names} do not seem to translate each other: long lines are paired with short ones",
                    [example for _, _, example in windows[:MAX_SHOWN]],
                    "check whether the files belong together and are in the same order",
                )
            elif is_uncorrelated[-1] and len(windows) > 2:
                first = len(is_uncorrelated) - next(
                    (n for n, flag in enumerate(reversed(is_uncorrelated)) if not flag), len(is_uncorrelated)
                )
                if all(is_uncorrelated[first:]) and first < len(is_uncorrelated):
                    _, location, example = windows[first]
                    yield CheckResult(
                        f"the lines of {names} do not seem to translate each other from about {location} on",
                        [example],
                        "a line is probably missing on one side, and another one further down: find where the lines "
                        "stop matching",
                    )


def compute_correlation(points: Sequence[tuple[float, float]]) -> float:
    """Compute Pearson's correlation of the two numbers of each point; 1 if one of them is constant, when it is
    undefined.
    """
    size = len(points)
    means = [sum(point[side] for point in points) / size for side in (0, 1)]
    spread = [sum((point[side] - means[side]) ** 2 for point in points) for side in (0, 1)]
    if min(spread) < 0.01 * size:
        return 1.0
    covariance = sum((a - means[0]) * (b - means[1]) for a, b in points)
    return float(covariance / (spread[0] * spread[1]) ** 0.5)
