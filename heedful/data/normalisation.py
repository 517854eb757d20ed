"""How text is read before it is cut into pieces, and how words are put back together.

Text is normalised by sentencepiece's `nmt_nfkc` rules: NFKC (of single letters and their usual combining marks),
control characters gone, every run of whitespace one space and none at the ends; `nmt_nfkc_cf` also folds case,
though `ß` stays. The tables come with that package, so the same
text reads the same under every version of Python. Before that, what changes the layout of a text and not what it says
is taken out (`characters.remove_invisible`).

What a model learns to write may keep marks of its own, such as the comma of Chinese, an ellipsis or a fraction, which
NFKC exchanges for others. Such text is only `normalise_nfc`: NFC, without control characters, and with the same white space.
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
    """The same text; `DataError` where it holds half a surrogate pair, which no file or library can take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"character {error.start + 1} of a text is U+{ord(text[error.start]):04X}, half a surrogate pair "
            "and so not valid Unicode; mend the text"
        ) from None
    return text


def get_rule_name(*, lowercase: bool) -> str:
    """Sentencepiece's name for the rules."""
    return "nmt_nfkc_cf" if lowercase else "nmt_nfkc"


@cache
def build_normaliser(*, lowercase: bool) -> Callable[[str], str]:
    """The rules as a function of valid text."""
    normalizer = sentencepiece.SentencePieceNormalizer(
        rule_name=get_rule_name(lowercase=lowercase),
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=True,
    )
    return lambda text: str(normalizer.normalize(remove_invisible(text)))


def normalise_nfc(text: str) -> str:
    """Valid text in NFC (Unicode Standard Annex 15), without control characters and with single spaces between words.

    Letters and marks stay what they are, whatever looks alike; what is taken for white space, or left out, is the same
    as with the other rules. Zero-width joiners and non-joiners stay, since scripts are written with them.
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
"""What is left out of text, and what is white space in it."""


@cache
def get_word_pattern() -> re.Pattern[str]:
    r"""What is a word or a mark of punctuation in normalised text.

    A word is a run of letters, combining marks, digits and underscores; apostrophes and hyphens between two
    such runs belong to it, and so do `.` and `,` between digits. Any other character but a space stands
    alone.
    """
    letters = rf"[{letters_and_marks()}]+"
    return re.compile(rf"{letters}(?:(?:['\u2019-]|(?<=\d)[.,](?=\d)){letters})*|\S")


def join_words(words: Iterable[str]) -> str:
    """Words and punctuation as running text.

    There is a space between two pieces, but none before `.,;:!?%)]}»”` and none after `([{«„¿¡`. Straight
    quotation marks open and close in turn; `“` closes after `„` and opens otherwise. What was written
    otherwise is lost: `a/b` becomes `a / b`, French `oui !` becomes `oui!`, German `»so«` becomes `» so«`.
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
