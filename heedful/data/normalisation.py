"""How text is read before it is cut into pieces, and how words are put back together.

Text is normalised by sentencepiece's `nmt_nfkc` rules: NFKC (of single letters and their usual combining marks),
control characters gone, every run of whitespace one space and none at the ends; `nmt_nfkc_cf` also folds case,
though `ß` stays. The tables come with that package, so the same
text reads the same under every version of Python. Before that, what changes the layout of a text and not what it says
is taken out (`characters.without_invisible`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

import sentencepiece

from heedful.characters import letters_and_marks, without_invisible
from heedful.errors import DataError

_CLOSING = frozenset(".,;:!?%)]}»”")
_OPENING = frozenset("([{«„¿¡")


def valid(text: str) -> str:
    """The same text; `DataError` where it holds half a surrogate pair, which no file or library can take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"character {error.start + 1} of a text is U+{ord(text[error.start]):04X}, half a surrogate pair "
            "and so not valid Unicode; mend the text"
        ) from None
    return text


def rules(*, lowercase: bool) -> str:
    """Sentencepiece's name for the rules."""
    return "nmt_nfkc_cf" if lowercase else "nmt_nfkc"


@cache
def normaliser(*, lowercase: bool) -> Callable[[str], str]:
    """The rules as a function of valid text."""
    chosen = sentencepiece.SentencePieceNormalizer(
        rule_name=rules(lowercase=lowercase),
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=True,
    )
    return lambda text: str(chosen.normalize(without_invisible(text)))


@cache
def word_pattern() -> re.Pattern[str]:
    r"""What is a word or a mark of punctuation in normalised text.

    A word is a run of letters, combining marks, digits and underscores; apostrophes and hyphens between two
    such runs belong to it, and so do `.` and `,` between digits. Any other character but a space stands
    alone.
    """
    letters = rf"[{letters_and_marks()}]+"
    return re.compile(rf"{letters}(?:(?:['\u2019-]|(?<=\d)[.,](?=\d)){letters})*|\S")


def spaced(words: Iterable[str]) -> str:
    """Words and punctuation as running text.

    There is a space between two pieces, but none before `.,;:!?%)]}»”` and none after `([{«„¿¡`. Straight
    quotation marks open and close in turn; `“` closes after `„` and opens otherwise. What was written
    otherwise is lost: `a/b` becomes `a / b`, French `oui !` becomes `oui!`, German `»so«` becomes `» so«`.
    """
    text: list[str] = []
    straight = low = False
    glued = True
    for word in words:
        closing, opening = word in _CLOSING, word in _OPENING
        if word == '"':
            straight = not straight
            closing, opening = not straight, straight
        elif word == "“":
            closing, opening, low = low, not low, False
        elif word == "„":
            low = True
        text.append(word if glued or closing else f" {word}")
        glued = opening
    return "".join(text)
