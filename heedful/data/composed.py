"""Parallel texts made of others: several one after the other, with the sides exchanged, with tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar, final

from heedful.data.readers import Pair, Reader
from heedful.errors import DataError

_MAGIC: Final = re.compile(r"[*?\[]")

T_co = TypeVar("T_co", covariant=True)


@final
class Chained(Reader[T_co]):
    """The examples of several readers, one reader after the other."""

    def __init__(self, readers: Sequence[Reader[T_co]]) -> None:
        super().__init__(*chain.from_iterable(reader.paths for reader in readers))
        self._readers = readers

    def __iter__(self) -> Iterator[T_co]:
        return chain.from_iterable(self._readers)


@final
class Turned(Reader[Pair]):
    """Translations as sources, and sources as their translations."""

    def __init__(self, reader: Reader[Pair]) -> None:
        super().__init__(*reader.paths)
        self._reader = reader

    def __iter__(self) -> Iterator[Pair]:
        for each in self._reader:
            links = tuple((target, source) for source, target in each.links)
            yield each._replace(source=each.target, target=each.source, links=links)


@final
class Tagged(Reader[Pair]):
    """Pairs with tags, which a tokenizer puts before their sources."""

    def __init__(self, reader: Reader[Pair], tags: Sequence[str]) -> None:
        super().__init__(*reader.paths)
        self._reader, self._tags = reader, tuple(tags)

    def __iter__(self) -> Iterator[Pair]:
        return (each._replace(tags=self._tags) for each in self._reader)


@final
class _OfFile(Reader[Pair]):
    """Pairs of one of several files: a document does not go on from one to the next."""

    def __init__(self, reader: Reader[Pair], name: str) -> None:
        super().__init__(*reader.paths)
        self._reader, self._name = reader, name

    def __iter__(self) -> Iterator[Pair]:
        return (each._replace(document=f"{self._name}\t{each.document}") for each in self._reader)


def matching(read: Callable[..., Reader[Pair]], *patterns: Path) -> Reader[Pair]:
    """What `read` makes of files, or of all that match patterns such as `part-*.gz`, in the order of their names.

    Args:
        read: takes a file for each pattern.
        patterns: paths; of several, the first match of one goes with the first matches of the others.

    Raises:
        DataError: nothing matches, or not equally many files match patterns that belong together.
    """
    found = [_matches(pattern) for pattern in patterns]
    counts = list(map(len, found))
    if len(set(counts)) > 1:
        told = " and ".join(f"{count} files {pattern}" for count, pattern in zip(counts, patterns, strict=True))
        raise DataError(f"there are {told}; each needs its partner, so give equally many")
    readers = [read(*paths) for paths in zip(*found, strict=True)]
    if len(readers) == 1:
        return readers[0]
    return Chained([_OfFile(each, str(number)) for number, each in enumerate(readers)])


def _matches(pattern: Path) -> Sequence[Path]:
    if pattern.exists() or not _MAGIC.search(str(pattern)):
        return [pattern]
    found = sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
    if not found:
        raise DataError(f"{pattern}: no file matches; check the path")
    return found
