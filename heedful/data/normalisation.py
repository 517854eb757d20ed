"""Normalise text before tokenization, and join words back into running text.

Text is normalised by sentencepiece's `nmt_nfkc` rules: NFKC (of single letters and their usual combining marks),
control characters removed, every run of white space one space and none at the ends; `nmt_nfkc_cf` also folds case,
though `ß` stays. The tables come with that package, so the same text is normalised the same under every version of
Python. Before that, characters that change only the layout of a text are removed (`characters.remove_invisible`).

The output side of a model may keep characters that NFKC replaces, such as the comma of Chinese, an ellipsis or a
fraction. Such text is only normalised by `normalise_nfc`: NFC, without control characters, and with the same white
space.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

import sentencepiece

from heedful.characters import letters_and_marks, remove_invisible
from heedful.errors import DataError

_CLOSING = frozenset(".,;:!?%)]}»”")
_OPENING = frozenset("([{«„¿¡")


def require_valid_unicode(text: str) -> str:
    """Return the text; raise `DataError` if it holds half a surrogate pair, which no file or library can take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"character {error.start + 1} of a text is U+{ord(text[error.start]):04X}, half a surrogate pair "
            "and so not valid Unicode; correct the text"
        ) from None
    return text


def get_rule_name(*, lowercase: bool) -> str:
    """Return sentencepiece's name of the normalisation rules."""
    return "nmt_nfkc_cf" if lowercase else "nmt_nfkc"


@cache
def build_normaliser(*, lowercase: bool) -> Callable[[str], str]:
    """Return a function that normalises valid text by sentencepiece's rules `nmt_nfkc`, which also fold case if
    `lowercase`.
    """
    normalizer = sentencepiece.SentencePieceNormalizer(
        rule_name=get_rule_name(lowercase=lowercase),
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=True,
    )
    return lambda text: str(normalizer.normalize(remove_invisible(text)))


def normalise_nfc(text: str) -> str:
    """Normalise valid text to NFC (Unicode Standard Annex 15), without control characters and with single spaces
    between words.

    Letters and marks stay what they are, even if others look the same; white space and removed characters are the same
    as
    with the other rules. Zero-width joiners and non-joiners stay, since some scripts need them.
    """
    return " ".join(
        filter(None, unicodedata.normalize("NFC", remove_invisible(text).translate(_LAYOUT_TABLE)).split(" "))
    )


_LAYOUT_TABLE = str.maketrans(
    {
        **dict.fromkeys(map(chr, (*range(1, 9), *range(0x0E, 0x20), 0x7F, 0x8F, 0x9F))),
        **dict.fromkeys(map(chr, (*range(0x09, 0x0E), 0xA0, 0x1680, *range(0x2000, 0x200C))), " "),
        **dict.fromkeys("\u202f\u205f\u2581\u3000\ufffd", " "),
    }
)
"""Characters that are removed from text, and characters that become spaces."""


@cache
def get_word_pattern() -> re.Pattern[str]:
    """Return the pattern of a word or a punctuation mark in normalised text.

    A word is a run of letters, combining marks, digits and underscores; apostrophes and hyphens between two
    such runs belong to it, and so do `.` and `,` between digits. Any other character except a space is a piece of its
    own.
    """
    letters = rf"[{letters_and_marks()}]+"
    return re.compile(rf"{letters}(?:(?:['\u2019-]|(?<=\d)[.,](?=\d)){letters})*|\S")


def join_words(words: Iterable[str]) -> str:
    """Join words and punctuation into running text.

    There is a space between two pieces, but none before `.,;:!?%)]}»”` and none after `([{«„¿¡`. Straight
    quotation marks open and close in turn; `“` closes after `„` and opens otherwise. Other spacing is lost:
    `a/b` becomes `a / b`, French `oui !` becomes `oui!`, German `»so«` becomes `» so«`.
    """
    text: list[str] = []
    in_straight_quotes = in_low_quotes = False
    no_space = True
    for word in words:
        closing, opening = word in _CLOSING, word in _OPENING
        if word == '"':
            in_straight_quotes = not in_straight_quotes
            closing, opening = not in_straight_quotes, in_straight_quotes
        elif word == "“":
            closing, opening, in_low_quotes = in_low_quotes, not in_low_quotes, False
        elif word == "„":
            in_low_quotes = True
        text.append(word if no_space or closing else f" {word}")
        no_space = opening
    return "".join(text)
