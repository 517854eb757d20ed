"""Two records of the same text side by side: where models, or two states of one, attend differently."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from heedful.attention.probe import Role
from heedful.errors import DataError
from heedful.inspection.record import Map, Record


@dataclass(frozen=True)
class Difference:
    """How far two heads are apart.

    Attributes:
        role: of the attention.
        layer: of it.
        head: its number.
        largest: difference of any weight.
        divergence: Jensen-Shannon divergence of their rows in bits, on average over queries: 0 for the same weights,
            1 where they look at different keys altogether (Lin 1991).
    """

    role: Role
    layer: int
    head: int
    largest: float
    divergence: float


def differences(first: Record, second: Record) -> tuple[Difference, ...]:
    """Every head that both records have, in the order of the first.

    Raises:
        DataError: the tokens are not the same, or no attention is in both.
    """
    others = {(each.role, each.layer): each for each in second.maps}
    found = []
    for each in first.maps:
        other = others.get((each.role, each.layer))
        if other is not None:
            _check(first, second, each)
            heads = [head for head in each.heads if head in other.heads]
            found += [_difference(each, head, other.head(head)) for head in heads]
    if not found:
        raise DataError("the records have no head in common, so there is nothing to compare")
    return tuple(found)


def _check(first: Record, second: Record, each: Map) -> None:
    for name in (each.queries, each.keys):
        mine, others = first.axis(name).tokens, second.axis(name).tokens
        if mine != others:
            raise DataError(
                f"the {name} tokens of the records differ ({' '.join(mine)!r} and {' '.join(others)!r}); "
                "record the same text, with --target where models write differently"
            )


def _difference(each: Map, head: int, others: Float[np.ndarray, "Q K"]) -> Difference:
    mine = each.head(head)
    divergence = float(_divergences(mine, others).mean())
    return Difference(each.role, each.layer, head, float(np.abs(mine - others).max()), divergence)


def _divergences(one: Float[np.ndarray, "Q K"], other: Float[np.ndarray, "Q K"]) -> Float[np.ndarray, " Q"]:
    """Of rows, as shares of their sums."""
    p, q = (_shares(np.abs(each.astype(np.float64))) for each in (one, other))
    middle = (p + q) / 2
    result: np.ndarray = (_relative(p, middle) + _relative(q, middle)) / 2
    return result


def _shares(rows: np.ndarray) -> np.ndarray:
    sums = rows.sum(1, keepdims=True)
    result: np.ndarray = np.divide(rows, sums, out=np.zeros_like(rows), where=sums > 0)
    return result


def _relative(p: np.ndarray, middle: np.ndarray) -> np.ndarray:
    ratio = np.divide(p, middle, out=np.ones_like(p), where=p > 0)
    result: np.ndarray = (p * np.log2(ratio)).sum(1)
    return result
