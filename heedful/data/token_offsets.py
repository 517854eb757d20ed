"""Where tokens and words stand in a text, and the text that each token adds."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Final

from heedful.characters import letters_and_marks
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError

_MAX_CLUSTERS: Final = 8
"""Largest number of clusters that are normalised together, such as the parts of a Hangul syllable."""
_FINAL_SIGMA: Final = str.maketrans("\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}")


def compute_offsets(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Return the part of the text that each of its ids stands for, as (start, stop) in characters.

    A tokenizer encodes the output of `Tokenizer.normalise`: case may be folded, letters composed or decomposed, spaces
    and control characters removed. This function goes through the text cluster by cluster (a letter and its combining
    marks; several clusters if they are normalised together) and finds each cluster in the pieces. So the span of a
    piece

    - contains whole clusters: two pieces share one that was split in the middle, as `…` may be into `.` and `..`;
    - has no spaces at its ends and nothing that normalising drops there; the span of a piece that is only a space is
      empty.

    Raises:
        DataError: a cluster is not found where it should be, because the tokenizer's reading of a character depends on
            distant characters, or because its pieces are not parts of the text.
    """
    pieces = [_normalise_for_matching(piece) for piece in tokenizer.get_surfaces(text)]
    joined_pieces = "".join(pieces)
    spans: list[tuple[int, int]] = []  # for each character of `joined_pieces`
    for start, stop, count in _align_clusters(tokenizer, text, joined_pieces):
        spans += [(start, stop)] * count
    result, position, last_stop = [], 0, 0
    for piece in pieces:
        if piece:
            piece_spans = spans[position : position + len(piece)]
            result.append((piece_spans[0][0], piece_spans[-1][1]))
            last_stop = piece_spans[-1][1]
        else:
            result.append((last_stop, last_stop))
        position += len(piece)
    return result


def _align_clusters(tokenizer: Tokenizer, text: str, pieces_text: str) -> Iterator[tuple[int, int, int]]:
    """Yield start and stop of each part of the text, and the number of characters of `pieces_text`, the joined pieces,
    that it becomes; raise `DataError` if it is not found there.
    """
    normalised: dict[str, str] = {}  # the same letters come again and again
    starts = [*_iter_cluster_starts(text), len(text)]
    number = position = 0
    while number < len(starts) - 1:
        for last in range(number + 1, min(number + _MAX_CLUSTERS, len(starts) - 1) + 1):
            cluster = text[starts[number] : starts[last]]
            if cluster not in normalised:
                normalised[cluster] = _normalise_for_matching(tokenizer.normalise(cluster))
            if pieces_text.startswith(normalised[cluster], position):
                break
        else:
            raise _build_offset_error(text, starts[number])
        if normalised[cluster]:
            yield starts[number], starts[last], len(normalised[cluster])
        position += len(normalised[cluster])
        number = last
    if position != len(pieces_text):
        raise _build_offset_error(text, len(text))


def _iter_cluster_starts(text: str) -> Iterator[int]:
    """Yield the start of each cluster: every character but a combining mark after another character."""
    for position, letter in enumerate(text):
        if position == 0 or not unicodedata.category(letter).startswith("M"):
            yield position


def _normalise_for_matching(text: str) -> str:
    # Spaces come and go. Which sigma ends a word depends on what follows.
    """Remove spaces and replace final sigma, which depend on the neighbouring text."""
    return text.replace(" ", "").translate(_FINAL_SIGMA)


def _build_offset_error(text: str, position: int) -> DataError:
    """Build the error for a text whose character at `position` cannot be found in the pieces."""
    description = f"{text[position]!r}" if position < len(text) else "its end"
    return DataError(
        f"character {position + 1} of a text ({description}) cannot be found in the text as the tokenizer normalises "
        "it, so answers cannot be cut out of this text; normalise the text first (NFC or NFKC), or take another "
        "tokenizer"
    )


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
