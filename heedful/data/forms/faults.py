"""What spoils trainings: each fault is looked for in all examples, counted, shown by two of them, and has a remedy."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from heedful.data.forms.form import Example
from heedful.data.forms.naming import PARTS, Part
from heedful.data.forms.sketch import Sketch, fingerprint
from heedful.data.written_numbers import is_missing, number_in
from heedful.words import singular

_MOST_LABELS: Final = 10_000
"""Different labels that are counted, at most."""
_ONE_LABEL: Final = (
    "there is nothing to tell apart: a model would always say it. Find others, or name another column with --columns"
)
SHOWN: Final = 2
"""Examples of each fault."""
_SNIPPET: Final = 70
FEW: Final = 0.001
"""Share of examples up to which some faults are not worth a word."""
UNREADABLE: Final = re.compile("\ufffd")
MISREAD: Final = re.compile("Ã[\u0080-\u00bf\u0152-\u0192\u2013-\u2122]|â€|Â[\u00a0-\u00bf]|Ð[\u0080-\u00bf]")
MARKUP: Final = re.compile(
    r"&(amp|lt|gt|quot|nbsp|apos|#\d+|#x[0-9a-fA-F]+);|</?(p|b|i|br|div|span|a|li|ul|td|tr)\b[^<>]*>"
)
CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_WIDE: Final = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0eff]")


@dataclass(frozen=True)
class Remark:
    """A fault that was found.

    Attributes:
        sentence: what, and how often.
        shown: some of the examples, each with its place.
        remedy: what to do about it.
    """

    sentence: str
    shown: Sequence[str]
    remedy: str


class Fault(ABC):
    """Looks for one thing in examples.

    Abstract: each knows what. Parts come one after the other, those that are measured on first, then training.
    """

    @abstractmethod
    def see(self, example: Example, part: Part, place: str) -> None:
        """One example, and where it stands (`file:line`)."""

    @abstractmethod
    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """What was found, once all examples were seen; `counts` are those of each part."""


def show(place: str, *texts: str) -> str:
    """An example on one line: its place and the beginnings of its texts."""
    return f"{place}: {' | '.join(_short(text) or '(empty)' for text in texts)}"


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _SNIPPET else f"{plain[:_SNIPPET]}..."


def percent(count: int, whole: int) -> str:
    """A share in words."""
    share = 100 * count / max(1, whole)
    return f"{share:.1f} %" if share >= 0.1 or not count else "less than 0.1 %"


def counted(count: int, noun: str) -> str:
    """A number of things that are called so in the plural."""
    return f"{count:,} {noun if count != 1 else singular(noun)}"


def tokens_in(text: str) -> int:
    """About how many tokens a text becomes: one for four letters, one for each of languages without spaces."""
    wide = len(_WIDE.findall(text))
    words = 0 if wide else len(text.split())
    return wide + max(words, -(-(len(text) - wide) // 4))


class Counted(Fault):
    """Examples that are at fault, each for itself; what is worth a word is told for all parts together."""

    least: float = 0.0

    def __init__(self) -> None:
        self._count = 0
        self._shown: list[str] = []

    @final
    def see(self, example: Example, part: Part, place: str) -> None:
        """Counts it, and keeps the first ones."""
        texts = self._faulty(example)
        if texts is None:
            return
        self._count += 1
        if len(self._shown) < SHOWN:
            self._shown.append(show(place, *texts))

    @final
    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """One, where there are enough."""
        whole = sum(counts.values())
        if self._count and self._count >= self.least * whole:
            sentence, remedy = self._told(self._count, percent(self._count, whole))
            yield Remark(sentence, self._shown, remedy)

    @abstractmethod
    def _faulty(self, example: Example) -> Sequence[str] | None:
        """What is shown of an example that is at fault."""

    @abstractmethod
    def _told(self, count: int, share: str) -> tuple[str, str]:
        """The sentence and the remedy."""


@final
class Empty(Counted):
    """Nothing where a text or a label should be."""

    def __init__(self, noun: str, *, fatal: bool) -> None:
        super().__init__()
        self._noun = noun
        self._fatal = fatal

    def _faulty(self, example: Example) -> Sequence[str] | None:
        bare = not all(text.strip() for text in example.texts) or not all(label.strip() for label in example.labels)
        return (*example.texts, *example.labels[:1]) if bare else None

    def _told(self, count: int, share: str) -> tuple[str, str]:
        remedy = (
            "training stops at them: they are left out of files that are written now, take them out of others"
            if self._fatal
            else "training leaves them out"
        )
        return f"{counted(count, self._noun)} ({share}) with an empty text or label", remedy


@final
class Garbled(Fault):
    """Traces of a wrong encoding or of another format."""

    _KINDS: Final = (
        (
            UNREADABLE,
            "a sign for an unreadable character (U+FFFD)",
            "an earlier conversion lost letters: convert the original again",
            0.0,
        ),
        (
            MISREAD,
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
            CONTROL,
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
        self._counts = [0] * len(self._KINDS)
        self._shown: list[list[str]] = [[] for _ in self._KINDS]

    def see(self, example: Example, part: Part, place: str) -> None:
        """Counts each kind once an example."""
        for number, (pattern, *_) in enumerate(self._KINDS):
            found = next((text for text in example.texts if pattern.search(text)), None)
            if found is not None:
                self._counts[number] += 1
                if len(self._shown[number]) < SHOWN:
                    self._shown[number].append(show(place, found))

    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """One for each kind."""
        whole = sum(counts.values())
        for (_, what, remedy, least), count, shown in zip(self._KINDS, self._counts, self._shown, strict=True):
            if count and count >= least * whole:
                yield Remark(f"{counted(count, self._noun)} ({percent(count, whole)}) with {what}", shown, remedy)


@dataclass(slots=True)
class _First:
    """What came first with a text: its place, the rest of it, and whether another rest came."""

    place: str
    rest: int
    conflicting: bool = False


@final
class Repeated(Fault):
    """Examples that stand there twice, and texts of which different things are said, in what is learned from.

    Args:
        noun: what examples are called.
        called: what the texts of which different things may be said are called.
        conflict: what is to be told of such; empty where that is nothing.
        remedy: what to do about those.
        least: share of examples up to which these are not worth a word.
        limit: different texts that are remembered; more than that, and numbers are estimated.
    """

    def __init__(
        self,
        noun: str,
        *,
        called: str = "texts",
        conflict: str = "",
        remedy: str = "",
        least: float = 0.0,
        limit: int = 2**19,
    ) -> None:
        self._noun = noun
        self._called = called
        self._conflict = (conflict, remedy, least)
        self._firsts: Sketch[_First] = Sketch(limit)
        self._whole: Sketch[str] = Sketch(limit)
        self._again: Sketch[int] = Sketch(limit)
        self._shown: tuple[list[str], list[str]] = ([], [])

    def see(self, example: Example, part: Part, place: str) -> None:
        """Compares it with what came before."""
        if part != "train":
            return
        mark, rest = _apart(example)
        whole = fingerprint(*example.texts, *example.labels)
        if self._whole.takes(whole):
            before = self._whole.get(whole)
            if before is None:
                self._whole.put(whole, place)
            else:
                self._again.put(whole, (self._again.get(whole) or 0) + 1)
                keep(self._shown[0], show(f"{place} (as {_line(before)})", *example.texts[:2]))
        if self._conflict[0] and self._firsts.takes(mark):
            first = self._firsts.get(mark)
            if first is None:
                self._firsts.put(mark, _First(place, rest))
            elif first.rest != rest and not first.conflicting:
                first.conflicting = True
                keep(
                    self._shown[1], show(f"{place} (and {_line(first.place)})", *example.texts[:2], *example.labels[:1])
                )

    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """What is there twice, then what contradicts itself."""
        whole = counts.get("train", 0)
        known = [count for mark, count in self._again.items() if self._whole.takes(mark)]
        again = round(sum(known) / self._whole.share)
        about = "" if self._whole.share == 1 else "about "
        if again > FEW * whole:
            yield Remark(
                f"{about}{again:,} of {whole:,} {self._noun} ({percent(again, whole)}) for training repeat another one",
                self._shown[0],
                "they count for more than others; leave it so if that is how often such texts come, else take them out",
            )
        words, remedy, least = self._conflict
        several = round(sum(first.conflicting for _, first in self._firsts.items()) / self._firsts.share)
        about = "" if self._firsts.share == 1 else "about "
        if several and several > least * whole:
            yield Remark(f"{about}{counted(several, self._called)} {words}", self._shown[1], remedy)


def _apart(example: Example) -> tuple[int, int]:
    """What is read, and what is to be said of it."""
    if example.labels:
        return fingerprint(*example.texts), fingerprint(*example.labels)
    return fingerprint(example.texts[0]), fingerprint(*example.texts[1:])


def _line(place: str) -> str:
    number = place.rpartition(":")[2]
    return f"line {number}" if number.isdecimal() else place


def keep(shown: list[str], text: str) -> None:
    """Adds an example to be shown, as long as there are few."""
    if len(shown) < SHOWN:
        shown.append(text)


@final
class Leaked(Fault):
    """Texts that are measured on and learned from.

    Args:
        limit: texts of a part that are remembered.
    """

    def __init__(self, *, limit: int = 2**19) -> None:
        self._limit = limit
        self._places: dict[Part, dict[int, str]] = {"test": {}, "validation": {}}
        self._found: dict[tuple[Part, Part], dict[int, str]] = {}

    def see(self, example: Example, part: Part, place: str) -> None:
        """Compares it with those of parts that came before."""
        mark = fingerprint(example.keys[0])
        shown = example.keys[0]
        for earlier, places in self._places.items():
            found = self._found.setdefault((earlier, part), {})
            if earlier != part and mark in places and mark not in found:
                found[mark] = show(f"{places[mark]} (as {place})", shown)
        if part in self._places and len(self._places[part]) < self._limit:
            self._places[part].setdefault(mark, place)

    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """One for each two parts that share texts."""
        for (earlier, later), found in self._found.items():
            if found:
                whole = len(self._places[earlier])
                stand = "stands" if len(found) == 1 else "stand"
                yield Remark(
                    f"{len(found):,} of the {whole:,} different texts for {earlier} ({percent(len(found), whole)}) "
                    f"{stand} in the data for {'training' if later == 'train' else later} too",
                    list(found.values())[:SHOWN],
                    "what the model has seen makes it look better than it is: take them out of one of the parts, or "
                    "name one file alone and let heedful new split it",
                )


@final
class Constant(Fault):
    """Numbers that are all the same.

    Args:
        noun: what they are said of.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._values: set[float] = set()

    def see(self, example: Example, part: Part, place: str) -> None:
        """Keeps different ones, up to two."""
        if len(self._values) < 2:
            self._values.update(value for value in map(number_in, example.labels) if value is not None)

    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """One, where there is one number alone."""
        if len(self._values) == 1:
            yield Remark(f"all {self._noun} have the number {min(self._values):g}", [], _ONE_LABEL)


