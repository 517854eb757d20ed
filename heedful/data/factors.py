"""What is known of the words of a source besides which they are: the case of their letters, or labels beside them.

A label stands behind its word with U+FFE8 between, and several behind each other, each with one before it; so a
sentence with labels is one text wherever sentences are. A piece has the number of the word that it begins in.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import tee, zip_longest
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeAlias, final

import numpy as np
from jaxtyping import Int

from heedful.characters import combining_marks
from heedful.data.labels import Labels
from heedful.data.offsets import offsets
from heedful.data.readers import Pair, Reader, read_lines
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RunError
from heedful.files import read_json
from heedful.store import write_whole

SEPARATOR: Final = "\N{HALFWIDTH FORMS LIGHT VERTICAL}"
"""Stands between a word and its labels."""
FACTORS: Final = "factors"
"""The side of a corpus that holds those of source pieces."""

_FORMAT: Final = 1
_SHOWN: Final = 60
"""Letters of a sentence in a message."""
_WORD: Final = re.compile(r"\S+")

Span: TypeAlias = tuple[int, int, int]
"""Start and stop of a part of a text, in characters, and a number."""


class Factor(ABC):
    """What is known of each word, as one of a few numbers; 0 where that is nothing.

    Attributes:
        given: whether it is a label beside the word; otherwise the text itself tells it.
        folds: whether the text is read in lower case, since the factor knows the case.
    """

    given: ClassVar[bool] = False
    folds: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size} numbers)"

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers there are."""

    @abstractmethod
    def spans(self, text: str, labels: Sequence[str]) -> Iterator[Span]:
        """The parts of a text of which something is known, one after the other.

        Args:
            text: without labels.
            labels: of its words, where they are given.
        """

    def save(self, path: Path) -> None:
        """One file that `load_factor` reads, written whole or not at all; `RunError` where it cannot."""
        content = {"format": _FORMAT, **self._content()}
        write_whole(path, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())

    @abstractmethod
    def _content(self) -> Mapping[str, Any]: ...


@final
class Case(Factor):
    """Of each run of letters: lower, Title, UPPER or mixed case; 0 for letters without case, digits and marks.

    A single capital letter is Title.
    """

    folds: ClassVar[bool] = True
    names: ClassVar = ("", "lower", "title", "upper", "mixed")

    @property
    def size(self) -> int:
        """Five."""
        return len(self.names)

    def spans(self, text: str, labels: Sequence[str]) -> Iterator[Span]:
        """Of runs of letters that have case."""
        for run in _letters().finditer(text):
            if name := _case(run[0]):
                yield *run.span(), self.names.index(name)

    def _content(self) -> Mapping[str, Any]:
        return {"kind": "case"}


@cache
def _letters() -> re.Pattern[str]:
    """Letters and their accents, with apostrophes inside."""
    return re.compile(rf"[^\W\d_](?:[^\W\d_]|[{combining_marks()}]|['\u2019](?=[^\W\d_]))*")


def _case(run: str) -> str:
    letters = [letter for letter in run if letter.isupper() or letter.islower() or letter.istitle()]
    if not letters:
        return ""
    first, *others = (letter.islower() for letter in letters)
    if all(others):
        return "lower" if first else "title"
    return "upper" if not first and not any(others) else "mixed"


@final
class Given(Factor):
    """A label beside each word; 0 for one that the training text lacks.

    Args:
        labels: those that it has.
    """

    given: ClassVar[bool] = True

    def __init__(self, labels: Labels) -> None:
        self.labels = labels

    @property
    def size(self) -> int:
        """One more than there are labels."""
        return self.labels.size + 1

    def spans(self, text: str, labels: Sequence[str]) -> Iterator[Span]:
        """Of words between white space."""
        for word, label in zip(_WORD.finditer(text), labels, strict=True):
            known = self.labels.id(label)
            yield *word.span(), 0 if known is None else known + 1

    def _content(self) -> Mapping[str, Any]:
        return {"kind": "given", "labels": self.labels.names}


def load_factor(path: Path) -> Factor:
    """The factor that `Factor.save` wrote; `RunError` where there is none."""
    try:
        record = read_json(path)
        version, kind, labels = record["format"], record["kind"], record.get("labels", [])
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); is the run complete?") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(f"{path}: holds no factor; restore it or train again") from None
    if version != _FORMAT:
        raise RunError(f"{path}: factor format {version!r}, but this heedful reads {_FORMAT}; train again")
    if kind == "case":
        return Case()
    if kind != "given" or not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
        raise RunError(f"{path}: holds no factor; restore it or train again")
    return Given(Labels(labels))


def parted(text: str, names: Sequence[str]) -> tuple[str, list[tuple[str, ...]]]:
    """A text without its labels, and those of each word.

    Args:
        text: words with a label for each of the names behind them; of none the text is as it is.
        names: what the labels say.

    Raises:
        DataError: a word has more or fewer.
    """
    if not names:
        return text, []
    labels = []

    def bare(word: re.Match[str]) -> str:
        found, *own = word[0].split(SEPARATOR)
        if len(own) != len(names) or not found or not all(own):
            raise DataError(
                f"{word[0]!r} is not {SEPARATOR.join(['word', *names])}: this model reads labels behind each word, "
                "with U+FFE8 between; write them there, or give them in a file of their own"
            )
        labels.append(tuple(own))
        return found

    return _WORD.sub(bare, text), labels


