"""What kind of head it is, in numbers: how sharp, how far, which tokens; for one text and for many, and for two records
of one text, where models, or two states of one, attend differently."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float

from heedful.attention.probe import Role
from heedful.errors import DataError
from heedful.inspection.record import Map, Record

_UNIFORM, _STILL = 0.99, 0.01

Numbers = Float[np.ndarray, " H"]


@dataclass(frozen=True)
class Measures:
    """Means over the queries of each head; NaN where no query has what is measured.

    Queries that see nothing count nowhere. Weights are taken relative to their sum, which is 1 for most attentions.

    Attributes:
        entropy: in nats.
        relative_entropy: 0 where all weight is on one key, 1 where it is equal on all visible ones; of queries that
            see more than one key.
        distance: between query and key, in tokens; where both are counted along the same axis.
        diagonal: weight on the key with the query's own number; of queries for which there is such a key.
        previous: on the key before that one, likewise.
        next: on the key behind it, likewise.
        first: on the first key.
        last: on the last key.
        largest: the largest weight.
        uniform: every query looks at all that it sees alike, with a relative entropy above 0.99.
        unchanging: queries that see the same keys have the same weights, up to 0.01.
        counts: how many queries each mean is of, by its name; for the last two, 1 if the text can tell and 0 if it
            cannot, because no query sees two keys, or no two queries see the same ones.
    """

    entropy: Numbers
    relative_entropy: Numbers
    distance: Numbers
    diagonal: Numbers
    previous: Numbers
    next: Numbers
    first: Numbers
    last: Numbers
    largest: Numbers
    uniform: Bool[np.ndarray, " H"]
    unchanging: Bool[np.ndarray, " H"]
    counts: Mapping[str, int]


MEASURES = tuple(each.name for each in fields(Measures) if each.name != "counts")
"""The names of all measures."""


@dataclass(frozen=True)
class Sums:
    """The measures of one head, summed over queries; sums of different texts can be added.

    Attributes:
        totals: by the name of the measure.
        counts: how many queries each is of, likewise.
        texts: how many there were.
    """

    totals: Mapping[str, float]
    counts: Mapping[str, int]
    texts: int

    @staticmethod
    def of(measures: Measures, place: int) -> Sums:
        """Of the head at this place of a text's measures."""
        counts = measures.counts
        means = {name: float(getattr(measures, name)[place]) for name in MEASURES}
        return Sums({name: mean * counts[name] if counts[name] else 0.0 for name, mean in means.items()}, counts, 1)

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            {name: self.totals[name] + other.totals[name] for name in MEASURES},
            {name: self.counts[name] + other.counts[name] for name in MEASURES},
            self.texts + other.texts,
        )

    @property
    def averages(self) -> dict[str, float]:
        """The measures over all texts, in which every query counts the same; NaN where no text has what is measured.

        Of `uniform` and `unchanging` the share of the texts that can tell in which it is so; besides `texts`, how many
        there were, and `queries`, how many tokens looked in all of them.
        """
        means = {name: self.totals[name] / count if count else math.nan for name, count in self.counts.items()}
        return {**means, "texts": self.texts, "queries": self.counts["entropy"]}


def head_measures(
    weights: Float[np.ndarray, "H Q K"], visible: Bool[np.ndarray, "Q K"], *, same_axis: bool
) -> Measures:
    """What kind of head each one is.

    Args:
        weights: of one attention.
        visible: who may see whom.
        same_axis: whether queries and keys are counted along the same text.
    """
    seeing = visible.any(1)
    shares = _shares(weights[:, seeing])
    seen = visible[seeing]
    queries, keys = np.flatnonzero(seeing), np.arange(weights.shape[2])
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(2)
    several = seen.sum(1) > 1
    relative = entropy[:, several] / np.log(seen.sum(1)[several])
    distances = np.abs(queries[:, None] - keys)
    rows = {
        "entropy": entropy,
        "relative_entropy": relative,
        "distance": (shares * distances).sum(2) if same_axis else entropy[:, :0],
        "diagonal": _beside(shares, queries, 0),
        "previous": _beside(shares, queries, -1),
        "next": _beside(shares, queries, 1),
        "first": shares[:, :, 0] if len(keys) else entropy[:, :0],
        "last": shares[:, :, -1] if len(keys) else entropy[:, :0],
        "largest": shares.max(2, initial=0.0),
    }
    unchanging = _unchanging(shares[:, several], seen[several])
    none = np.zeros(len(weights), bool)
    return Measures(
        **{name: each.mean(1) if each.shape[1] else none + np.nan for name, each in rows.items()},
        uniform=(relative > _UNIFORM).all(1) if several.any() else none,
        unchanging=none if unchanging is None else unchanging,
        counts={
            **{name: each.shape[1] for name, each in rows.items()},
            "uniform": int(several.any()),
            "unchanging": int(unchanging is not None),
        },
    )


