"""What callers hand to public functions: one text where a list is expected, elements that are no text, and paths.

All methods that take a list also take a single element, which is a list of one: `translate("a dog")` is
`translate(["a dog"])`, and what is given back is a list with one answer. So the type of an answer never depends on how
many there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar, cast

from heedful.errors import DataError, RecipeError

Item = TypeVar("Item")

_SHOWN: Final = 60


def text_list(texts: str | Iterable[Item], *, name: str = "texts", also: tuple[type, ...] = ()) -> list[Item]:
    """Return the texts as a list; one string is a list of one.

    Args:
        texts: strings, or one.
        name: of the argument, for messages.
        also: other classes that may stand in the place of a string.

    Raises:
        DataError: an element is not a string; the message names its place and its value.
    """
    return item_list(cast("Item | Iterable[Item]", texts), str, *also, name=name, noun="text", remedy="a string")


def item_list(items: Item | Iterable[Item], *kinds: type, name: str, noun: str, remedy: str) -> list[Item]:
    """Return the elements as a list; one element is a list of one.

    Args:
        items: elements, or one.
        kinds: classes of an element.
        name: of the argument, for messages.
        noun: what an element is, likewise.
        remedy: what to give instead, likewise.

    Raises:
        DataError: an element is of another class; the message names its place and its value.
    """
    if isinstance(items, kinds):
        return [cast(Item, items)]
    if isinstance(items, bytes | bytearray | dict) or not isinstance(items, Iterable):
        raise DataError(f"{name}: {shown(items)} is not a {noun}; give {remedy}, or a list of these")
    found = list(items)
    for place, each in enumerate(found):
        if not isinstance(each, kinds):
            raise DataError(f"{name}[{place}]: {shown(each)} is not a {noun}; give {remedy}")
    return found


def file_list(files: Any, *kinds: type, name: str, noun: str) -> list[Any]:
    """Return names of files, or what they hold, as a list; one is a list of one.

    Raises:
        DataError: an element is neither a path nor of the other classes.
    """
    return item_list(files, str, os.PathLike, *kinds, name=name, noun=noun, remedy="a path")


def word_lists(sentences: str | Iterable[str | Sequence[str]], *, name: str = "sentences") -> list[list[str]]:
    """Return the words of each sentence; a sentence is a string with spaces between its words, or a list of words.

    Raises:
        DataError: a sentence is neither, or a word is not a string; the message names the place and the value.
    """
    found = []
    for place, each in enumerate([sentences] if isinstance(sentences, str) else _listed(sentences, name, "sentence")):
        if isinstance(each, str):
            found.append(each.split())
        else:
            found.append(_listed(each, f"{name}[{place}]", "sentence"))
            for number, word in enumerate(found[-1]):
                require_text(word, name=f"{name}[{place}][{number}]", noun="word")
    return found


def pair_list(pairs: Any, *, name: str, parts: str, also: tuple[type, ...] = ()) -> list[Any]:
    """Return pairs as a list; one pair of strings is a list of one.

    Args:
        pairs: of a text and what belongs to it, or one pair.
        name: of the argument, for messages.
        parts: what a pair is made of, likewise.
        also: other classes that may stand in the place of a string.

    Raises:
        DataError: an element is no pair; the message names its place and its value.
    """
    kinds = (str, *also)
    if isinstance(pairs, tuple) and len(pairs) == 2 and all(isinstance(each, kinds) for each in pairs):
        return [pairs]
    found = _listed(pairs, name, "list of pairs")
    for place, each in enumerate(found):
        if isinstance(each, str) or not isinstance(each, Sequence) or len(each) != 2:
            raise DataError(f"{name}[{place}]: {shown(each)} is not a pair; give {parts}")
        for number, part in enumerate(each):
            if not isinstance(part, kinds):
                raise DataError(f"{name}[{place}][{number}]: {shown(part)} is not a text; give a string")
    return found


def require_text(text: Any, *, name: str, noun: str = "text", also: tuple[type, ...] = ()) -> None:
    """Refuse what is not a string.

    Raises:
        DataError: the message names the argument and the value.
    """
    if not isinstance(text, (str, *also)):
        raise DataError(f"{name}: {shown(text)} is not a {noun}; give a string")


def require_path(path: Any, *, name: str) -> None:
    """Refuse what is not a path.

    Raises:
        RecipeError: the message names the argument and the value.
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise RecipeError(f"{name}: {shown(path)} is not a path; give a string or a Path")
    if "\0" in os.fspath(path):
        raise RecipeError(f"{name}: {shown(path)} holds a null character, which no path may have; mend it")


def shown(value: object) -> str:
    """Return a value and its class as messages show them."""
    text = repr(value)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return text if value is None else f"{text} ({type(value).__name__})"


def _listed(items: Any, name: str, noun: str) -> list[Any]:
    if isinstance(items, str | bytes | bytearray | dict) or not isinstance(items, Iterable):
        raise DataError(f"{name}: {shown(items)} is not a {noun}; give a list")
    return list(items)
