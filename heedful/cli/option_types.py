"""Types of option values: how a word is converted, and messages for invalid words."""

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
    """Shorten a long word in the middle for messages."""
    return word if len(word) <= _MAX_SHOWN else f"{word[: _MAX_SHOWN // 2]}...{word[-_MAX_SHOWN // 4 :]}"


def _describe_too_large(word: str) -> str:
    """Return the message for a number that is too large."""
    return f"{shorten(word)} is too large; give a number of at most 18 digits"


class OptionType(ABC):
    """Type of an option's value, which is one word.

    Abstract: each type defines how a word is converted.

    Attributes:
        noun: what to give, for messages.
        example: an example, for messages.
        metavar: the word for a value in the help.
        choices: all allowed words, if there are few.
        is_path: whether the value is the path of a file or folder.
    """

    noun: str
    example: ClassVar[str] = ""
    metavar: str
    choices: Sequence[str] = ()
    is_path: ClassVar[bool] = False

    @abstractmethod
    def convert(self, word: str) -> Any:
        """Convert a word to the value; raise `ValueError` with a description of what is wrong."""


@final
class TextType(OptionType):
    """Any text."""

    noun = "a text"
    example = "TEXT"
    metavar = "TEXT"

    def convert(self, word: str) -> str:
        """Return the word."""
        return word


@final
@dataclass(frozen=True)
class PathType(OptionType):
    """A path; `-` is standard input for files that are read.

    Attributes:
        suffixes: allowed suffixes of files that are written; empty for any.
        hint: hint for other suffixes.
    """

    noun = "a path"
    example = "PATH"
    metavar = "PATH"
    is_path = True

    suffixes: Sequence[str] = ()
    hint: str = ""

    def convert(self, word: str) -> Path:
        """Return the path; `ValueError` for an empty one, which would be the current folder, and for a suffix that is
        not allowed.
        """
        if not word:
            raise ValueError("is empty; give a path")
        path = Path(word)
        if self.suffixes and path.suffix and path.suffix.lower() not in self.suffixes:
            allowed = " or ".join(self.suffixes)
            raise ValueError(
                f"{word!r} ends with {path.suffix}, but the file to write must end with {allowed}{self.hint}"
            )
        return path


@final
class IntType(OptionType):
    """A whole number."""

    noun = "a whole number"
    example = "4"
    metavar = "INT"

    def convert(self, word: str) -> int:
        """Return the number; `ValueError` for other words, and for numbers of more than 64 bits."""
        try:
            number = int(word)
        except ValueError:
            if word.lstrip("+-").isdecimal():  # Python reads no number of several thousand digits
                raise ValueError(_describe_too_large(word)) from None
            raise ValueError(f"{shorten(word)!r} is not a whole number") from None
        if abs(number) > _MAX_INT:
            raise ValueError(_describe_too_large(word))
        return number


@final
class FloatType(OptionType):
    """A number."""

    noun = "a number"
    example = "0.9"
    metavar = "FLOAT"

    def convert(self, word: str) -> float:
        """Return the number; `ValueError` for other words."""
        try:
            return float(word)
        except ValueError:
            comma = f"; write {word.replace(',', '.')}" if word.replace(",", "", 1).isdecimal() else ""
            raise ValueError(f"{shorten(word)!r} is not a number{comma}") from None


@final
@dataclass(frozen=True)
class ChoiceType(OptionType):
    """One of a few words."""

    choices: Sequence[str]

    @property
    def noun(self) -> str:  # type: ignore[override]  # it depends on the words
        """All allowed words, for messages."""
        return f"one of {', '.join(self.choices)}"

    @property
    def metavar(self) -> str:  # type: ignore[override]  # likewise
        """All allowed words, for the help."""
        return f"{{{','.join(self.choices)}}}"

    def convert(self, word: str) -> str:
        """Return the word if it is one of the choices; otherwise raise `ValueError`, which suggests a similar one."""
        if word in self.choices:
            return word
        suggestion = closest_match(word, self.choices)
        raise ValueError(
            f"{word!r} is not one of {', '.join(self.choices)}{f'; did you mean {suggestion}?' if suggestion else ''}"
        )
