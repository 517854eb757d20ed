"""Checks for problems that harm training: each looks at all examples, counts a problem, shows two examples of it,
and suggests a remedy.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from heedful.data.detect.file_names import PARTS, DatasetPart
from heedful.data.detect.format import DatasetExample
from heedful.data.detect.hash_sample import HashSample, hash_texts
from heedful.data.number_parsing import is_missing_value, parse_number
from heedful.english_words import to_singular

_MAX_LABELS: Final = 10_000
"""Different labels that are counted, at most."""
_SINGLE_LABEL_REMEDY: Final = (
    "there is nothing to learn: a model would always predict it. Find data with others, or name another column "
    "with --columns"
)
MAX_SHOWN: Final = 2
"""Number of examples shown for each problem."""
_MAX_SNIPPET: Final = 70
RARE_SHARE: Final = 0.001
"""Share of examples up to which some problems are not reported."""
REPLACEMENT_CHARACTER: Final = re.compile("\ufffd")
MOJIBAKE: Final = re.compile("Ã[\u0080-\u00bf\u0152-\u0192\u2013-\u2122]|â€|Â[\u00a0-\u00bf]|Ð[\u0080-\u00bf]")
MARKUP: Final = re.compile(
    r"&(amp|lt|gt|quot|nbsp|apos|#\d+|#x[0-9a-fA-F]+);|</?(p|b|i|br|div|span|a|li|ul|td|tr)\b[^<>]*>"
)
CONTROL_CHARACTERS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_WIDE_CHARACTERS: Final = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0eff]")


@dataclass(frozen=True)
class CheckResult:
    """A problem that a check found.

    Attributes:
        message: what the problem is, and how often it occurs.
        examples: some of the examples, each with its location.
        remedy: what to do about it.
    """

    message: str
    examples: Sequence[str]
    remedy: str


class DataCheck(ABC):
    """Base of checks that look for one problem in the examples of a dataset.

    Abstract. The parts follow one another: test and validation first, then training.
    """

    @abstractmethod
    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Process one example."""

    @abstractmethod
    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield the problems found, after all examples; `counts` has the number of examples of each part."""


def format_example(location: str, *texts: str) -> str:
    """Return an example on one line: its location and the beginnings of its texts."""
    return f"{location}: {' | '.join(_shorten(text) or '(empty)' for text in texts)}"


def _shorten(text: str) -> str:
    """Return the beginning of a text on one line."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _MAX_SNIPPET else f"{plain[:_MAX_SNIPPET]}..."


def format_percent(count: int, total: int) -> str:
    """Format `count` of `total` as a percentage."""
    share = 100 * count / max(1, total)
    return f"{share:.1f} %" if share >= 0.1 or not count else "less than 0.1 %"


