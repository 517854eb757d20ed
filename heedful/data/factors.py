"""Source factors: features of each word besides its identity, such as its case or labels given with it.

A label follows its word after the separator U+FFE8, and further labels follow the same way; so a sentence with labels
is one text wherever sentences are used. A piece gets the factor of the word in which it begins.
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

from heedful.atomic_io import write_atomic
from heedful.characters import combining_marks
from heedful.data.labels import LabelVocabulary
from heedful.data.readers import ExampleReader, SentencePair, read_lines
from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RunError
from heedful.files import read_json

LABEL_SEPARATOR: Final = "\N{HALFWIDTH FORMS LIGHT VERTICAL}"
"""Separates a word from its labels."""
FACTORS_SIDE: Final = "factors"
"""Name of the corpus side that holds the factors of source pieces."""

_FILE_FORMAT: Final = 1
_MAX_SHOWN_CHARACTERS: Final = 60
"""Number of characters of a sentence shown in a message."""
_WORD: Final = re.compile(r"\S+")

NumberedSpan: TypeAlias = tuple[int, int, int]
"""Start and stop of a part of a text, in characters, and the factor's number for it."""


class Factor(ABC):
    """A feature of each word, as a number below `size`; 0 means no value.

    Attributes:
        is_given: whether it is a label given with each word; otherwise it is computed from the text.
        lowercases: whether the text is lowercased, since the factor holds the case.
    """

    is_given: ClassVar[bool] = False
    lowercases: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size} numbers)"

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers there are."""

    @abstractmethod
    def iter_spans(self, text: str, labels: Sequence[str]) -> Iterator[NumberedSpan]:
        """Yield start, stop and number of the parts of a text that have a value, in order; `labels` has the label of
        each word if labels are given.

        Args:
            text: the text without labels.
            labels: the label of each word, if labels are given.
        """

    def save(self, path: Path) -> None:
        """Write the factor to a file that `load_factor` reads, atomically; raise `RunError` if that fails."""
        content = {"format": _FILE_FORMAT, **self._to_json()}
        write_atomic(path, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())

    @abstractmethod
    def _to_json(self) -> Mapping[str, Any]: ...


@final
class CaseFactor(Factor):
    """The case of each run of letters: lower, Title, UPPER or mixed; 0 for letters without case, digits and marks.

    A single capital letter is Title.
    """

    lowercases: ClassVar[bool] = True
    case_names: ClassVar = ("", "lower", "title", "upper", "mixed")

    @property
    def size(self) -> int:
        """Five."""
        return len(self.case_names)

    def iter_spans(self, text: str, labels: Sequence[str]) -> Iterator[NumberedSpan]:
        """Yield start, stop and the number of the case of the runs of letters that have case; `labels` is not used."""
        for match in _get_letters_pattern().finditer(text):
            if name := _classify_case(match[0]):
                yield *match.span(), self.case_names.index(name)

    def _to_json(self) -> Mapping[str, Any]:
        return {"kind": "case"}


@cache
def _get_letters_pattern() -> re.Pattern[str]:
    """Return the pattern of a run of letters with their accents and inner apostrophes."""
    return re.compile(rf"[^\W\d_](?:[^\W\d_]|[{combining_marks()}]|['\u2019](?=[^\W\d_]))*")


def _classify_case(run: str) -> str:
    """Return the case of a run of letters: lower, title, upper or mixed; empty if its letters have no case."""
    letters = [letter for letter in run if letter.isupper() or letter.islower() or letter.istitle()]
    if not letters:
        return ""
    first_is_lower, *others = (letter.islower() for letter in letters)
    if all(others):
        return "lower" if first_is_lower else "title"
    return "upper" if not first_is_lower and not any(others) else "mixed"


@final
class GivenFactor(Factor):
    """A label given with each word; 0 for labels that are not in the training text.

    Args:
        labels: the labels of the training text.
    """

    is_given: ClassVar[bool] = True

    def __init__(self, labels: LabelVocabulary) -> None:
        self.labels = labels

    @property
    def size(self) -> int:
        """One more than there are labels."""
        return self.labels.size + 1

    def iter_spans(self, text: str, labels: Sequence[str]) -> Iterator[NumberedSpan]:
        """Yield start and stop of the words between white space with the number of their label; 0 for an unknown
        label.
        """
        for word, label in zip(_WORD.finditer(text), labels, strict=True):
            label_id = self.labels.get_id(label)
            yield *word.span(), 0 if label_id is None else label_id + 1

    def _to_json(self) -> Mapping[str, Any]:
        return {"kind": "given", "labels": self.labels.names}


def load_factor(path: Path) -> Factor:
    """Load the factor that `Factor.save` wrote; raise `RunError` if the file holds none."""
    try:
        record = read_json(path)
        version, kind, labels = record["format"], record["kind"], record.get("labels", [])
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); restore it from a copy or train again") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(f"{path}: holds no factor; restore it or train again") from None
    if version != _FILE_FORMAT:
        raise RunError(f"{path}: factor format {version!r}, but this heedful reads {_FILE_FORMAT}; train again")
    if kind == "case":
        return CaseFactor()
    if kind != "given" or not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
        raise RunError(f"{path}: holds no factor; restore it or train again")
    return GivenFactor(LabelVocabulary(labels))


def split_factors(text: str, names: Sequence[str]) -> tuple[str, list[tuple[str, ...]]]:
    """Separate a text from its labels, of which each word has one for each name in `names`; return the plain text and
    the labels of each word.

    Args:
        text: words followed by one label for each name; without names the text is returned as it is.
        names: names of the labels.

    Raises:
        DataError: a word has more or fewer labels.
    """
    if not names:
        return text, []
    labels = []

    def remove_labels(word: re.Match[str]) -> str:
        """Return a word without its labels, and store these."""
        plain_word, *word_labels = word[0].split(LABEL_SEPARATOR)
        if len(word_labels) != len(names) or not plain_word or not all(word_labels):
            raise DataError(
                f"{word[0]!r} is not {LABEL_SEPARATOR.join(['word', *names])}: this model reads labels after each "
                "word, separated by U+FFE8; write them there, or give them in a separate file"
            )
        labels.append(tuple(word_labels))
        return plain_word

    return _WORD.sub(remove_labels, text), labels


def attach_labels(text: str, labels: str, *, location: str) -> str:
    """Append a label to each word of a text; `location` says in messages where the labels stand.

    Args:
        text: words between white space.
        labels: one label for each word, or several with a separator between them, between white space.
        location: where the labels stand, for messages.

    Raises:
        DataError: there are more or fewer labels than words, or a word contains the separator.
    """
    words, word_labels = text.split(), labels.split()
    if len(words) != len(word_labels):
        raise DataError(
            f"{location}: has {len(word_labels)} labels, but its sentence has {len(words)} words between white space, "
            f"{text[:_MAX_SHOWN_CHARACTERS]!r}; give each word one label"
        )
    if LABEL_SEPARATOR in text:
        raise DataError(
            f"{location}: its sentence has labels already, or U+FFE8 in a word: {text[:_MAX_SHOWN_CHARACTERS]!r}; take "
            "it out"
        )
    next_label = iter(word_labels)
    return _WORD.sub(lambda word: f"{word[0]}{LABEL_SEPARATOR}{next(next_label)}", text)


def attach_labels_from_file(texts: Iterable[str], path: Path, *, noun: str) -> Iterator[str]:
    """Append to each text the labels in the corresponding line of a file; raise `DataError` if a line does not fit its
    text. `noun` is what the texts are called in messages.

    Args:
        texts: one text for each line; empty texts have an empty line.
        path: the file of labels.
        noun: what the texts are called in messages.
    """
    rows = zip_longest(texts, read_lines(path))
    for line_number, (text, line) in enumerate(rows, 1):
        if text is None or line is None:
            longer, shorter = ("lines", noun) if text is None else (noun, "lines")
            raise DataError(
                f"{path}: has {'more' if text is None else 'fewer'} lines than there are {noun} ({line_number - 1:,} "
                f"{shorter} and more {longer}); write one line of labels for each"
            )
        yield attach_labels(text, line, location=f"{path}:{line_number}")


@final
class FactoredPairs(ExampleReader[SentencePair]):
    """Pairs whose source words have labels, read from a file with one line for each pair.

    Args:
        pairs: reader of the parallel text.
        path: the file of labels.

    Raises:
        DataError: the text cannot be read, the labels do not fit the words, or the lines do not fit the pairs.
    """

    def __init__(self, pairs: ExampleReader[SentencePair], path: Path) -> None:
        super().__init__(*pairs.paths, path)
        self._pairs = pairs

    def __iter__(self) -> Iterator[SentencePair]:
        pairs, read = tee(self._pairs)
        sources = attach_labels_from_file((pair.source for pair in read), self.paths[-1], noun="pairs")
        return (pair._replace(source=source) for source, pair in zip(sources, pairs, strict=True))


@final
@dataclass(frozen=True, eq=False)
class EncodedText:
    """The ids of a text, without the end id, and their factors.

    Attributes:
        ids: ids of the pieces.
        factors: factors of each piece, [T, F]; None without factors.
    """

    ids: list[int]
    factors: Int[np.ndarray, "T F"] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def truncate(self, count: int) -> EncodedText:
        """Return the first `count` pieces."""
        return EncodedText(self.ids[:count], None if self.factors is None else self.factors[:count])


@final
@dataclass(frozen=True)
class SourceEncoder:
    """Encodes source texts with a tokenizer and factors.

    Attributes:
        tokenizer: the tokenizer; lowercasing (`Tokenizer.with_lowercase`) if a factor holds the case.
        factors: the factors by name.
    """

    tokenizer: Tokenizer
    factors: Mapping[str, Factor]

    def with_tags(self, tags: Sequence[str]) -> Self:
        """Return an encoder that puts tags before each text; see `Tokenizer.with_tags`."""
        return type(self)(self.tokenizer.with_tags(tags), self.factors)

    def strip_labels(self, text: str) -> str:
        """Return the text without labels; raise `DataError` if a word has more or fewer labels than there are given
        factors.
        """
        return split_factors(text, self.given_names)[0]

    @cached_property
    def given_names(self) -> tuple[str, ...]:
        """Names of the factors that are given as labels."""
        return tuple(name for name, factor in self.factors.items() if factor.is_given)

    def encode(self, text: str) -> EncodedText:
        """Encode a text, with labels if factors are given, into ids and factors.

        Raises:
            DataError: the text is not valid Unicode, its labels do not fit, or its pieces cannot be found in the text
                (`compute_offsets`).
        """
        plain, labels = split_factors(text, self.given_names)
        ids = self.tokenizer.encode(plain)
        if not self.factors:
            return EncodedText(ids)
        spans = compute_offsets(self.tokenizer, plain)
        factor_ids = np.zeros((len(spans), len(self.factors)), dtype=np.int64)
        for column, (name, factor) in enumerate(self.factors.items()):
            word_labels = (
                [labels_of_word[self.given_names.index(name)] for labels_of_word in labels] if factor.is_given else []
            )
            factor_ids[:, column] = _assign_numbers(spans, list(factor.iter_spans(plain, word_labels)))
        return EncodedText(ids, factor_ids)

    def get_surfaces(self, text: str) -> list[str]:
        """Return the part of the text that each piece stands for; with its original case if the text is lowercased
        for the model.
        """
        plain = self.strip_labels(text)
        if not any(factor.lowercases for factor in self.factors.values()):
            return self.tokenizer.get_surfaces(plain)
        return [plain[start:stop] for start, stop in compute_offsets(self.tokenizer, plain)]


def _assign_numbers(pieces: Sequence[tuple[int, int]], spans: Sequence[NumberedSpan]) -> list[int]:
    """Return for each piece the number of the first span that overlaps it; 0 if there is none. Pieces and spans are
    given by start and stop in the text.
    """
    numbers, index = [], 0
    for start, stop in pieces:
        while index < len(spans) and spans[index][1] <= start:
            index += 1
        numbers.append(spans[index][2] if index < len(spans) and spans[index][0] < stop else 0)
    return numbers
