"""What every architecture is, as data."""

from __future__ import annotations

from typing import ClassVar

from heedful.recipes.section import Longest, Section


class Architecture(Section):
    """A family of models.

    Abstract: each family says what it is made of, and builds it.

    Attributes:
        kind: its name in recipes.
        d_model: width of what stands between the layers.
        built_by: the function that makes a freshly initialised model of it, as "module:name"; it needs torch.
    """

    built_by: ClassVar[str]

    kind: str
    d_model: int

    @property
    def longest(self) -> Longest | None:
        """How many places its positions have; None where they have no end."""
        return None
