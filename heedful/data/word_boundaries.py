"""Find word boundaries in texts, and the text that each token adds."""

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
"""Thai, Lao, Burmese, Khmer, kana and Chinese characters: scripts without spaces between words."""


@cache
def _get_word_character_pattern() -> re.Pattern[str]:
    """Return the pattern of letters, marks, digits and the replacement character."""
    return re.compile(rf"[{letters_and_marks()}\ufffd]")


def is_word_character(character: str) -> bool:
    """Return whether a character forms words with its neighbours: letters, marks and digits of scripts with spaces
    between words.

    The replacement character of a broken character counts too, since it may become a letter.
    """
    return bool(_get_word_character_pattern().fullmatch(character)) and not _SPACELESS_SCRIPTS.fullmatch(character)


@lru_cache(maxsize=8)
def get_added_texts(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the text that each id adds after a letter, with the space before it; empty for ids that stand for no text.

    This is what an id adds anywhere, except after an opening bracket if pieces are whole words, and if a character is
    split into bytes: each of these is U+FFFD.

    Raises:
        DataError: no id of the vocabulary is a single letter or word to stand before the others.
    """
    text_ids = [token_id for token_id in range(tokenizer.size) if token_id not in tokenizer.special.skipped_ids]
    letter_id = next(
        (n for n in text_ids if (t := tokenizer.decode([n])).isalnum() and tokenizer.decode([n, n]) != t), None
    )
    if letter_id is None:
        raise DataError("no piece of this vocabulary is a letter or a word, so words cannot be found in it")
    letter = tokenizer.decode([letter_id])
    added = [""] * tokenizer.size
    for token_id in text_ids:
        text = tokenizer.decode([letter_id, token_id])
        added[token_id] = text.removeprefix(letter) if text.startswith(letter) else ""
    return tuple(added)


def find_term(term: str, text: str) -> Iterator[int]:
    """Yield each index at which a term stands in a text as whole words: no letter or digit continues its first or
    last word.
    """
    index = text.find(term) if term else -1
    while index >= 0:
        end = index + len(term)
        starts_word = index == 0 or not (is_word_character(text[index - 1]) and is_word_character(term[0]))
        if starts_word and (end == len(text) or not (is_word_character(term[-1]) and is_word_character(text[end]))):
            yield index
        index = text.find(term, index + 1)


def to_lowercase_same_length(text: str) -> str:
    """Lowercase a text without changing its length: a character whose lower case has two characters is kept."""
    lowered_text = text.lower()
    return (
        lowered_text
        if len(lowered_text) == len(text)
        else "".join(lowered_text if len(lowered_text := character.lower()) == 1 else character for character in text)
    )


def find_word_ranges(text: str) -> list[range]:
    """Return the range of each word of a text: letters, marks and digits, and each character of scripts without
    spaces.
    """
    return [range(*match.span()) for match in _get_word_pattern().finditer(text)]


def split_words(text: str) -> list[str]:
    """Return the words of a text, case folded; see `find_word_ranges`."""
    return [text[word_range.start : word_range.stop].casefold() for word_range in find_word_ranges(text)]


@cache
def _get_word_pattern() -> re.Pattern[str]:
    """Return the pattern of a word."""
    unspaced = _SPACELESS_SCRIPTS.pattern
    return re.compile(rf"{unspaced}|(?:(?!{unspaced})[{letters_and_marks()}])+")


def collect_word_characters(texts: Iterable[str]) -> frozenset[str]:
    """Return the characters of some texts that form words with each other."""
    return frozenset(filter(is_word_character, set().union(*texts)))


@lru_cache(maxsize=8)
def find_continuing_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """Return the ids whose text continues the word before them, such as letters, but not spaces or full stops."""
    return frozenset(
        token_id for token_id, text in enumerate(get_added_texts(tokenizer)) if text and is_word_character(text[0])
    )
