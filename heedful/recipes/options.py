"""Options and their values among the words of a command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence


def grouped(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Each word alone, but `--name` with the word behind it, its value, unless that is an option too.

    What `--` begins is one group, because no option is among it.
    """
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            yield (word, *waiting)
            return
        alone = not word.startswith("--") or "=" in word or not waiting or waiting[0].startswith("--")
        yield (word,) if alone else (word, waiting.pop(0))


def apart(words: Sequence[str], *, others: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """The words of a command, and the options that belong to others by their names, each with its value."""
    own: list[str] = []
    found: list[str] = []
    for group in grouped(words):
        foreign = group[0].startswith("--") and group[0] != "--" and others(group[0][2:].partition("=")[0])
        (found if foreign else own).extend(group)
    return own, found
