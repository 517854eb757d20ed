"""What is read and wanted of sentences that are translated, and the search for it."""

from __future__ import annotations

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
