"""What is read and wanted of sentences that are translated, and the search for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from heedful.data.factors import Encoded
from heedful.generation.start import Looked
from heedful.generation.start import Request as Wish
from heedful.models.interface import State
from heedful.tasks.finding import Finder
from heedful.tasks.target import Request, Target
from heedful.values import Tokens


@final
@dataclass(frozen=True)
class Wanted:
    """The number of a sentence, from 0, what is read of it or of one of its parts, and what is wanted for that."""

    row: int
    read: Encoded
    request: Request


@final
class Ends:
    """Tells how many sentences are finished, each with the last of its parts.

    Args:
        rows: of each part the number of its sentence.
        tick: told.
        empty: sentences without a part, which are finished at once.
    """

    def __init__(self, rows: Sequence[int], tick: Callable[[int], None] | None, *, empty: int) -> None:
        self._rows = rows
        self._tick = tick
        self._waiting = Counter(rows)
        if tick is not None and empty:
            tick(empty)

    def __call__(self, parts: Sequence[int]) -> None:
        """These parts, by their numbers, are translated."""
        rows = [self._rows[part] for part in parts]
        self._waiting.subtract(rows)
        if self._tick is not None:
            self._tick(sum(not self._waiting[row] for row in set(rows)))


@final
@dataclass(frozen=True)
class Finding(Finder[Wanted]):
    """Translations by one way to search; translators that differ in the tags before their sources share it.

    Attributes:
        target: the side that is written.
        sources: a batch of what is read.
        looked: says what texts looked at.
    """

    target: Target
    sources: Callable[[Sequence[Encoded]], Tokens] = field(compare=False)
    looked: Callable[[Sequence[Encoded]], Looked] = field(compare=False)

    def begun(self, batch: list[Wanted]) -> tuple[State, Wish]:
        """Behind what is read."""
        read = [each.read for each in batch]
        wish = self.target.wish([each.request for each in batch], looked=self.looked(read))
        return self.engine.begin(self.sources(read)), wish
