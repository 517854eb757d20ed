"""What the characters of a text are: those that words are made of, and those that no reader sees."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import groupby
from typing import Final

SPACELESS_LETTERS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, kana and Chinese characters, as the inside of a class of a regular expression: writing in
which no space stands between words."""
_ZERO_WIDTH_SPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f"
"""Thai, Lao, Burmese and Khmer, which may have zero-width spaces between words."""
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]"
    f"|(?<![{_ZERO_WIDTH_SPACED}])\u200b(?![{_ZERO_WIDTH_SPACED}])"
)
_LINE_ENDS: Final = re.compile("[\u000b\u000c\u0085\u2028\u2029]")


def remove_invisible(text: str) -> str:
    """Return the text without the characters that change how it is laid out and not what it says.

    These are soft hyphens, marks, embeddings and isolates of direction, word joiners, byte order marks inside a text,
    invisible operators, and zero-width spaces, except beside letters of Thai, Lao, Burmese and Khmer, where they part
    words. Joiners and non-joiners (U+200C, U+200D) stay: scripts of India, Persian and emoji are spelled with them. The
    line ends that are neither a line feed nor a carriage return (U+000B, U+000C, U+0085, U+2028, U+2029) become spaces.
    """
    return _LINE_ENDS.sub(" ", _INVISIBLE.sub("", text))


@cache
def letters_and_marks() -> str:
    r"""Return letters, combining marks, digits and underscores, as the inside of a class of a regular expression.

    Python's `\w` has no combining marks (Mn, Mc, Me), without which the words of Hindi or Thai fall apart.
    """
    return rf"\w{combining_marks()}"


@cache
def combining_marks() -> str:
    """Return the combining marks alone, likewise."""
    marks = [code for code in range(0x20000) if unicodedata.category(chr(code)).startswith("M")]
    runs = [list(run) for _, run in groupby(enumerate(marks), lambda item: item[1] - item[0])]
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)


@cache
def word_characters() -> str:
    """Return what stands inside of words as they are written: letters and marks, joiners and non-joiners, likewise."""
    return rf"{letters_and_marks()}\u200c\u200d"


def compile_word_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a text that stands as words of its own in another one, whatever its case.

    No letter, mark or digit goes on with its first or last word.
    """
    characters = word_characters()
    return re.compile(rf"(?<![{characters}]){re.escape(text)}(?![{characters}])", re.IGNORECASE)


@cache
def compile_unspaced_letter() -> re.Pattern[str]:
    """Return the pattern of one letter of a script without spaces, with the marks that belong to it."""
    return re.compile(rf"[{SPACELESS_LETTERS}][{combining_marks()}\u200c\u200d]*")


@cache
def compile_comparison_words() -> re.Pattern[str]:
    """Return the pattern of the words by which texts are compared, a sign being one.

    In scripts without spaces between words each letter counts as one, with its marks.
    """
    spaced = rf"(?:(?![{SPACELESS_LETTERS}])[{word_characters()}])+"
    return re.compile(rf"{compile_unspaced_letter().pattern}|{spaced}|[^\w\s]")
