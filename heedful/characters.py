"""Character classes: the characters of words, and invisible ones."""

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
"""Thai, Lao, Burmese, Khmer, kana and Chinese characters, for a regular expression class: scripts without spaces
between words."""
_ZERO_WIDTH_SPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f"
"""Thai, Lao, Burmese and Khmer, which may have zero-width spaces between words."""
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]"
    f"|(?<![{_ZERO_WIDTH_SPACED}])\u200b(?![{_ZERO_WIDTH_SPACED}])"
)
_LINE_ENDS: Final = re.compile("[\u000b\u000c\u0085\u2028\u2029]")


def remove_invisible(text: str) -> str:
    """Remove characters that change the layout of a text but not its meaning.

    These are soft hyphens, direction marks, embeddings and isolates, word joiners, byte order marks inside a text,
    invisible operators, and zero-width spaces, except beside letters of Thai, Lao, Burmese and Khmer, where they
    separate words. Joiners and non-joiners (U+200C, U+200D) stay: scripts of India, Persian and emoji need them. Line
    ends other than line feed and carriage return (U+000B, U+000C, U+0085, U+2028, U+2029) become spaces.
    """
    return _LINE_ENDS.sub(" ", _INVISIBLE.sub("", text))


@cache
def letters_and_marks() -> str:
    r"""Return letters, combining marks, digits and underscores, as the inside of a regular expression class.

    Python's `\w` has no combining marks (Mn, Mc, Me), without which the words of Hindi or Thai are split.
    """
    return rf"\w{combining_marks()}"


@cache
def combining_marks() -> str:
    """Return the combining marks, as the inside of a regular expression class."""
    marks = [code for code in range(0x20000) if unicodedata.category(chr(code)).startswith("M")]
    runs = [list(run) for _, run in groupby(enumerate(marks), lambda item: item[1] - item[0])]
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)


@cache
def word_characters() -> str:
    """Return letters, marks, joiners and non-joiners, as the inside of a regular expression class."""
    return rf"{letters_and_marks()}\u200c\u200d"


def compile_word_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that matches the text as whole words, ignoring case.

    No letter, mark or digit may precede its first word or follow its last one.
    """
    characters = word_characters()
    return re.compile(rf"(?<![{characters}]){re.escape(text)}(?![{characters}])", re.IGNORECASE)


@cache
def compile_unspaced_letter() -> re.Pattern[str]:
    """Return the pattern of one letter of a script without spaces, with its marks."""
    return re.compile(rf"[{SPACELESS_LETTERS}][{combining_marks()}\u200c\u200d]*")


@cache
def compile_comparison_words() -> re.Pattern[str]:
    """Return the pattern of the words by which texts are compared; a punctuation mark is one word.

    In scripts without spaces between words each letter is one word, with its marks.
    """
    spaced = rf"(?:(?![{SPACELESS_LETTERS}])[{word_characters()}])+"
    return re.compile(rf"{compile_unspaced_letter().pattern}|{spaced}|[^\w\s]")
