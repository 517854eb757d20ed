"""Checks of parallel text: wrong languages, different lengths, copies, and misaligned lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import Final, final

from heedful.data.detect.checks import (
    MAX_SHOWN,
    RARE_SHARE,
    CheckResult,
    DataCheck,
    ExampleCheck,
    append_if_few,
    estimate_tokens,
    format_count,
    format_example,
    format_percent,
)
from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import DatasetExample
from heedful.data.detect.hash_sample import TextSample, normalise_text
from heedful.data.detect.languages import NUM_LEARNING_PAIRS, LanguageDiscriminator, LanguageInfo, guess_language


def is_copy(source: str, target: str) -> bool:
    """Return whether source and target are the same text of several words."""
    return (
        len(source.split()) > 1 and normalise_text(source) == normalise_text(target) and any(map(str.isalpha, source))
    )


@final
class CopyCheck(ExampleCheck):
    """Finds pairs whose target is a copy of the source."""

    min_share = 5 * RARE_SHARE

    def __init__(self, noun: str) -> None:
        super().__init__()
        self._noun = noun

    def _get_faulty_texts(self, example: DatasetExample) -> Sequence[str] | None:
        return example.texts[:1] if is_copy(*example.texts) else None

    def _describe_problem(self, count: int, share: str) -> tuple[str, str]:
        return (
            f"{format_count(count, self._noun)} ({share}) with the same text on both sides",
            "the model learns to copy from them: take them out unless that is intended",
        )


@final
class LengthRatioCounter:
    """Counts the length ratios of source and target, in tenths of the logarithm."""

    _STEPS_PER_LOG: Final = 10
    _MIN_TOKENS: Final = 12
    """Number of tokens of the longer side below which a pair is ignored."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def measure_ratio(self, source: str, target: str) -> int | None:
        """Return the length ratio of a pair in tenths of its logarithm; None if the pair is too short."""
        sizes = estimate_tokens(source), estimate_tokens(target)
        if not min(sizes) or max(sizes) < self._MIN_TOKENS:
            return None
        return round(self._STEPS_PER_LOG * log(sizes[0] / sizes[1]))

    @property
    def median_ratio(self) -> int:
        """Median of the counted ratios; 0 if there are none."""
        half_total, cumulative = self.counts.total() // 2, 0
        for ratio in sorted(self.counts):
            cumulative += self.counts[ratio]
            if cumulative > half_total:
                return ratio
        return 0

    def is_outlier(self, ratio: int, factor: float, *, median_ratio: int) -> bool:
        """Return whether a ratio differs from the median by more than `factor`, in either direction."""
        return abs(ratio - median_ratio) > self._STEPS_PER_LOG * log(factor)