def labelled(text: str, labels: str, *, place: str) -> str:
    """A text whose words have labels behind them.

    Args:
        text: words between white space.
        labels: a label for each word, or several with a separator between them, likewise.
        place: where the labels stand.

    Raises:
        DataError: there are more or fewer labels than words, or a word has the separator in itself.
    """
    words, found = text.split(), labels.split()
    if len(words) != len(found):
        raise DataError(
            f"{place}: has {len(found)} labels, and its sentence {len(words)} words between white space, "
            f"{text[:_SHOWN]!r}; give each word one"
        )
    if SEPARATOR in text:
        raise DataError(
            f"{place}: its sentence has labels already, or U+FFE8 in a word: {text[:_SHOWN]!r}; take it out"
        )
    each = iter(found)
    return _WORD.sub(lambda word: f"{word[0]}{SEPARATOR}{next(each)}", text)


def labelled_lines(texts: Iterable[str], path: Path, *, of: str) -> Iterator[str]:
    """Texts with labels, which a file has line by line; `DataError` where a line does not fit its text.

    Args:
        texts: one for each line; empty ones have an empty line.
        path: the file.
        of: what the texts are, in words.
    """
    both = zip_longest(texts, read_lines(path))
    for number, (text, line) in enumerate(both, 1):
        if text is None or line is None:
            more, fewer = ("lines", of) if text is None else (of, "lines")
            raise DataError(
                f"{path}: has {'more' if text is None else 'fewer'} lines than there are {of} ({number - 1:,} {fewer} "
                f"and more {more}); give the labels of each a line"
            )
        yield labelled(text, line, place=f"{path}:{number}")


@final
class Beside(Reader[Pair]):
    """Pairs whose source words have labels, which a file has line by line, one for each pair that is read.

    Args:
        pairs: the text.
        path: the file of labels.

    Raises:
        DataError: as the text's reader; the labels do not fit the words, or the lines the pairs.
    """

    def __init__(self, pairs: Reader[Pair], path: Path) -> None:
        super().__init__(*pairs.paths, path)
        self._pairs = pairs

    def __iter__(self) -> Iterator[Pair]:
        pairs, read = tee(self._pairs)
        sources = labelled_lines((pair.source for pair in read), self.paths[-1], of="pairs")
        return (pair._replace(source=source) for source, pair in zip(sources, pairs, strict=True))


@final
@dataclass(frozen=True, eq=False)
class Encoded:
    """A text as a model reads it, without its end.

    Attributes:
        ids: of its pieces.
        factors: numbers of each piece; None where there are none.
    """

    ids: list[int]
    factors: Int[np.ndarray, "T F"] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def up_to(self, count: int) -> Encoded:
        """Its first pieces."""
        return Encoded(self.ids[:count], None if self.factors is None else self.factors[:count])


@final
@dataclass(frozen=True)
class Reading:
    """How texts are read: by a tokenizer, with factors.

    Attributes:
        tokenizer: which is `Tokenizer.folded` where a factor knows the case.
        factors: by their names.
    """

    tokenizer: Tokenizer
    factors: Mapping[str, Factor]

    def opened(self, tags: Sequence[str]) -> Self:
        """With tags before each text; see `Tokenizer.opened`."""
        return type(self)(self.tokenizer.opened(tags), self.factors)

    def plain(self, text: str) -> str:
        """The text without labels; `DataError` where a word has more or fewer than there are factors of this kind."""
        return parted(text, self.given)[0]

    @cached_property
    def given(self) -> tuple[str, ...]:
        """The factors that are labels beside words."""
        return tuple(name for name, factor in self.factors.items() if factor.given)

    def encode(self, text: str) -> Encoded:
        """Pieces and what is known of each.

        Raises:
            DataError: the text is not valid Unicode, its labels are not those that are read, or its pieces are not
                found again in it (`offsets`).
        """
        plain, labels = parted(text, self.given)
        ids = self.tokenizer.encode(plain)
        if not self.factors:
            return Encoded(ids)
        places = offsets(self.tokenizer, plain)
        numbers = np.zeros((len(places), len(self.factors)), dtype=np.int64)
        for column, (name, factor) in enumerate(self.factors.items()):
            own = [each[self.given.index(name)] for each in labels] if factor.given else []
            numbers[:, column] = _numbers(places, list(factor.spans(plain, own)))
        return Encoded(ids, numbers)

    def surfaces(self, text: str) -> list[str]:
        """What of a text each piece stands for; as it is written where it is read in lower case."""
        plain = self.plain(text)
        if not any(factor.folds for factor in self.factors.values()):
            return self.tokenizer.surfaces(plain)
        return [plain[start:stop] for start, stop in offsets(self.tokenizer, plain)]


def _numbers(places: Sequence[tuple[int, int]], spans: Sequence[Span]) -> list[int]:
    """For each piece the number of the first span that it is in; 0 where it is in none."""
    found, at = [], 0
    for start, stop in places:
        while at < len(spans) and spans[at][1] <= start:
            at += 1
        found.append(spans[at][2] if at < len(spans) and spans[at][0] < stop else 0)
    return found