def measures_of(each: Map) -> Measures:
    """What kind of head each one of a map is."""
    # What was written stands at the place of what was read then, so that a decoder's axes count the same places.
    return head_measures(each.weights, each.visible, same_axis=each.role in ("encoder", "decoder"))


def warnings(record: Record) -> tuple[str, ...]:
    """Which heads look at nothing in particular, or always at the same, in plain words."""
    found = []
    for each in record.maps:
        measures = measures_of(each)
        both = measures.uniform & measures.unchanging
        cases = (
            (measures.uniform, "every token that it sees gets the same weight (entropy above 99 % of the largest)"),
            (measures.unchanging & ~both, "the weights are the same for all queries that see the same tokens"),
        )
        found += [f"{each.name}, {_heads(each, flags)}: {text}" for flags, text in cases if flags.any()]
    return tuple(found)


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
                "record the same text, with --pair where models write differently"
            )


def _difference(each: Map, head: int, others: Float[np.ndarray, "Q K"]) -> Difference:
    mine = each.head(head)
    p, q = (_shares(each) for each in (mine, others))
    middle = (p + q) / 2
    divergence = float(((_relative(p, middle) + _relative(q, middle)) / 2).mean())
    return Difference(each.role, each.layer, head, float(np.abs(mine - others).max()), divergence)


def _shares(weights: Float[np.ndarray, "*H Q K"]) -> Float[np.ndarray, "*H Q K"]:
    """Of the weights of each query, relative to their sum; 0 where there is none."""
    sizes = np.abs(weights.astype(np.float64))
    sums = sizes.sum(-1, keepdims=True)
    shares: np.ndarray = np.divide(sizes, sums, out=np.zeros_like(sizes), where=sums > 0)
    return shares


def _relative(p: np.ndarray, middle: np.ndarray) -> np.ndarray:
    ratio = np.divide(p, middle, out=np.ones_like(p), where=p > 0)
    result: np.ndarray = (p * np.log2(ratio)).sum(1)
    return result


def _heads(each: Map, flags: Bool[np.ndarray, " H"]) -> str:
    numbers = [str(head) for head, flag in zip(each.heads, flags, strict=True) if flag]
    return f"head {numbers[0]}" if len(numbers) == 1 else f"heads {', '.join(numbers)}"


def _beside(shares: Float[np.ndarray, "H Q K"], queries: np.ndarray, step: int) -> Float[np.ndarray, "H N"]:
    """Weights on the keys so many tokens behind the queries, where there are such keys."""
    keys = queries + step
    there = (keys >= 0) & (keys < shares.shape[2])
    found: np.ndarray = shares[:, np.flatnonzero(there), keys[there]]
    return found


def _unchanging(shares: Float[np.ndarray, "H Q K"], seen: Bool[np.ndarray, "Q K"]) -> Bool[np.ndarray, " H"] | None:
    """Whether no weight changes between queries that see the same; None where no two do."""
    groups: dict[bytes, list[int]] = {}
    for row, bits in enumerate(seen):
        groups.setdefault(bits.tobytes(), []).append(row)
    changes = [np.ptp(shares[:, rows], axis=1).max(1) for rows in groups.values() if len(rows) > 1]
    still: np.ndarray | None = np.max(changes, axis=0) < _STILL if changes else None
    return still