def format_count(count: int, noun: str) -> str:
    """Format a number with a plural noun, which becomes singular for 1."""
    return f"{count:,} {noun if count != 1 else to_singular(noun)}"


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text: one for four letters, and one for each character of scripts without
    spaces.
    """
    num_wide = len(_WIDE_CHARACTERS.findall(text))
    words = 0 if num_wide else len(text.split())
    return num_wide + max(words, -(-(len(text) - num_wide) // 4))


class ExampleCheck(DataCheck):
    """Base of checks that judge each example alone; the problem is reported once for all parts together, if its
    share is at least `min_share`.
    """

    min_share: float = 0.0

    def __init__(self) -> None:
        self._count = 0
        self._examples: list[str] = []

    @final
    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Count the example if it has the problem, and keep the first ones to show."""
        texts = self._get_faulty_texts(example)
        if texts is None:
            return
        self._count += 1
        if len(self._examples) < MAX_SHOWN:
            self._examples.append(format_example(location, *texts))

    @final
    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield one result if the problem is frequent enough."""
        total = sum(counts.values())
        if self._count and self._count >= self.min_share * total:
            message, remedy = self._describe_problem(self._count, format_percent(self._count, total))
            yield CheckResult(message, self._examples, remedy)

    @abstractmethod
    def _get_faulty_texts(self, example: DatasetExample) -> Sequence[str] | None:
        """Return the texts to show if the example has the problem, else None."""

    @abstractmethod
    def _describe_problem(self, count: int, share: str) -> tuple[str, str]:
        """Return the message and the remedy."""


@final
class EmptyTextCheck(ExampleCheck):
    """Finds examples with an empty text or label; `fatal` says whether training stops at them."""

    def __init__(self, noun: str, *, fatal: bool) -> None:
        super().__init__()
        self._noun = noun
        self._fatal = fatal

    def _get_faulty_texts(self, example: DatasetExample) -> Sequence[str] | None:
        is_empty = not all(text.strip() for text in example.texts) or not all(label.strip() for label in example.labels)
        return (*example.texts, *example.labels[:1]) if is_empty else None

    def _describe_problem(self, count: int, share: str) -> tuple[str, str]:
        remedy = (
            "training stops at them: files that are written now leave them out, take them out of others"
            if self._fatal
            else "training leaves them out"
        )
        return f"{format_count(count, self._noun)} ({share}) with an empty text or label", remedy


@final
class EncodingCheck(DataCheck):
    """Finds traces of a wrong encoding or of another file format."""

    _PROBLEMS: Final = (
        (
            REPLACEMENT_CHARACTER,
            "a sign for an unreadable character (U+FFFD)",
            "an earlier conversion lost letters: convert the original again",
            0.0,
        ),
        (
            MOJIBAKE,
            "letters such as Ã¼ where ü is meant",
            "UTF-8 was read as Windows-1252 and saved again: convert back with iconv -f UTF-8 -t CP1252",
            0.0,
        ),
        (
            MARKUP,
            "remains of HTML",
            "the model learns to write and read them: take them out, as with Python's html.unescape",
            0.0,
        ),
        (
            CONTROL_CHARACTERS,
            "control characters",
            "they are invisible, but the model learns them: take them out, as with tr -d '\\000-\\010\\013-\\037'",
            0.0,
        ),
        (
            re.compile('(?<!")""(?!")'),
            "doubled quotes, as in fields of CSV",
            "the table was CSV once, but tables with tabs have no quotes here: save it as CSV, or take the quotes out",
            0.005,
        ),
    )

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._counts = [0] * len(self._PROBLEMS)
        self._examples: list[list[str]] = [[] for _ in self._PROBLEMS]

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Count each kind of problem once for an example."""
        for index, (pattern, *_) in enumerate(self._PROBLEMS):
            matching_text = next((text for text in example.texts if pattern.search(text)), None)
            if matching_text is not None:
                self._counts[index] += 1
                if len(self._examples[index]) < MAX_SHOWN:
                    self._examples[index].append(format_example(location, matching_text))

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield one result for each kind of problem."""
        total = sum(counts.values())
        for (_, noun_phrase, remedy, min_share), count, examples in zip(
            self._PROBLEMS, self._counts, self._examples, strict=True
        ):
            if count and count >= min_share * total:
                yield CheckResult(
                    f"{format_count(count, self._noun)} ({format_percent(count, total)}) with {noun_phrase}",
                    examples,
                    remedy,
                )


@dataclass(slots=True)
class _FirstOccurrence:
    """The first occurrence of an input: its location, the hash of its output, and whether a different output
    followed.
    """

    location: str
    output_hash: int
    has_conflict: bool = False


@final
class RepeatCheck(DataCheck):
    """Finds training examples that occur twice, and inputs with different outputs.

    Args:
        noun: what examples are called.
        input_noun: what inputs that may have different outputs are called.
        conflict: message about inputs with different outputs; empty if these are not reported.
        remedy: what to do about them.
        min_share: share of examples up to which they are not reported.
        limit: number of different texts that are remembered; with more texts, counts are estimated.
    """

    def __init__(
        self,
        noun: str,
        *,
        input_noun: str = "texts",
        conflict: str = "",
        remedy: str = "",
        min_share: float = 0.0,
        limit: int = 2**19,
    ) -> None:
        self._noun = noun
        self._input_noun = input_noun
        self._conflict = (conflict, remedy, min_share)
        self._first_occurrences: HashSample[_FirstOccurrence] = HashSample(limit)
        self._examples_seen: HashSample[str] = HashSample(limit)
        self._repeat_counts: HashSample[int] = HashSample(limit)
        self._examples: tuple[list[str], list[str]] = ([], [])

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Compare the example with the earlier ones."""
        if part != "train":
            return
        input_hash, output_hash = _hash_input_and_output(example)
        example_hash = hash_texts(*example.texts, *example.labels)
        if self._examples_seen.should_keep(example_hash):
            earlier_location = self._examples_seen.get_value(example_hash)
            if earlier_location is None:
                self._examples_seen.set_value(example_hash, location)
            else:
                self._repeat_counts.set_value(example_hash, (self._repeat_counts.get_value(example_hash) or 0) + 1)
                append_if_few(
                    self._examples[0],
                    format_example(f"{location} (as {_format_line(earlier_location)})", *example.texts[:2]),
                )
        if self._conflict[0] and self._first_occurrences.should_keep(input_hash):
            first = self._first_occurrences.get_value(input_hash)
            if first is None:
                self._first_occurrences.set_value(input_hash, _FirstOccurrence(location, output_hash))
            elif first.output_hash != output_hash and not first.has_conflict:
                first.has_conflict = True
                append_if_few(
                    self._examples[1],
                    format_example(
                        f"{location} (and {_format_line(first.location)})", *example.texts[:2], *example.labels[:1]
                    ),
                )

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield the repeated examples, then the inputs with different outputs."""
        total = counts.get("train", 0)
        kept_counts = [
            count
            for example_hash, count in self._repeat_counts.get_items()
            if self._examples_seen.should_keep(example_hash)
        ]
        num_repeated = round(sum(kept_counts) / self._examples_seen.sampling_rate)
        prefix = "" if self._examples_seen.sampling_rate == 1 else "about "
        if num_repeated > RARE_SHARE * total:
            yield CheckResult(
                f"{prefix}{num_repeated:,} of {total:,} {self._noun} ({format_percent(num_repeated, total)}) for "
                "training repeat another one",
                self._examples[0],
                "they get more weight than others; keep them if such texts are really that frequent, else take them "
                "out",
            )
        message, remedy, min_share = self._conflict
        num_conflicts = round(
            sum(first.has_conflict for _, first in self._first_occurrences.get_items())
            / self._first_occurrences.sampling_rate
        )
        prefix = "" if self._first_occurrences.sampling_rate == 1 else "about "
        if num_conflicts and num_conflicts > min_share * total:
            yield CheckResult(
                f"{prefix}{format_count(num_conflicts, self._input_noun)} {message}", self._examples[1], remedy
            )


def _hash_input_and_output(example: DatasetExample) -> tuple[int, int]:
    """Return the hash of the input and the hash of the output of an example."""
    if example.labels:
        return hash_texts(*example.texts), hash_texts(*example.labels)
    return hash_texts(example.texts[0]), hash_texts(*example.texts[1:])


def _format_line(location: str) -> str:
    """Return the line of a location in words."""
    number = location.rpartition(":")[2]
    return f"line {number}" if number.isdecimal() else location


def append_if_few(examples: list[str], text: str) -> None:
    """Append an example to those to show, while there are few."""
    if len(examples) < MAX_SHOWN:
        examples.append(text)


@final
class LeakageCheck(DataCheck):
    """Finds texts that occur in training and in evaluation data.

    Args:
        limit: number of texts of a part that are remembered.
    """

    def __init__(self, *, limit: int = 2**19) -> None:
        self._limit = limit
        self._locations: dict[DatasetPart, dict[int, str]] = {"test": {}, "validation": {}}
        self._leaks: dict[tuple[DatasetPart, DatasetPart], dict[int, str]] = {}

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Compare the example with those of earlier parts."""
        text_hash = hash_texts(example.split_keys[0])
        text = example.split_keys[0]
        for earlier, locations in self._locations.items():
            leaks = self._leaks.setdefault((earlier, part), {})
            if earlier != part and text_hash in locations and text_hash not in leaks:
                leaks[text_hash] = format_example(f"{locations[text_hash]} (as {location})", text)
        if part in self._locations and len(self._locations[part]) < self._limit:
            self._locations[part].setdefault(text_hash, location)

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield one result for each two parts that share texts."""
        for (earlier, later), leaks in self._leaks.items():
            if leaks:
                total = len(self._locations[earlier])
                verb = "is" if len(leaks) == 1 else "are"
                yield CheckResult(
                    f"{len(leaks):,} of the {total:,} different texts for {earlier} "
                    f"({format_percent(len(leaks), total)}) "
                    f"{verb} in the data for {'training' if later == 'train' else later} too",
                    list(leaks.values())[:MAX_SHOWN],
                    "texts from training make the model look better than it is: take them out of one of the parts, "
                    "or give only one file and let heedful new split it",
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
        """Yield one result if there is only one number."""
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
        """Count the labels of the example."""
        for label in example.labels:
            if label.strip() and (label in self._counts or len(self._counts) < _MAX_LABELS):
                self._counts[label] += 1

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield one result for spellings and one for missing labels."""
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
        """Return a label with its count; if another label looks the same, also its code points outside ASCII."""
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
        """Count the labels of the example."""
        self._counts[part].update(example.labels)
        for label in example.labels:
            if label not in self._examples and len(self._examples) < 10_000:
                self._examples[label] = format_example(location, example.texts[0], label)

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield results for all parts together, since the dataset may be split again."""
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
