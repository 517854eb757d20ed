"""Checks of arguments of public functions: texts, lists of texts, pairs, and paths.

All methods that take a list also take a single element, which is a list of one: `translate("a dog")` is
`translate(["a dog"])`, and the result is a list with one answer. So the type of a result never depends on the number of
inputs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar, cast

from heedful.errors import DataError, RecipeError

Item = TypeVar("Item")

_SHOWN: Final = 60


def to_text_list(texts: str | Iterable[Item], *, name: str = "texts", extra_types: tuple[type, ...] = ()) -> list[Item]:
    """Return the texts as a list; one string is a list of one. `name` is the name of the argument in messages;
    `extra_types` are classes that an element may have instead of a string.

    Args:
        texts: strings, or one.
        name: of the argument, for messages.
        extra_types: other classes that are allowed instead of a string.

    Raises:
        DataError: an element is not a string; the message gives its index and value.
    """
    return to_item_list(
        cast("Item | Iterable[Item]", texts), str, *extra_types, name=name, noun="text", remedy="a string"
    )


def to_item_list(items: Item | Iterable[Item], *types: type, name: str, noun: str, remedy: str) -> list[Item]:
    """Return the elements as a list; one element is a list of one. `types` are the classes that an element may have;
    `name`, `noun` and `remedy` are words for messages.

    Args:
        items: elements, or one.
        types: classes of an element.
        name: of the argument, for messages.
        noun: word for an element, for messages.
        remedy: what to pass instead, for messages.

    Raises:
        DataError: an element is of another class; the message gives its index and value.
    """
    if isinstance(items, types):
        return [cast(Item, items)]
    if isinstance(items, bytes | bytearray | dict) or not isinstance(items, Iterable):
        raise DataError(f"{name}: {format_value(items)} is not a {noun}; give {remedy}, or a list of these")
    elements = list(items)
    for index, element in enumerate(elements):
        if not isinstance(element, types):
            raise DataError(f"{name}[{index}]: {format_value(element)} is not a {noun}; give {remedy}")
    return elements


def to_file_list(files: Any, *types: type, name: str, noun: str) -> list[Any]:
    """Return paths or file contents as a list; one is a list of one. `types` are the classes of file contents; `name`
    and `noun` are the argument's name and the word for an element in messages.

    Raises:
        DataError: an element is neither a path nor one of the other classes.
    """
    return to_item_list(files, str, os.PathLike, *types, name=name, noun=noun, remedy="a path")


def to_word_lists(sentences: str | Iterable[str | Sequence[str]], *, name: str = "sentences") -> list[list[str]]:
    """Return the words of each sentence; a sentence is a string with spaces between words, or a list of words. `name`
    is the name of the argument in messages.

    Raises:
        DataError: a sentence or a word has another type; the message gives its index and value.
    """
    sentence_words = []
    for index, sentence in enumerate(
        [sentences] if isinstance(sentences, str) else _to_list(sentences, name, "sentence")
    ):
        if isinstance(sentence, str):
            sentence_words.append(sentence.split())
        else:
            sentence_words.append(_to_list(sentence, f"{name}[{index}]", "sentence"))
            for word_index, word in enumerate(sentence_words[-1]):
                require_text(word, name=f"{name}[{index}][{word_index}]", noun="word")
    return sentence_words


def to_pair_list(pairs: Any, *, name: str, parts: str, extra_types: tuple[type, ...] = ()) -> list[Any]:
    """Return pairs as a list; one pair of strings is a list of one. `name` is the name of the argument in messages, and
    `parts` says there what a pair consists of.

    Args:
        pairs: of a text and what belongs to it, or one pair.
        name: of the argument, for messages.
        parts: what a pair consists of, for messages.
        extra_types: other classes that are allowed instead of a string.

    Raises:
        DataError: an element is not a pair; the message gives its index and value.
    """
    types = (str, *extra_types)
    if isinstance(pairs, tuple) and len(pairs) == 2 and all(isinstance(pair, types) for pair in pairs):
        return [pairs]
    elements = _to_list(pairs, name, "list of pairs")
    for index, pair in enumerate(elements):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise DataError(f"{name}[{index}]: {format_value(pair)} is not a pair; give {parts}")
        for part_index, part in enumerate(pair):
            if not isinstance(part, types):
                raise DataError(f"{name}[{index}][{part_index}]: {format_value(part)} is not a text; give a string")
    return elements


def require_text(text: Any, *, name: str, noun: str = "text", extra_types: tuple[type, ...] = ()) -> None:
    """Raise `DataError` unless the value is a string, or of one of `extra_types`. `name` is the name of the argument in
    the message, and `noun` the word for the value.

    Raises:
        DataError: the message names the argument and the value.
    """
    if not isinstance(text, (str, *extra_types)):
        raise DataError(f"{name}: {format_value(text)} is not a {noun}; give a string")


def require_path(path: Any, *, name: str) -> None:
    """Raise `RecipeError` unless the value is a string or path without null characters; `name` is the name of the
    argument in the message.

    Raises:
        RecipeError: the message names the argument and the value.
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise RecipeError(f"{name}: {format_value(path)} is not a path; give a string or a Path")
    if "\0" in os.fspath(path):
        raise RecipeError(
            f"{name}: {format_value(path)} contains a null character, which is not allowed in a path; remove it"
        )


def format_value(value: object) -> str:
    """Return a value and its class as text for messages."""
    text = repr(value)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return text if value is None else f"{text} ({type(value).__name__})"


def _to_list(items: Any, name: str, noun: str) -> list[Any]:
    """Convert an iterable to a list; raise `DataError` for strings, bytes, dictionaries and other values. `name` and
    `noun` are the argument's name and the word for its value in the message.
    """
    if isinstance(items, str | bytes | bytearray | dict) or not isinstance(items, Iterable):
        raise DataError(f"{name}: {format_value(items)} is not a {noun}; give a list")
    return list(items)
