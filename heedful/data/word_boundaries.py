"""What tokens add to a text letter by letter, and where words of a text begin and end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Final

from heedful.characters import letters_and_marks
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError

_SPACELESS_SCRIPTS: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, kana and Chinese characters: writing in which no space stands between words."""


@cache
def _get_word_character_pattern() -> re.Pattern[str]:
    return re.compile(rf"[{letters_and_marks()}\ufffd]")


def is_word_character(character: str) -> bool:
    """Whether a character makes one word with such another beside it: letters, marks, digits, where spaces part words.

    The mark of a broken character counts: nobody knows what it will be.
    """
    return bool(_get_word_character_pattern().fullmatch(character)) and not _SPACELESS_SCRIPTS.fullmatch(character)


@lru_cache(maxsize=8)
def get_added_texts(tokenizer: Tokenizer) -> tuple[str, ...]:
    """What each id adds to a text behind a letter, the space before it included; nothing where it stands for no text.

    That is what it adds anywhere, but behind an opening bracket where pieces are whole words, and where a character is
    cut into bytes: each of these is `\\ufffd`.

    Raises:
        DataError: no id of the vocabulary is a single letter or word to stand behind.
    """
    text_ids = [token_id for token_id in range(tokenizer.size) if token_id not in tokenizer.special.skipped_ids]
    letter_id = next(
        (n for n in text_ids if (t := tokenizer.decode([n])).isalnum() and tokenizer.decode([n, n]) != t), None
    )
    if letter_id is None:
        raise DataError("no piece of this vocabulary is a letter or a word, so nothing can be said of words in it")
    letter = tokenizer.decode([letter_id])
    added = [""] * tokenizer.size
    for token_id in text_ids:
        text = tokenizer.decode([letter_id, token_id])
        added[token_id] = text.removeprefix(letter) if text.startswith(letter) else ""
    return tuple(added)


def find_term(term: str, text: str) -> Iterator[int]:
    """Where a term stands in a text as words of its own: no letter or digit goes on with its first or last one."""
    index = text.find(term) if term else -1
    while index >= 0:
        end = index + len(term)
        starts_word = index == 0 or not (is_word_character(text[index - 1]) and is_word_character(term[0]))
        if starts_word and (end == len(text) or not (is_word_character(term[-1]) and is_word_character(text[end]))):
            yield index
        index = text.find(term, index + 1)


def to_lowercase_same_length(text: str) -> str:
    """The same text in lower case, as long as it was: what would become two characters stays as it is."""
    lowered_text = text.lower()
    return (
        lowered_text
        if len(lowered_text) == len(text)
        else "".join(lowered_text if len(lowered_text := character.lower()) == 1 else character for character in text)
    )


def find_word_ranges(text: str) -> list[range]:
    """Where the words of a text are: letters, marks and digits, and each character of writing without spaces."""
    return [range(*match.span()) for match in _get_word_pattern().finditer(text)]


def split_words(text: str) -> list[str]:
    """The words of a text, case folded; see `find_word_ranges`."""
    return [text[word_range.start : word_range.stop].casefold() for word_range in find_word_ranges(text)]


@cache
def _get_word_pattern() -> re.Pattern[str]:
    unspaced = _SPACELESS_SCRIPTS.pattern
    return re.compile(rf"{unspaced}|(?:(?!{unspaced})[{letters_and_marks()}])+")


def collect_word_characters(texts: Iterable[str]) -> frozenset[str]:
    """The characters of some texts that make words with each other."""
    return frozenset(filter(is_word_character, set().union(*texts)))


@lru_cache(maxsize=8)
def find_continuing_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """The ids that go on with the word before them, as letters do and a space or a full stop does not."""
    return frozenset(
        token_id for token_id, text in enumerate(get_added_texts(tokenizer)) if text and is_word_character(text[0])
    )