@final
class Spellings(Fault):
    """Classes that may be one class written in several ways, and words that stand for a missing label.

    Args:
        noun: what is labelled.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._counts: Counter[str] = Counter()

    def see(self, example: Example, part: Part, place: str) -> None:
        """Counts its labels."""
        for label in example.labels:
            if label.strip() and (label in self._counts or len(self._counts) < _MOST_LABELS):
                self._counts[label] += 1

    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """One for ways of writing, one for missing labels."""
        alike: dict[str, list[str]] = {}
        for label in self._counts:
            alike.setdefault(_spelling(label), []).append(label)
        groups = [labels for labels in alike.values() if len(labels) > 1]
        if groups:
            yield Remark(
                f"{counted(sum(map(len, groups)), 'classes')} of {len(self._counts):,} differ only in how they are "
                "written: by case, spaces, quotation marks, the form of a number, or Unicode's forms of a letter",
                [" and ".join(self._shown(label, labels) for label in labels) for labels in groups[: 2 * SHOWN]],
                "each is a class of its own to a model: write those alike that mean the same",
            )
        missing = [label for label in self._counts if is_missing(label)]
        if missing:
            total = sum(self._counts[label] for label in missing)
            yield Remark(
                f"{counted(total, self._noun)} ({percent(total, self._counts.total())}) with a label that may say that "
                f"none is known: {', '.join(map(repr, missing[:5]))}",
                [],
                "a model learns it as a class of its own: take these out unless it is one",
            )

    def _shown(self, label: str, others: Sequence[str]) -> str:
        """A label with its count; where it looks like another one, with the code points that are not ASCII."""
        looks = [unicodedata.normalize("NFC", other) for other in others]
        hidden = looks.count(unicodedata.normalize("NFC", label)) > 1
        codes = " ".join(f"U+{ord(letter):04X}" for letter in label if not letter.isascii())
        return f"{label!r} {self._counts[label]:,}{f' (with {codes})' if hidden and codes else ''}"


def _spelling(label: str) -> str:
    """What labels have in common that mean the same."""
    number = number_in(label)
    if number is not None:
        return f"{number:g}"
    plain = "".join(letter for letter in label if unicodedata.category(letter) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", plain).casefold().strip("\"'“”„«»` ").split())


@final
class Labels(Fault):
    """Labels that are rare, that have nearly everything, or that training does not know.

    Args:
        noun: what is labelled.
        what: what labels are called, in the singular and the plural.
        balanced: whether all should be about as frequent.
    """

    def __init__(self, noun: str, *, what: tuple[str, str], balanced: bool = True) -> None:
        self._noun = noun
        self._what = what
        self._balanced = balanced
        self._counts: dict[Part, Counter[str]] = {part: Counter() for part in PARTS}
        self._shown: dict[str, str] = {}

    def see(self, example: Example, part: Part, place: str) -> None:
        """Counts its labels."""
        self._counts[part].update(example.labels)
        for label in example.labels:
            if label not in self._shown and len(self._shown) < 10_000:
                self._shown[label] = show(place, example.texts[0], label)

    def remarks(self, counts: Mapping[Part, int]) -> Iterator[Remark]:
        """Of all parts together, since they may be split anew."""
        one, many = self._what
        given: Counter[str] = sum(self._counts.values(), Counter())
        if not given:
            return
        if len(given) == 1 and self._balanced:
            yield Remark(f"all {self._noun} have the {one} {next(iter(given))!r}", [], _ONE_LABEL)
            return
        rare = [label for label, count in given.items() if count <= 2]
        if rare:
            named = ", ".join(repr(label) for label in rare[:5]) + (" ..." if len(rare) > 5 else "")
            yield Remark(
                f"{len(rare):,} {one if len(rare) == 1 else many} of {len(given):,} "
                f"{'stands' if len(rare) == 1 else 'stand'} there once or twice: {named}",
                [self._shown[label] for label in rare[:SHOWN] if label in self._shown],
                "nothing is learned from so few: find more of them, join them with others, or look for typing errors",
            )
        label, most = given.most_common(1)[0]
        least = min(given.values())
        whole = given.total()
        if self._balanced and len(given) > 1 and (most > 0.8 * whole or most > 20 * max(3, least)):
            yield Remark(
                f"{one} {label!r} has {most:,} of {whole:,} {self._noun} ({percent(most, whole)}), the rarest "
                f"{one} {least:,}",
                [],
                "a model that always says the first looks good: compare macro-F1 (training.monitor), and find more "
                "of the others",
            )
        strange = {label for part in ("validation", "test") for label in self._counts[part]} - {*self._counts["train"]}
        if strange and self._counts["train"]:
            named = ", ".join(map(repr, sorted(strange)[:5]))
            yield Remark(
                f"{len(strange):,} {one if len(strange) == 1 else many} of the data for validation or test "
                f"{'is' if len(strange) == 1 else 'are'} not in that for training: {named}",
                [self._shown[label] for label in sorted(strange)[:SHOWN] if label in self._shown],
                "the model can never say them: check how labels are written",
            )
