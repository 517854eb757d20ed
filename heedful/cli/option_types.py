"""What may stand behind an option: how its word is read, and in which words it is refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, final

from heedful.english_words import closest_match

_MAX_INT: Final = 2**63 - 1
_MAX_SHOWN: Final = 40


def shorten(word: str) -> str:
    """Return a word as messages show it, without its middle where it is long."""
    return word if len(word) <= _MAX_SHOWN else f"{word[: _MAX_SHOWN // 2]}...{word[-_MAX_SHOWN // 4 :]}"


def _describe_too_large(word: str) -> str:
    return f"{shorten(word)} is too large; give a number of at most 18 digits"


class OptionType(ABC):
    """One word as a value.

    Abstract: each kind says how it is read.

    Attributes:
        noun: what is to be given, for messages.
        example: one, for messages.
        choices: all that may be given, where there are few.
        is_path: whether it names a file or a folder.
    """

    noun: str
    example: ClassVar[str] = ""
    choices: Sequence[str] = ()
    is_path: ClassVar[bool] = False

    @abstractmethod
    def convert(self, word: str) -> Any:
        """The value; `ValueError` with what is wrong with the word."""


@final
class TextType(OptionType):
    """Any word."""

    noun = "a text"
    example = "TEXT"

    def convert(self, word: str) -> str:
        """The word."""
        return word


@final
@dataclass(frozen=True)
class PathType(OptionType):
    """A path; `-` is standard input where it is read.

    Attributes:
        suffixes: of files that are written there; any if there are none.
        hint: what to do about another one.
    """

    noun = "a path"
    example = "PATH"
    is_path = True

    suffixes: Sequence[str] = ()
    hint: str = ""

    def convert(self, word: str) -> Path:
        """The path; an empty one would be the current folder."""
        if not word:
            raise ValueError("is empty; give a path")
        path = Path(word)
        if self.suffixes and path.suffix and path.suffix.lower() not in self.suffixes:
            allowed = " or ".join(self.suffixes)
            raise ValueError(f"{word!r} ends with {path.suffix}, and what is written ends with {allowed}{self.hint}")
        return path


@final
class IntType(OptionType):
    """A whole number."""

    noun = "a whole number"
    example = "4"

    def convert(self, word: str) -> int:
        """The number; one of more than 64 bits is refused, since nothing counts so far."""
        try:
            number = int(word)
        except ValueError:
            if word.lstrip("+-").isdecimal():  # Python reads no number of several thousand digits
                raise ValueError(_describe_too_large(word)) from None
            raise ValueError(f"{shorten(word)!r} is no whole number") from None
        if abs(number) > _MAX_INT:
            raise ValueError(_describe_too_large(word))
        return number


@final
class FloatType(OptionType):
    """A number."""

    noun = "a number"
    example = "0.9"

    def convert(self, word: str) -> float:
        """The number."""
        try:
            return float(word)
        except ValueError:
            comma = f"; write {word.replace(',', '.')}" if word.replace(",", "", 1).isdecimal() else ""
            raise ValueError(f"{shorten(word)!r} is no number{comma}") from None


@final
@dataclass(frozen=True)
class ChoiceType(OptionType):
    """One of a few words."""

    choices: Sequence[str]

    @property
    def noun(self) -> str:  # type: ignore[override]  # it depends on the words
        """All words."""
        return f"one of {', '.join(self.choices)}"

    def convert(self, word: str) -> str:
        """The word."""
        if word in self.choices:
            return word
        suggestion = closest_match(word, self.choices)
        raise ValueError(
            f"{word!r} is none of {', '.join(self.choices)}{f'; did you mean {suggestion}?' if suggestion else ''}"
        )
