"""What every architecture is, as data."""

from __future__ import annotations

from abc import abstractmethod

from heedful.recipes.section import Longest, Section


class Architecture(Section):
    """A family of models.

    Abstract: each family says what it is made of, and builds it.

    Attributes:
        kind: its name in recipes.
        d_model: width of what stands between the layers.
    """

    kind: str
    d_model: int

    @property
    @abstractmethod
    def longest(self) -> Longest | None:
        """How many places its positions have; None where they have no end."""
