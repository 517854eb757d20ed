"""Checks for problems that harm training: each looks at all examples, counts a problem, shows two examples of it,
and suggests a remedy. Those that judge one example alone also filter pairs.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, final

from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import CheckResult, DataCheck, DatasetExample
from heedful.data.detect.hash_sample import HashSample, hash_texts
from heedful.english_words import to_singular

Measure = TypeVar("Measure", bound=Hashable)
MAX_SHOWN: Final = 2
"""Number of examples shown for each problem."""
_MAX_SNIPPET: Final = 70
RARE_SHARE: Final = 0.001
"""Share of examples up to which some problems are not reported."""
_WIDE_CHARACTERS: Final = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0eff]")


def format_example(location: str, *texts: str) -> str:
    """Return an example as one line for a report: its location and the beginnings of its texts."""
    return f"{location}: {' | '.join(_shorten(text) or '(empty)' for text in texts)}"


def _shorten(text: str) -> str:
    """Return the beginning of a text on one line."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _MAX_SNIPPET else f"{plain[:_MAX_SNIPPET]}..."


def append_if_few(examples: list[str], text: str) -> None:
    """Append the text of an example to those to show, while there are fewer than two."""
    if len(examples) < MAX_SHOWN:
        examples.append(text)


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


class TextCheck(ABC, Generic[Measure]):
    """Base of checks that judge the texts of one example: `heedful filter` drops the pairs that have a fault, and
    `heedful new` counts the examples that have it (`FaultCounter`).

    Abstract. A check measures texts; whether a value is a fault may depend on the values of all examples.

    Attributes:
        name: its name on the command line of `heedful filter`; empty if the command does not have it.
        description: what it finds, in words that follow "pairs".
        problem: the same in the report of `heedful new`.
        remedy: what to do about it.
        min_share: share of all examples above which `heedful new` reports it.
        needs_all: whether what is a fault depends on the values of all examples.
        remembers: whether the value of an example depends on the examples before it.
        judges_labels: whether labels are judged as well as texts.
    """

    name: str = ""
    description: str
    problem: str = ""
    remedy: str = ""
    min_share: float = 0.0
    needs_all: bool = False
    remembers: bool = False
    judges_labels: bool = False

    @abstractmethod
    def measure(self, texts: Sequence[str]) -> Measure | None:
        """Return the value by which the texts of an example are judged; None if they have no fault."""

    def measure_batch(self, examples: Sequence[Sequence[str]]) -> Sequence[Measure | None]:
        """Return what `measure` returns for the texts of each example, in order. Subclasses may override this with a
        faster implementation.
        """
        return [self.measure(texts) for texts in examples]

    def find_faults(self, counts: Counter[Measure]) -> Sequence[Measure]:
        """Return the values that are faults, the worst first; all by default. `counts` says how often each value was
        measured.

        Args:
            counts: how often each value was measured.
        """
        return list(counts)

    def get_shown_texts(self, example: DatasetExample) -> Sequence[str]:
        """Return the texts of an example that show its fault."""
        return example.texts


@final
class FaultCounter(DataCheck, Generic[Measure]):
    """Counts the examples in which a check finds a fault, in all parts together.

    Args:
        check: the check.
        noun: what examples are called.
    """

    def __init__(self, check: TextCheck[Measure], noun: str) -> None:
        self._check = check
        self._noun = noun
        self._counts = Counter[Measure]()
        self._examples: dict[Measure, list[str]] = {}

    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Count the value that the check measures for the example, and keep the first ones with this value to show with
        their location.
        """
        self.add_measured(example, part, location, value=self.measure(example.texts, example.labels))

    def measure(self, texts: Sequence[str], labels: Sequence[str]) -> Measure | None:
        """Return the value that the check measures for an example."""
        return self._check.measure((*texts, *labels) if self._check.judges_labels else texts)

    def add_measured(self, example: DatasetExample, part: DatasetPart, location: str, *, value: Measure | None) -> None:
        """Count the value that was measured for the example, as `add_example` does."""
        if value is not None:
            self._counts[value] += 1
            append_if_few(
                self._examples.setdefault(value, []),
                format_example(location, *self._check.get_shown_texts(example)),
            )

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield one result if the share of examples with a fault exceeds the check's `min_share`; `counts` has the
        number of examples of each part.
        """
        faults, total = self._check.find_faults(self._counts), sum(counts.values())
        count = sum(self._counts[value] for value in faults)
        if count > self._check.min_share * total:
            yield CheckResult(
                f"{format_count(count, self._noun)} ({format_percent(count, total)}) {self._check.problem}",
                [example for value in faults for example in self._examples[value]][:MAX_SHOWN],
                self._check.remedy,
            )


def count_faults(noun: str, *checks: TextCheck[Any]) -> Sequence[DataCheck]:
    """Return a counter of the faults that each check finds; `noun` is what examples are called."""
    return [FaultCounter(check, noun) for check in checks]


