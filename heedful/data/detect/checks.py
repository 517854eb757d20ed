"""What spoils trainings: each fault is looked for in all examples, counted, shown by two of them, and has a remedy."""

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
    "there is nothing to tell apart: a model would always say it. Find others, or name another column with --columns"
)
MAX_SHOWN: Final = 2
"""Examples of each fault."""
_MAX_SNIPPET: Final = 70
RARE_SHARE: Final = 0.001
"""Share of examples up to which some faults are not worth a word."""
REPLACEMENT_CHARACTER: Final = re.compile("\ufffd")
MOJIBAKE: Final = re.compile("Ã[\u0080-\u00bf\u0152-\u0192\u2013-\u2122]|â€|Â[\u00a0-\u00bf]|Ð[\u0080-\u00bf]")
MARKUP: Final = re.compile(
    r"&(amp|lt|gt|quot|nbsp|apos|#\d+|#x[0-9a-fA-F]+);|</?(p|b|i|br|div|span|a|li|ul|td|tr)\b[^<>]*>"
)
CONTROL_CHARACTERS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_WIDE_CHARACTERS: Final = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0eff]")


@dataclass(frozen=True)
class CheckResult:
    """A fault that was found.

    Attributes:
        message: what, and how often.
        examples: some of the examples, each with its place.
        remedy: what to do about it.
    """

    message: str
    examples: Sequence[str]
    remedy: str


class DataCheck(ABC):
    """Looks for one thing in examples.

    Abstract: each knows what. Parts come one after the other, those that are measured on first, then training.
    """

    @abstractmethod
    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """One example, and where it stands (`file:line`)."""

    @abstractmethod
    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """What was found, once all examples were seen; `counts` are those of each part."""


def format_example(location: str, *texts: str) -> str:
    """An example on one line: its place and the beginnings of its texts."""
    return f"{location}: {' | '.join(_shorten(text) or '(empty)' for text in texts)}"


