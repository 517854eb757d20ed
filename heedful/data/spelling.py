"""What tokens add to a text letter by letter, and where words of a text begin and end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Final

from heedful.characters import letters_and_marks
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError

_WITHOUT_SPACES: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, kana and Chinese characters: writing in which no space stands between words."""


@cache
def _joining() -> re.Pattern[str]:
    return re.compile(rf"[{letters_and_marks()}\ufffd]")


def joins(character: str) -> bool:
    """Whether a character makes one word with such another beside it: letters, marks, digits, where spaces part words.

    The mark of a broken character counts: nobody knows what it will be.
    """
    return bool(_joining().fullmatch(character)) and not _WITHOUT_SPACES.fullmatch(character)


@lru_cache(maxsize=8)
def surfaces(tokenizer: Tokenizer) -> tuple[str, ...]:
    """What each id adds to a text behind a letter, the space before it included; nothing where it stands for no text.

    That is what it adds anywhere, but behind an opening bracket where pieces are whole words, and where a character is
    cut into bytes: each of these is `\\ufffd`.

    Raises:
        DataError: no id of the vocabulary is a single letter or word to stand behind.
    """
    real = [number for number in range(tokenizer.size) if number not in tokenizer.special.silent]
    before = next((n for n in real if (t := tokenizer.decode([n])).isalnum() and tokenizer.decode([n, n]) != t), None)
    if before is None:
        raise DataError("no piece of this vocabulary is a letter or a word, so nothing can be said of words in it")
    letter = tokenizer.decode([before])
    added = [""] * tokenizer.size
    for number in real:
        text = tokenizer.decode([before, number])
        added[number] = text.removeprefix(letter) if text.startswith(letter) else ""
    return tuple(added)


def occurrences(term: str, text: str) -> Iterator[int]:
    """Where a term stands in a text as words of its own: no letter or digit goes on with its first or last one."""
    at = text.find(term) if term else -1
    while at >= 0:
        end = at + len(term)
        begins = at == 0 or not (joins(text[at - 1]) and joins(term[0]))
        if begins and (end == len(text) or not (joins(term[-1]) and joins(text[end]))):
            yield at
        at = text.find(term, at + 1)


def lowered(text: str) -> str:
    """The same text in lower case, as long as it was: what would become two characters stays as it is."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(low if len(low := each.lower()) == 1 else each for each in text)


def word_places(text: str) -> list[range]:
    """Where the words of a text are: letters, marks and digits, and each character of writing without spaces."""
    return [range(*found.span()) for found in _word().finditer(text)]


def words(text: str) -> list[str]:
    """The words of a text, case folded; see `word_places`."""
    return [text[place.start : place.stop].casefold() for place in word_places(text)]


@cache
def _word() -> re.Pattern[str]:
    unspaced = _WITHOUT_SPACES.pattern
    return re.compile(rf"{unspaced}|(?:(?!{unspaced})[{letters_and_marks()}])+")


def alphabet(texts: Iterable[str]) -> frozenset[str]:
    """The characters of some texts that make words with each other."""
    return frozenset(filter(joins, set().union(*texts)))


@lru_cache(maxsize=8)
def joined(tokenizer: Tokenizer) -> frozenset[int]:
    """The ids that go on with the word before them, as letters do and a space or a full stop does not."""
    return frozenset(number for number, text in enumerate(surfaces(tokenizer)) if text and joins(text[0]))
