"""Readers of parallel text made from other readers: concatenated, with source and target swapped, or with tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, final

from heedful.data.readers import ExampleReader, SentencePair, T_co
from heedful.errors import DataError

_WILDCARDS: Final = re.compile(r"[*?\[]")


@final
class ConcatenatedReader(ExampleReader[T_co]):
    """Read the examples of several readers, one reader after the other."""

    def __init__(self, readers: Sequence[ExampleReader[T_co]]) -> None:
        super().__init__(*chain.from_iterable(reader.paths for reader in readers))
        self._readers = readers

    def __iter__(self) -> Iterator[T_co]:
        return chain.from_iterable(self._readers)


@final
class ReversedPairs(ExampleReader[SentencePair]):
    """Swap source and target of every pair, and the direction of its word links."""

    def __init__(self, reader: ExampleReader[SentencePair]) -> None:
        super().__init__(*reader.paths)
        self._reader = reader

    def __iter__(self) -> Iterator[SentencePair]:
        for pair in self._reader:
            links = tuple((target, source) for source, target in pair.links)
            yield pair._replace(source=pair.target, target=pair.source, links=links)


@final
class TaggedPairs(ExampleReader[SentencePair]):
    """Add tags to every pair; a tokenizer puts them before the source."""

    def __init__(self, reader: ExampleReader[SentencePair], tags: Sequence[str]) -> None:
        super().__init__(*reader.paths)
        self._reader, self._tags = reader, tuple(tags)

    def __iter__(self) -> Iterator[SentencePair]:
        return (pair._replace(tags=self._tags) for pair in self._reader)


@final
class _SingleFilePairs(ExampleReader[SentencePair]):
    """Pairs of one of several files; the file's name is added to the document name, so that no document continues
    in the next file.
    """

    def __init__(self, reader: ExampleReader[SentencePair], name: str) -> None:
        super().__init__(*reader.paths)
        self._reader, self._name = reader, name

    def __iter__(self) -> Iterator[SentencePair]:
        return (pair._replace(document=f"{self._name}\t{pair.document}") for pair in self._reader)


def open_matching_files(
    create_reader: Callable[..., ExampleReader[SentencePair]], *patterns: Path
) -> ExampleReader[SentencePair]:
    """Create one reader for all files that match patterns such as `part-*.gz`, in the order of their names.

    Args:
        create_reader: called with one file for each pattern.
        patterns: paths or patterns; the n-th match of each pattern is read together with the n-th matches of the
            others.

    Raises:
        DataError: nothing matches, or the patterns match different numbers of files.
    """
    matches = [_expand_pattern(pattern) for pattern in patterns]
    counts = list(map(len, matches))
    if len(set(counts)) > 1:
        counts_text = " and ".join(f"{count} files {pattern}" for count, pattern in zip(counts, patterns, strict=True))
        raise DataError(f"there are {counts_text}; each file needs its partner, so give the same number of both")
    readers = [create_reader(*paths) for paths in zip(*matches, strict=True)]
    if len(readers) == 1:
        return readers[0]
    return ConcatenatedReader([_SingleFilePairs(reader, str(index)) for index, reader in enumerate(readers)])


def _expand_pattern(pattern: Path) -> Sequence[Path]:
    """Return the files that match a pattern, sorted; a path without wildcards is returned as it is."""
    if pattern.exists() or not _WILDCARDS.search(str(pattern)):
        return [pattern]
    paths = sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
    if not paths:
        raise DataError(f"{pattern}: no file matches; check the path")
    return paths
