"""Read all examples of a dataset once: counts, lengths, labels, and problems that harm training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappush, heappushpop
from typing import Any, Final

from heedful.data.chunk_workers import ChunkWorkers
from heedful.data.detect.checks import estimate_tokens, format_count, format_example, format_percent
from heedful.data.detect.file_names import PARTS, DatasetPart
from heedful.data.detect.format import CheckResult, DataCheck, DatasetExample, DetectedDataset
from heedful.data.detect.hash_sample import DatasetSplitter, Histogram
from heedful.data.detect.languages import SPACELESS_LANGUAGES
from heedful.data.labels import parse_number
from heedful.english_words import add_article, to_singular
from heedful.errors import DataError

_MAX_LABELS: Final = 10_000
"""Largest number of different labels that are counted."""
_MAX_TOO_LONG_SHARE: Final = 0.005
"""Share of examples that are too long above which a larger maximum length is suggested."""
_LENGTH_STEP: Final = 64
_LENGTH_LIMITS: Final = {True: 512, False: 1024}
"""Largest suggested length in tokens, if the texts of an example are read as one and if not."""
_NUM_LONGEST: Final = 2
"""Number of longest examples that are shown."""


@dataclass(frozen=True)
class DatasetReport:
    """Statistics and problems of a dataset.

    Attributes:
        example_counts: number of examples of each part.
        word_histograms: for each text of an example, its number of words.
        token_histogram: estimated number of tokens of an example that are read as one.
        label_counts: frequency of each label.
        check_results: problems that harm training.
        splitter: chooses the validation and test parts; it has seen the training data.
        longest_examples: the longest examples: their number of tokens, and their text for messages.
    """

    example_counts: Mapping[DatasetPart, int]
    word_histograms: Sequence[Histogram]
    token_histogram: Histogram
    label_counts: Counter[str]
    check_results: Sequence[CheckResult]
    splitter: DatasetSplitter
    longest_examples: Sequence[tuple[int, str]]

    def suggest_max_length(self, default: int, *, joint_texts: bool) -> int | None:
        """Return a larger maximum length in tokens if the default would truncate more than a few examples; else None.
        It is at most 512 if the texts of an example are read as one (`joint_texts`), else 1,024.
        """
        if self.token_histogram.count_above(default) <= _MAX_TOO_LONG_SHARE * self.token_histogram.total:
            return None
        needed = -(-int(1.15 * self.token_histogram.get_quantile(0.99)) // _LENGTH_STEP) * _LENGTH_STEP
        raised = min(_LENGTH_LIMITS[joint_texts], needed)
        return raised if raised > default else None

    def check_length(self, max_tokens: int, *, noun: str) -> CheckResult | None:
        """Return a result about the examples that are longer than `max_tokens`; None if there are none. `noun` is what
        examples are called.
        """
        count = self.token_histogram.count_above(max_tokens)
        if not count:
            return None
        verb = "is probably" if count == 1 else "are probably"
        return CheckResult(
            f"{format_count(count, noun)} ({format_percent(count, self.token_histogram.total)}) {verb} longer than "
            "data.max_length = "
            f"{max_tokens} tokens",
            [text for size, text in self.longest_examples if size > max_tokens],
            "heedful recipe data.max_length explains how they are handled: split them, or raise that key, which costs "
            "memory and time",
        )


def build_report(
    dataset: DetectedDataset,
    *,
    processes: int = 1,
    on_progress: Callable[[int, int | None], None] = lambda _, __: None,
) -> DatasetReport:
    """Read all parts of a dataset, evaluation data first, and build its report, which is the same for any number of
    processes.

    Args:
        dataset: the dataset.
        processes: largest number of processes that measure examples; this one reads and counts.
        on_progress: called from time to time with the number of examples read, and None, as the total is unknown.

    Raises:
        DataError: a file is broken, or a part has no examples.
        RunError: a process was killed.
    """
    checks = dataset.build_checks()
    workers = ChunkWorkers(partial(_measure_examples, checks), processes, _count_characters)
    counts: dict[DatasetPart, int] = {}
    lengths, splitter = _LengthStatistics(dataset), DatasetSplitter()
    labels: Counter[str] = Counter()
    for part in reversed(PARTS):
        if part not in dataset.files:
            continue
        examples = _iter_examples(dataset, part)
        for chunk, measured in workers.map(examples, select=lambda each: (each.texts, each.labels)):
            counts[part] = counts.get(part, 0) + len(chunk)
            for example, values in zip(chunk, measured, strict=True):
                location = dataset.format_location(part, example)
                lengths.add_example(example, location)
                for label in example.labels:
                    if label in labels or len(labels) < _MAX_LABELS:
                        labels[label] += 1
                for check, value in zip(checks, values, strict=True):
                    check.add_measured(example, part, location, value=value)
                if part == "train" and dataset.is_usable(example):
                    splitter.add_example(example.split_keys)
            on_progress(sum(counts.values()), None)
        if part not in counts:
            raise DataError(f"{dataset.get_first_file(part)}: there are no {dataset.noun} in it; is it the right file?")
    ordered = {part: counts[part] for part in PARTS if part in counts}
    results = [result for check in checks for result in check.build_results(ordered)]
    longest = sorted(lengths.longest_examples, reverse=True)
    return DatasetReport(ordered, lengths.word_histograms, lengths.token_histogram, labels, results, splitter, longest)


def _iter_examples(dataset: DetectedDataset, part: DatasetPart) -> Iterator[DatasetExample]:
    """Iterate over the examples of a part, without ends of documents."""
    return (example for example in dataset.read_examples(part) if not dataset.is_document_end(example))


def _count_characters(example: DatasetExample) -> int:
    """Return the number of characters in the texts of an example."""
    return sum(map(len, example.texts))


def _measure_examples(
    checks: Sequence[DataCheck], examples: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> Sequence[Sequence[Any]]:
    """Return what each check measures of each example, given as its texts and its labels; a row is an example."""
    columns = [check.measure_batch(examples) for check in checks]
    return [[column[row] for column in columns] for row in range(len(examples))]


class _LengthStatistics:
    """Lengths of texts and examples, and the longest examples."""

    def __init__(self, dataset: DetectedDataset) -> None:
        self._dataset = dataset
        self.word_histograms: list[Histogram] = []
        self.token_histogram = Histogram()
        self.longest_examples: list[tuple[int, str]] = []

    def add_example(self, example: DatasetExample, location: str) -> None:
        """Count the lengths of one example, and keep it with its location if it is one of the longest."""
        sizes = [estimate_tokens(text) for text in example.texts]
        size = sum(sizes) if self._dataset.joint_texts else max(sizes)
        self.token_histogram.add_number(size)
        while len(self.word_histograms) < len(sizes):
            self.word_histograms.append(Histogram())
        for index, text in enumerate(example.texts):
            self.word_histograms[index].add_number(
                len("".join(text.split())) if _is_spaceless(self._dataset, index) else len(text.split())
            )
        if len(self.longest_examples) < _NUM_LONGEST:
            heappush(self.longest_examples, (size, format_example(location, *example.texts)))
        elif size > self.longest_examples[0][0]:
            heappushpop(self.longest_examples, (size, format_example(location, *example.texts)))


def _is_spaceless(dataset: DetectedDataset, text_index: int) -> bool:
    """Return whether a text of the examples is in a language without spaces between words."""
    return text_index < len(dataset.languages) and dataset.languages[text_index].code in SPACELESS_LANGUAGES


def describe_dataset(dataset: DetectedDataset, report: DatasetReport) -> list[str]:
    """Describe a dataset and its report in lines of a few words."""
    counts = ", ".join(f"{count:,} for {_format_part(part)}" for part, count in report.example_counts.items())
    lines = [
        f"form: {dataset.format_description}",
        f"learned: {dataset.learning_description}",
        f"{dataset.noun}: {counts}",
    ]
    for index, words in enumerate(report.word_histograms):
        text_noun = dataset.text_nouns[index] if dataset.text_nouns else to_singular(dataset.noun)
        unit = "characters" if _is_spaceless(dataset, index) else "words"
        lines.append(
            f"{unit} of {add_article(text_noun)}: {words.get_quantile(0.5):,} (median), {words.get_quantile(0.95):,} "
            "(95th percentile)"
        )
    if dataset.label_noun == "numbers":
        values = [value for value in map(parse_number, report.label_counts) if value is not None]
        lines.append(f"numbers: from {min(values):g} to {max(values):g}")
    elif dataset.label_noun:
        common = report.label_counts.most_common(12)
        remainder = (
            f" and {len(report.label_counts) - len(common):,} more" if len(report.label_counts) > len(common) else ""
        )
        listing = ", ".join(f"{label!r} {count:,}" for label, count in common)
        lines.append(f"{format_count(len(report.label_counts), dataset.label_noun)}: {listing}{remainder}")
    return lines


def _format_part(part: DatasetPart) -> str:
    """Return the name of a part for messages."""
    return "training" if part == "train" else part