@final
class LengthRatioCheck(DataCheck):
    """Finds pairs with a side that is far longer or shorter than in most pairs."""

    _OUTLIER_FACTOR: Final = 4

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._examples: dict[int, list[str]] = {}
        self._ratio_counter = LengthRatioCounter()

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Count the length ratio of the pair."""
        ratio = self._ratio_counter.measure_ratio(*example.texts)
        if ratio is not None:
            self._ratio_counter.counts[ratio] += 1
            append_if_few(self._examples.setdefault(ratio, []), format_example(location, *example.texts))

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield one result if there are enough outliers."""
        ratio_counts, median_ratio, total = (
            self._ratio_counter.counts,
            self._ratio_counter.median_ratio,
            sum(counts.values()),
        )
        outlier_ratios = [
            ratio
            for ratio in ratio_counts
            if self._ratio_counter.is_outlier(ratio, self._OUTLIER_FACTOR, median_ratio=median_ratio)
        ]
        count = sum(ratio_counts[ratio] for ratio in outlier_ratios)
        if count > RARE_SHARE * total:
            outlier_ratios.sort(key=lambda ratio: -abs(ratio - median_ratio))
            yield CheckResult(
                f"{format_count(count, self._noun)} ({format_percent(count, total)}) with a side at least four times "
                "as long as usual compared with the other",
                [example for ratio in outlier_ratios for example in self._examples[ratio]][:MAX_SHOWN],
                "check whether they translate each other; take out those that do not",
            )


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
        self._discriminator = LanguageDiscriminator(*languages) if len(languages) == 2 and all(languages) else None
        self._pending: list[tuple[tuple[str, ...], str]] = []
        self._num_learned = 0
        self._swapped_examples: list[str] = []
        self._same_language_examples: list[str] = []
        self._counts = [0, 0]

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Sample the sides, and compare them after enough pairs have been used to learn which words are ambiguous."""
        for side, text in enumerate(example.texts):
            self._samples.setdefault((part, side), TextSample()).add_text(text)
        if self._discriminator is None:
            return
        if self._num_learned == NUM_LEARNING_PAIRS:
            self._compare_sides(self._discriminator, example.texts, location)
            return
        self._num_learned += 1
        self._pending.append((example.texts, location))
        for text in example.texts:
            self._discriminator.learn(text)
        if self._num_learned == NUM_LEARNING_PAIRS:
            self._compare_pending(self._discriminator)

    def _compare_pending(self, discriminator: LanguageDiscriminator) -> None:
        """Compare the sides of the pairs that were used for learning."""
        for texts, location in self._pending:
            self._compare_sides(discriminator, texts, location)
        self._pending.clear()

    def _compare_sides(self, discriminator: LanguageDiscriminator, texts: Sequence[str], location: str) -> None:
        """Count a pair if its sides are swapped or in the same language."""
        sides = [discriminator.classify(text) for text in texts]
        if sides == [1, 0]:
            self._counts[0] += 1
            append_if_few(self._swapped_examples, format_example(location, *texts))
        elif sides in ([0, 0], [1, 1]):
            self._counts[1] += 1
            append_if_few(self._same_language_examples, format_example(location, *texts))

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield results for whole files; if there are none, for single pairs."""
        if self._discriminator is not None:
            self._compare_pending(self._discriminator)
        languages = {key: guess_language(sample.texts) for key, sample in self._samples.items()}
        file_results = list(self._check_whole_files(languages))
        yield from file_results
        if file_results or self._discriminator is None:
            return
        total = sum(counts.values())
        first, second = self._expected_languages
        for index, (examples, description, remedy) in enumerate(
            (
                (
                    self._swapped_examples,
                    f"probably have {second} first and {first} second",
                    "check them, and exchange the sides where this is so",
                ),
                (
                    self._same_language_examples,
                    "probably have the same language on both sides",
                    "check them, and take out those that are not translated, unless the model is meant to write both "
                    "languages",
                ),
            )
        ):
            if self._counts[index] > RARE_SHARE * total:
                count = self._counts[index]
                yield CheckResult(f"{count:,} pairs ({format_percent(count, total)}) {description}", examples, remedy)

    def _check_whole_files(self, languages: Mapping[tuple[DatasetPart, int], LanguageInfo]) -> Iterator[CheckResult]:
        """Yield a result for each side of a part that is in another language than its name says."""
        for (part, side), language in languages.items():
            expected = self._expected_languages[side] if side < len(self._expected_languages) else LanguageInfo()
            if not (language and expected) or is_similar_language(language, expected):
                continue
            other_expected = (
                self._expected_languages[1 - side] if len(self._expected_languages) == 2 else LanguageInfo()
            )
            is_swapped = is_similar_language(language, other_expected) and is_similar_language(
                languages.get((part, 1 - side), LanguageInfo()), expected
            )
            if is_swapped and side == 1:
                continue  # which was reported with the first side
            name = self._files[part][side]
            if is_swapped:
                yield CheckResult(
                    f"{name} should be {expected} and is {language}, and {self._files[part][1 - side]} is {expected}",
                    [format_example(name, text) for text in self._samples[part, side].texts[:MAX_SHOWN]],
                    "the sides of this part are in the wrong order, or the files have each other's names: exchange "
                    "them",
                )
            else:
                yield CheckResult(
                    f"{name} should be {expected} and looks like {language}",
                    [format_example(name, text) for text in self._samples[part, side].texts[:MAX_SHOWN]],
                    "check whether this is the right file",
                )


_SIMILAR_LANGUAGES: Final = tuple(
    map(frozenset, ("da no nb nn", "hr sr bs", "id ms", "cs sk", "pt gl", "hi mr ne", "be ru", "fa ur"))
)
"""Groups of languages that are easily mistaken for each other."""


def is_similar_language(first: LanguageInfo, second: LanguageInfo) -> bool:
    """Return whether two languages are the same or hard to distinguish; the unknown language is not similar to any."""
    return first == second or any(first.code in group and second.code in group for group in _SIMILAR_LANGUAGES)


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
        """Collect the lengths of the pair, and compute the correlation of each full window."""
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
        """Yield one result for each part whose sides do not correlate, or no longer do from some line on."""
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
    """Compute Pearson's correlation; 1 if one side is constant, when it is undefined."""
    size = len(points)
    means = [sum(point[side] for point in points) / size for side in (0, 1)]
    spread = [sum((point[side] - means[side]) ** 2 for point in points) for side in (0, 1)]
    if min(spread) < 0.01 * size:
        return 1.0
    covariance = sum((a - means[0]) * (b - means[1]) for a, b in points)
    return float(covariance / (spread[0] * spread[1]) ** 0.5)
