"""What a comparison of runs is, whatever their task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.recipes.recipe import Recipe

if TYPE_CHECKING:
    from heedful.cli.compare import Arguments


@dataclass(frozen=True)
class Entry:
    """A run that takes part, trained or still to be trained.

    Attributes:
        folder: of the run.
        recipe: a complete one.
        file: the recipe file that leads to the run, where one was named.
        changes: keys that differ from the file, as words of a command line.
    """

    folder: Path
    recipe: Recipe
    file: Path | None = None
    changes: tuple[str, ...] = ()

    @property
    def believed(self) -> Recipe | None:
        """The recipe that counts instead of the one in the folder; None where the folder was named."""
        return None if self.file is None else self.recipe


class Compared(ABC):
    """What was found."""

    @abstractmethod
    def text(self) -> str:
        """For a terminal: plain lines, whatever its width."""

    @abstractmethod
    def html(self) -> str:
        """A page that needs nothing else."""

    @abstractmethod
    def figure(self) -> str:
        """The most telling picture, as SVG."""

    @abstractmethod
    def json(self) -> str:
        """All numbers."""


class Comparison(ABC):
    """Runs of one task on the same text.

    Making one complains about whatever makes a comparison impossible and is known before anything is trained.

    Args:
        entries: in the order in which they were named; the others are tested against the first.
        given: the options of the command.

    Raises:
        DataError: a text cannot be read, or holds nothing to compare on.
        RecipeError: the runs have different texts, or an option does not suit their task.
    """

    @abstractmethod
    def __init__(self, entries: Sequence[Entry], given: Arguments) -> None: ...

    @abstractmethod
    def compared(self) -> Compared:
        """Runs every model over the text, once all are trained.

        Raises:
            DataError: a text cannot be read by one of them.
            RunError: a run is damaged or nothing was trained yet.
        """
