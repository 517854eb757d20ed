"""Splitting of command-line words into options and their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence


def group_options(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield each word alone, but an option `--name` together with the next word as its value, unless that is an option
    too.

    All words from `--` on form one group, because they cannot be options.
    """
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            yield (word, *remaining)
            return
        is_alone = not word.startswith("--") or "=" in word or not remaining or remaining[0].startswith("--")
        yield (word,) if is_alone else (word, remaining.pop(0))


def split_options(words: Sequence[str], *, is_foreign: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Split words into those of the command itself and the foreign options, each with its value; `is_foreign`
    decides by an option's name.
    """
    own_words: list[str] = []
    foreign_words: list[str] = []
    for group in group_options(words):
        belongs_to_others = (
            group[0].startswith("--") and group[0] != "--" and is_foreign(group[0][2:].partition("=")[0])
        )
        (foreign_words if belongs_to_others else own_words).extend(group)
    return own_words, foreign_words
