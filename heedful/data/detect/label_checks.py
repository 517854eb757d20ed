"""Checks of labels: one value for all, spellings of one class, rare and dominating classes."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

from heedful.data.detect.checks import MAX_SHOWN, format_count, format_example, format_percent
from heedful.data.detect.file_names import PARTS, DatasetPart
from heedful.data.detect.format import CheckResult, DataCheck, DatasetExample
from heedful.data.labels import is_missing_value, parse_number

_MAX_LABELS: Final = 10_000
"""Different labels that are counted, at most."""
_SINGLE_LABEL_REMEDY: Final = (
    "there is nothing to learn: a model would always predict it. Find data with others, or name another column "
    "with --columns"
)


@final
class ConstantNumberCheck(DataCheck):
    """Finds number labels that are all the same.

    Args:
        noun: what examples are called.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._values: set[float] = set()

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Keep up to two different numbers."""
        if len(self._values) < 2:
            self._values.update(value for value in map(parse_number, example.labels) if value is not None)

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield one result if the labels of all examples are the same number; `counts` is not used."""
        if len(self._values) == 1:
            yield CheckResult(f"all {self._noun} have the number {min(self._values):g}", [], _SINGLE_LABEL_REMEDY)


@final
class LabelSpellingCheck(DataCheck):
    """Finds labels that may be one class with several spellings, and labels that may stand for a missing one.

    Args:
        noun: what the labelled examples are called.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._counts: Counter[str] = Counter()

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Count the labels of the example; part and location are not used."""
        for label in example.labels:
            if label.strip() and (label in self._counts or len(self._counts) < _MAX_LABELS):
                self._counts[label] += 1

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield one result for classes with several spellings and one for labels that may mean a missing one; `counts`
        is not used.
        """
        groups_by_spelling: dict[str, list[str]] = {}
        for label in self._counts:
            groups_by_spelling.setdefault(_normalise_label(label), []).append(label)
        groups = [labels for labels in groups_by_spelling.values() if len(labels) > 1]
        if groups:
            yield CheckResult(
                f"{format_count(sum(map(len, groups)), 'classes')} of {len(self._counts):,} differ only in their "
                "spelling: by case, spaces, quotation marks, the form of a number, or Unicode's forms of a letter",
                [
                    " and ".join(self._format_label(label, labels) for label in labels)
                    for labels in groups[: 2 * MAX_SHOWN]
                ],
                "a model treats each as a separate class: give classes that mean the same one spelling",
            )
        missing = [label for label in self._counts if is_missing_value(label)]
        if missing:
            total = sum(self._counts[label] for label in missing)
            yield CheckResult(
                f"{format_count(total, self._noun)} ({format_percent(total, self._counts.total())}) with a label that "
                f"may mean unknown: {', '.join(map(repr, missing[:5]))}",
                [],
                "a model learns it as a separate class: take these out unless it is one",
            )

    def _format_label(self, label: str, others: Sequence[str]) -> str:
        """Return a label with its count; if another label of `others` looks the same, also its code points outside
        ASCII.
        """
        normalised = [unicodedata.normalize("NFC", other) for other in others]
        looks_same = normalised.count(unicodedata.normalize("NFC", label)) > 1
        codes = " ".join(f"U+{ord(letter):04X}" for letter in label if not letter.isascii())
        return f"{label!r} {self._counts[label]:,}{f' (with {codes})' if looks_same and codes else ''}"


def _normalise_label(label: str) -> str:
    """Return a normal form that is equal for different spellings of a label."""
    number = parse_number(label)
    if number is not None:
        return f"{number:g}"
    plain = "".join(letter for letter in label if unicodedata.category(letter) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", plain).casefold().strip("\"'“”„«»` ").split())


@final
class LabelDistributionCheck(DataCheck):
    """Finds labels that are rare, that dominate, or that occur only in evaluation data.

    Args:
        noun: what the labelled examples are called.
        label_nouns: what labels are called, singular and plural.
        balanced: whether all labels should be about equally frequent.
    """

    def __init__(self, noun: str, *, label_nouns: tuple[str, str], balanced: bool = True) -> None:
        self._noun = noun
        self._label_nouns = label_nouns
        self._balanced = balanced
        self._counts: dict[DatasetPart, Counter[str]] = {part: Counter() for part in PARTS}
        self._examples: dict[str, str] = {}

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Count the labels of an example of a part, and keep the first one with each label to show with its
        location.
        """
        self._counts[part].update(example.labels)
        for label in example.labels:
            if label not in self._examples and len(self._examples) < _MAX_LABELS:
                self._examples[label] = format_example(location, example.texts[0], label)

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield results about rare, dominating and unknown labels of all parts together, since the dataset may be split
        again; `counts` is not used.
        """
        singular_noun, plural_noun = self._label_nouns
        label_counts: Counter[str] = sum(self._counts.values(), Counter())
        if not label_counts:
            return
        if len(label_counts) == 1 and self._balanced:
            yield CheckResult(
                f"all {self._noun} have the {singular_noun} {next(iter(label_counts))!r}", [], _SINGLE_LABEL_REMEDY
            )
            return
        rare = [label for label, count in label_counts.items() if count <= 2]
        if rare:
            names = ", ".join(repr(label) for label in rare[:5]) + (" ..." if len(rare) > 5 else "")
            yield CheckResult(
                f"{len(rare):,} {singular_noun if len(rare) == 1 else plural_noun} of {len(label_counts):,} "
                f"{'occurs' if len(rare) == 1 else 'occur'} only once or twice: {names}",
                [self._examples[label] for label in rare[:MAX_SHOWN] if label in self._examples],
                "a model learns nothing from so few examples: find more, merge them with others, or look for typing "
                "errors",
            )
        label, max_count = label_counts.most_common(1)[0]
        min_count = min(label_counts.values())
        total = label_counts.total()
        if self._balanced and len(label_counts) > 1 and (max_count > 0.8 * total or max_count > 20 * max(3, min_count)):
            yield CheckResult(
                f"{singular_noun} {label!r} has {max_count:,} of {total:,} {self._noun} "
                f"({format_percent(max_count, total)}), the rarest "
                f"{singular_noun} {min_count:,}",
                [],
                "a model that always predicts the first looks good: compare macro-F1 (training.monitor), and find "
                "more examples of the others",
            )
        unknown_labels = {label for part in ("validation", "test") for label in self._counts[part]} - {
            *self._counts["train"]
        }
        if unknown_labels and self._counts["train"]:
            names = ", ".join(map(repr, sorted(unknown_labels)[:5]))
            yield CheckResult(
                f"{len(unknown_labels):,} {singular_noun if len(unknown_labels) == 1 else plural_noun} of the data for "
                "validation or test "
                f"{'is' if len(unknown_labels) == 1 else 'are'} not in the training data: {names}",
                [self._examples[label] for label in sorted(unknown_labels)[:MAX_SHOWN] if label in self._examples],
                "the model can never predict them: check how labels are written",
            )
