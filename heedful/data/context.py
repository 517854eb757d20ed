"""Sentences in their documents: which stand before each of them, and how these are read with it.

The source of a sentence is read behind the sources before it, each with a separator behind it that no text has; its
translation stays that of the one sentence (Tiedemann and Scherrer 2017, section 3.1: 2+1). A line that is empty ends a
document.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np

from heedful.data.factors import Encoded, Reading
from heedful.data.readers import Pair, Reader
from heedful.data.tokenizers import Tokenizer

SEPARATOR: Final = "<ctx>"
"""The piece of a vocabulary that stands behind each sentence which is read before another one."""


@final
@dataclass(frozen=True)
class Following:
    """A sentence, and those before it in its document, the nearest last."""

    text: str
    before: tuple[str, ...]


Readable: TypeAlias = str | Following
"""A sentence that stands by itself, or one with those before it."""


def readable(text: str, before: Iterable[str]) -> Readable:
    """A sentence with those before it, where there are any."""
    known = tuple(before)
    return Following(text, known) if known else text


def text_of(sentence: Readable) -> str:
    """The sentence alone."""
    return sentence if isinstance(sentence, str) else sentence.text


def before(sentence: Readable) -> tuple[str, ...]:
    """The sentences before it."""
    return () if isinstance(sentence, str) else sentence.before


def following(lines: Iterable[str], *, sentences: int) -> Iterator[Readable]:
    """Each line with as many before it in its document as there are, but at most `sentences`."""
    seen = deque[str](maxlen=sentences)
    for line in lines:
        yield readable(line, seen if line.strip() else ())
        if line.strip():
            seen.append(line)
        else:
            seen.clear()


def documents(pairs: Iterable[Pair]) -> Iterator[tuple[int, Pair]]:
    """Pairs with the numbers of their documents, from 0: an empty source ends one, and so does another `document`."""
    number, name, ended = -1, "", True
    for pair in pairs:
        if pair.source and (ended or pair.document != name):
            number += 1
        name, ended = pair.document, not pair.source
        yield max(0, number), pair


def in_context(pairs: Iterable[Pair], *, sentences: int) -> Iterator[Pair]:
    """Pairs with the sources before theirs, of the same document and at most `sentences`.

    A pair without a translation is one that others follow; a pair without a source ends the document.
    """
    seen, here = deque[str](maxlen=sentences), 0
    for number, pair in documents(pairs):
        if number != here:
            seen.clear()
        here = number
        yield pair._replace(before=tuple(seen) if pair.source else ())
        if pair.source:
            seen.append(pair.source)


@final
class InContext(Reader[Pair]):
    """The pairs of a reader with the sources before theirs; see `in_context`."""

    def __init__(self, reader: Reader[Pair], *, sentences: int) -> None:
        super().__init__(*reader.paths)
        self._reader, self._sentences = reader, sentences

    def __iter__(self) -> Iterator[Pair]:
        return in_context(self._reader, sentences=self._sentences)


def asked(pair: Pair) -> Readable:
    """The source of a pair, with what stands before it."""
    return readable(pair.source, pair.before)


def led(reading: Reading, own: Encoded, before: Sequence[str], *, longest: int) -> Encoded:
    """A sentence behind the sentences before it, which stand behind its tags; separators have no factors.

    Args:
        reading: of the sentence, with a tokenizer that has the separator.
        own: the sentence.
        before: those before it, the nearest last.
        longest: how many pieces there may be; what is too much is cut off those that are farthest away.
    """
    if not before or not own.ids:
        return own
    first, room = len(reading.tokenizer.opening), max(0, longest - len(own))
    ids, numbers = list[int](), list[np.ndarray]()
    for text in before:
        words = text.split()  # there is no word without a piece, so more are never needed
        there = reading.encode(text if len(words) <= longest else " ".join(words[-longest:]))
        if len(there) == first:
            continue
        ids += [*there.ids[first:], reading.tokenizer.tags[SEPARATOR]]
        if there.factors is not None:
            numbers += [there.factors[first:], np.zeros_like(there.factors[:1])]
    cut = max(0, len(ids) - room)
    whole = [*own.ids[:first], *ids[cut:], *own.ids[first:]]
    if own.factors is None or not numbers:
        return Encoded(whole, own.factors)
    return Encoded(whole, np.concatenate([own.factors[:first], np.concatenate(numbers)[cut:], own.factors[first:]]))


def own_places(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """Where the ids of a sentence and its tags stand among those that `led` gave."""
    separator, first = tokenizer.tags.get(SEPARATOR), len(tokenizer.opening)
    if separator is None:
        return list(range(len(ids)))
    behind = next((at for at in range(len(ids), first, -1) if ids[at - 1] == separator), first)
    return [*range(min(first, len(ids))), *range(behind, len(ids))]
