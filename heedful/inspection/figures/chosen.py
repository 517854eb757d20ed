"""Which attention of a record a picture shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from heedful.attention.probe import Role
from heedful.errors import DataError
from heedful.inspection.heatmap import GLOW, Ramp
from heedful.inspection.record import Map, Record

_ROLES: tuple[Role, ...] = ("cross", "summary", "decoder", "encoder")


@dataclass(frozen=True)
class Chosen:
    """What to look at.

    Attributes:
        role: who looks at whom; None for the first of cross, summary, decoder and encoder that there is.
        layer: its number; -1 is the last.
        head: its number; None for all of them, or their mean.
        ramp: the colours of weights.
    """

    role: Role | None = None
    layer: int = -1
    head: int | None = None
    ramp: Ramp = GLOW

    def map_of(self, record: Record) -> Map:
        """The map of this role and layer.

        Raises:
            DataError: there is none, or none of its heads is in the record.
        """
        roles = {each.role for each in record.maps}
        there: list[Role] = [role for role in _ROLES if role in roles]
        role = self.role or (there[0] if there else "cross")
        found = record.find(role, layer=self.layer)
        if not found.weights.size:
            raise DataError(f"{found.name}: this record has none of its weights; inspect with other --heads")
        return found

    def weights_of(self, each: Map) -> Float[np.ndarray, "Q K"]:
        """The weights of the head, or the mean over heads, cut to [0, 1]."""
        weights = each.mean if self.head is None else each.head(self.head)
        cut: np.ndarray = np.clip(weights, 0, 1)
        return cut

    def name_of(self, each: Map) -> str:
        """A heading for these weights."""
        if self.head is not None:
            name = f"{each.name}, head {self.head}"
        elif len(each.heads) == 1:
            name = each.name
        else:
            name = f"{each.name}, mean of {len(each.heads)} heads"
        beyond = bool(each.weights.size) and (each.weights.min() < -1e-3 or each.weights.max() > 1 + 1e-3)
        return f"{name} (weights below 0 or above 1 are drawn as 0 and 1)" if beyond else name