@final
class EmptyTextCheck(TextCheck[bool]):
    """Finds examples with an empty text, or an empty label in `heedful new`; `fatal` says whether training stops at
    them.
    """

    name, description, problem = "empty", "with an empty side", "with an empty text or label"
    judges_labels = True

    def __init__(self, *, fatal: bool = False) -> None:
        self.remedy = (
            "training stops at them: files that are written now leave them out, take them out of others"
            if fatal
            else "training leaves them out"
        )

    def measure(self, texts: Sequence[str]) -> bool | None:
        """Return True if a text is empty."""
        return None if all(map(str.strip, texts)) else True

    def get_shown_texts(self, example: DatasetExample) -> Sequence[str]:
        """Return the texts and the first label."""
        return (*example.texts, *example.labels[:1])


@final
class PatternCheck(TextCheck[bool]):
    """Finds texts that match a pattern of damage.

    Args:
        pattern: the pattern.
        problem: what it finds in the report of `heedful new`, which tells each trace of a wrong encoding apart.
        remedy: what to do about it.
        min_share: share of all examples above which `heedful new` reports it.
        name: name of the rule of `heedful filter`, which has one for all traces of a wrong encoding.
        description: what the rule finds.
    """

    def __init__(
        self,
        pattern: re.Pattern[str],
        *,
        problem: str = "",
        remedy: str = "",
        min_share: float = 0.0,
        name: str = "",
        description: str = "",
    ) -> None:
        self._pattern = pattern
        self.problem, self.remedy, self.min_share = problem, remedy, min_share
        self.name, self.description = name, description or problem

    def measure(self, texts: Sequence[str]) -> bool | None:
        """Return True if a text matches."""
        return True if any(map(self._pattern.search, texts)) else None

    def get_shown_texts(self, example: DatasetExample) -> Sequence[str]:
        """Return the first text that matches."""
        return [text for text in example.texts if self._pattern.search(text)][:1]


_REPLACEMENT_CHARACTER: Final = "\ufffd"
_MOJIBAKE: Final = "Ã[\u0080-\u00bf\u0152-\u0192\u2013-\u2122]|â€|Â[\u00a0-\u00bf]|Ð[\u0080-\u00bf]"
_CONTROL_CHARACTERS: Final = "[\x00-\x08\x0b-\x1f\x7f]"
GARBLED_TEXT: Final = PatternCheck(
    re.compile(f"{_REPLACEMENT_CHARACTER}|{_MOJIBAKE}|{_CONTROL_CHARACTERS}"),
    name="garbled",
    description="with traces of a wrong encoding, or control characters",
)
HTML_REMAINS: Final = PatternCheck(  # which translators' files have on purpose
    re.compile(r"&(amp|lt|gt|quot|nbsp|apos|#\d+|#x[0-9a-fA-F]+);|</?(p|b|i|br|div|span|a|li|ul|td|tr)\b[^<>]*>"),
    problem="with remains of HTML",
    remedy="the model learns to write and read them: take them out, as with Python's html.unescape",
    name="html",
)
ENCODING_CHECKS: Final = (
    PatternCheck(
        re.compile(_REPLACEMENT_CHARACTER),
        problem="with a sign for an unreadable character (U+FFFD)",
        remedy="an earlier conversion lost letters: convert the original again",
    ),
    PatternCheck(
        re.compile(_MOJIBAKE),
        problem="with letters such as Ã¼ where ü is meant",
        remedy="UTF-8 was read as Windows-1252 and saved again: convert back with iconv -f UTF-8 -t CP1252",
    ),
    HTML_REMAINS,
    PatternCheck(
        re.compile(_CONTROL_CHARACTERS),
        problem="with control characters",
        remedy="they are invisible, but the model learns them: take them out, as with tr -d '\\000-\\010\\013-\\037'",
    ),
    PatternCheck(
        re.compile('(?<!")""(?!")'),
        problem="with doubled quotes, as in fields of CSV",
        remedy="the table was CSV once, but tables with tabs have no quotes here: save it as CSV, or take the quotes "
        "out",
        min_share=0.005,
    ),
)
"""Checks for traces of a wrong encoding or of another file format, each of which is reported by itself."""


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
        """Compare a training example at `location` with the earlier ones, by its input and by input and output;
        examples of other parts are ignored.
        """
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
        """Yield a result for the repeated examples, then one for the inputs with different outputs, if they are
        frequent enough; `counts` has the number of examples of each part.
        """
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
    """Return the hashes of the input and the output of an example: its texts and its labels, or without labels the
    first text and the others.
    """
    if example.labels:
        return hash_texts(*example.texts), hash_texts(*example.labels)
    return hash_texts(example.texts[0]), hash_texts(*example.texts[1:])


def _format_line(location: str) -> str:
    """Return the line of a location in words."""
    number = location.rpartition(":")[2]
    return f"line {number}" if number.isdecimal() else location


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
        """Compare the text of an example, its first split key, with those of the earlier parts, and remember it with
        its location if the part is test or validation.
        """
        text_hash = hash_texts(example.split_keys[0])
        text = example.split_keys[0]
        for earlier, locations in self._locations.items():
            leaks = self._leaks.setdefault((earlier, part), {})
            if earlier != part and text_hash in locations and text_hash not in leaks:
                leaks[text_hash] = format_example(f"{locations[text_hash]} (as {location})", text)
        if part in self._locations and len(self._locations[part]) < self._limit:
            self._locations[part].setdefault(text_hash, location)

    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield one result for each two parts that share texts; `counts` is not used."""
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