def _shorten(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _MAX_SNIPPET else f"{plain[:_MAX_SNIPPET]}..."


def format_percent(count: int, total: int) -> str:
    """A share in words."""
    share = 100 * count / max(1, total)
    return f"{share:.1f} %" if share >= 0.1 or not count else "less than 0.1 %"


def format_count(count: int, noun: str) -> str:
    """A number of things that are called so in the plural."""
    return f"{count:,} {noun if count != 1 else to_singular(noun)}"


def estimate_tokens(text: str) -> int:
    """About how many tokens a text becomes: one for four letters, one for each of languages without spaces."""
    num_wide = len(_WIDE_CHARACTERS.findall(text))
    words = 0 if num_wide else len(text.split())
    return num_wide + max(words, -(-(len(text) - num_wide) // 4))


class ExampleCheck(DataCheck):
    """Examples that are at fault, each for itself; what is worth a word is told for all parts together."""

    min_share: float = 0.0

    def __init__(self) -> None:
        self._count = 0
        self._examples: list[str] = []

    @final
    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Counts it, and keeps the first ones."""
        texts = self._get_faulty_texts(example)
        if texts is None:
            return
        self._count += 1
        if len(self._examples) < MAX_SHOWN:
            self._examples.append(format_example(location, *texts))

    @final
    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """One, where there are enough."""
        total = sum(counts.values())
        if self._count and self._count >= self.min_share * total:
            message, remedy = self._describe_problem(self._count, format_percent(self._count, total))
            yield CheckResult(message, self._examples, remedy)

    @abstractmethod
    def _get_faulty_texts(self, example: DatasetExample) -> Sequence[str] | None:
        """What is shown of an example that is at fault."""

    @abstractmethod
    def _describe_problem(self, count: int, share: str) -> tuple[str, str]:
        """The sentence and the remedy."""


@final
class EmptyTextCheck(ExampleCheck):
    """Nothing where a text or a label should be."""

    def __init__(self, noun: str, *, fatal: bool) -> None:
        super().__init__()
        self._noun = noun
        self._fatal = fatal

    def _get_faulty_texts(self, example: DatasetExample) -> Sequence[str] | None:
        is_empty = not all(text.strip() for text in example.texts) or not all(label.strip() for label in example.labels)
        return (*example.texts, *example.labels[:1]) if is_empty else None

    def _describe_problem(self, count: int, share: str) -> tuple[str, str]:
        remedy = (
            "training stops at them: they are left out of files that are written now, take them out of others"
            if self._fatal
            else "training leaves them out"
        )
        return f"{format_count(count, self._noun)} ({share}) with an empty text or label", remedy


@final
class EncodingCheck(DataCheck):
    """Traces of a wrong encoding or of another format."""

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
            "nobody sees them and the model learns them: take them out, as with tr -d '\\000-\\010\\013-\\037'",
            0.0,
        ),
        (
            re.compile('(?<!")""(?!")'),
            "doubled quotes, as CSV has them inside of fields",
            "the table was CSV once, and tabs stand without quotes here: save it as CSV, or take the quotes out",
            0.005,
        ),
    )

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._counts = [0] * len(self._PROBLEMS)
        self._examples: list[list[str]] = [[] for _ in self._PROBLEMS]

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Counts each kind once an example."""
        for index, (pattern, *_) in enumerate(self._PROBLEMS):
            matching_text = next((text for text in example.texts if pattern.search(text)), None)
            if matching_text is not None:
                self._counts[index] += 1
                if len(self._examples[index]) < MAX_SHOWN:
                    self._examples[index].append(format_example(location, matching_text))

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """One for each kind."""
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
    """What came first with a text: its place, the rest of it, and whether another rest came."""

    location: str
    output_hash: int
    has_conflict: bool = False


@final
class RepeatCheck(DataCheck):
    """Examples that stand there twice, and texts of which different things are said, in what is learned from.

    Args:
        noun: what examples are called.
        input_noun: what the texts of which different things may be said are called.
        conflict: what is to be told of such; empty where that is nothing.
        remedy: what to do about those.
        min_share: share of examples up to which these are not worth a word.
        limit: different texts that are remembered; more than that, and numbers are estimated.
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
        """Compares it with what came before."""
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
        """What is there twice, then what contradicts itself."""
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
                f"{prefix}{num_repeated:,} of {total:,} {self._noun} ({format_percent(num_repeated, total)}) for training repeat another one",
                self._examples[0],
                "they count for more than others; leave it so if that is how often such texts come, else take them out",
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
    """What is read, and what is to be said of it."""
    if example.labels:
        return hash_texts(*example.texts), hash_texts(*example.labels)
    return hash_texts(example.texts[0]), hash_texts(*example.texts[1:])


def _format_line(location: str) -> str:
    number = location.rpartition(":")[2]
    return f"line {number}" if number.isdecimal() else location


def append_if_few(examples: list[str], text: str) -> None:
    """Adds an example to be shown, as long as there are few."""
    if len(examples) < MAX_SHOWN:
        examples.append(text)


@final
class LeakageCheck(DataCheck):
    """Texts that are measured on and learned from.

    Args:
        limit: texts of a part that are remembered.
    """

    def __init__(self, *, limit: int = 2**19) -> None:
        self._limit = limit
        self._locations: dict[DatasetPart, dict[int, str]] = {"test": {}, "validation": {}}
        self._leaks: dict[tuple[DatasetPart, DatasetPart], dict[int, str]] = {}

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Compares it with those of parts that came before."""
        text_hash = hash_texts(example.split_keys[0])
        text = example.split_keys[0]
        for earlier, locations in self._locations.items():
            leaks = self._leaks.setdefault((earlier, part), {})
            if earlier != part and text_hash in locations and text_hash not in leaks:
                leaks[text_hash] = format_example(f"{locations[text_hash]} (as {location})", text)
        if part in self._locations and len(self._locations[part]) < self._limit:
            self._locations[part].setdefault(text_hash, location)

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """One for each two parts that share texts."""
        for (earlier, later), leaks in self._leaks.items():
            if leaks:
                total = len(self._locations[earlier])
                verb = "stands" if len(leaks) == 1 else "stand"
                yield CheckResult(
                    f"{len(leaks):,} of the {total:,} different texts for {earlier} ({format_percent(len(leaks), total)}) "
                    f"{verb} in the data for {'training' if later == 'train' else later} too",
                    list(leaks.values())[:MAX_SHOWN],
                    "what the model has seen makes it look better than it is: take them out of one of the parts, or "
                    "name one file alone and let heedful new split it",
                )


@final
class ConstantNumberCheck(DataCheck):
    """Numbers that are all the same.

    Args:
        noun: what they are said of.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._values: set[float] = set()

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Keeps different ones, up to two."""
        if len(self._values) < 2:
            self._values.update(value for value in map(parse_number, example.labels) if value is not None)

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """One, where there is one number alone."""
        if len(self._values) == 1:
            yield CheckResult(f"all {self._noun} have the number {min(self._values):g}", [], _SINGLE_LABEL_REMEDY)


@final
class LabelSpellingCheck(DataCheck):
    """Classes that may be one class written in several ways, and words that stand for a missing label.

    Args:
        noun: what is labelled.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._counts: Counter[str] = Counter()

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Counts its labels."""
        for label in example.labels:
            if label.strip() and (label in self._counts or len(self._counts) < _MAX_LABELS):
                self._counts[label] += 1

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """One for ways of writing, one for missing labels."""
        groups_by_spelling: dict[str, list[str]] = {}
        for label in self._counts:
            groups_by_spelling.setdefault(_normalise_label(label), []).append(label)
        groups = [labels for labels in groups_by_spelling.values() if len(labels) > 1]
        if groups:
            yield CheckResult(
                f"{format_count(sum(map(len, groups)), 'classes')} of {len(self._counts):,} differ only in how they are "
                "written: by case, spaces, quotation marks, the form of a number, or Unicode's forms of a letter",
                [
                    " and ".join(self._format_label(label, labels) for label in labels)
                    for labels in groups[: 2 * MAX_SHOWN]
                ],
                "each is a class of its own to a model: write those alike that mean the same",
            )
        missing = [label for label in self._counts if is_missing_value(label)]
        if missing:
            total = sum(self._counts[label] for label in missing)
            yield CheckResult(
                f"{format_count(total, self._noun)} ({format_percent(total, self._counts.total())}) with a label that may say that "
                f"none is known: {', '.join(map(repr, missing[:5]))}",
                [],
                "a model learns it as a class of its own: take these out unless it is one",
            )

    def _format_label(self, label: str, others: Sequence[str]) -> str:
        """A label with its count; where it looks like another one, with the code points that are not ASCII."""
        normalised = [unicodedata.normalize("NFC", other) for other in others]
        looks_same = normalised.count(unicodedata.normalize("NFC", label)) > 1
        codes = " ".join(f"U+{ord(letter):04X}" for letter in label if not letter.isascii())
        return f"{label!r} {self._counts[label]:,}{f' (with {codes})' if looks_same and codes else ''}"


def _normalise_label(label: str) -> str:
    """What labels have in common that mean the same."""
    number = parse_number(label)
    if number is not None:
        return f"{number:g}"
    plain = "".join(letter for letter in label if unicodedata.category(letter) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", plain).casefold().strip("\"'“”„«»` ").split())


@final
class LabelDistributionCheck(DataCheck):
    """Labels that are rare, that have nearly everything, or that training does not know.

    Args:
        noun: what is labelled.
        label_nouns: what labels are called, in the singular and the plural.
        balanced: whether all should be about as frequent.
    """

    def __init__(self, noun: str, *, label_nouns: tuple[str, str], balanced: bool = True) -> None:
        self._noun = noun
        self._label_nouns = label_nouns
        self._balanced = balanced
        self._counts: dict[DatasetPart, Counter[str]] = {part: Counter() for part in PARTS}
        self._examples: dict[str, str] = {}

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Counts its labels."""
        self._counts[part].update(example.labels)
        for label in example.labels:
            if label not in self._examples and len(self._examples) < 10_000:
                self._examples[label] = format_example(location, example.texts[0], label)

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Of all parts together, since they may be split anew."""
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
                f"{'stands' if len(rare) == 1 else 'stand'} there once or twice: {names}",
                [self._examples[label] for label in rare[:MAX_SHOWN] if label in self._examples],
                "nothing is learned from so few: find more of them, join them with others, or look for typing errors",
            )
        label, max_count = label_counts.most_common(1)[0]
        min_count = min(label_counts.values())
        total = label_counts.total()
        if self._balanced and len(label_counts) > 1 and (max_count > 0.8 * total or max_count > 20 * max(3, min_count)):
            yield CheckResult(
                f"{singular_noun} {label!r} has {max_count:,} of {total:,} {self._noun} ({format_percent(max_count, total)}), the rarest "
                f"{singular_noun} {min_count:,}",
                [],
                "a model that always says the first looks good: compare macro-F1 (training.monitor), and find more "
                "of the others",
            )
        unknown_labels = {label for part in ("validation", "test") for label in self._counts[part]} - {
            *self._counts["train"]
        }
        if unknown_labels and self._counts["train"]:
            names = ", ".join(map(repr, sorted(unknown_labels)[:5]))
            yield CheckResult(
                f"{len(unknown_labels):,} {singular_noun if len(unknown_labels) == 1 else plural_noun} of the data for validation or test "
                f"{'is' if len(unknown_labels) == 1 else 'are'} not in that for training: {names}",
                [self._examples[label] for label in sorted(unknown_labels)[:MAX_SHOWN] if label in self._examples],
                "the model can never say them: check how labels are written",
            )
