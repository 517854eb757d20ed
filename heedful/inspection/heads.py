"""Measures of attention heads for one text or many, and comparison of two records of one text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float

from heedful.attention.hooks import AttentionKind
from heedful.errors import DataError
from heedful.inspection.record import AttentionMap, InspectionRecord

_UNIFORM_ENTROPY, _MAX_CHANGE = 0.99, 0.01

PerHead = Float[np.ndarray, " H"]


@dataclass(frozen=True)
class HeadMeasures:
    """Measures of each head of a map, averaged over queries; NaN if no query can be measured.

    Queries that see nothing are ignored. Weights are relative to their sum, which is 1 for most attention.

    Attributes:
        entropy: in nats.
        relative_entropy: 0 if all weight is on one key, 1 if it is equal on all visible keys; of queries that see more
            than one key.
        distance: between query and key, in tokens; if both are on the same axis.
        diagonal: weight on the key with the query's own index; of queries for which there is such a key.
        previous: weight on the key before that one, likewise.
        next: weight on the key after it, likewise.
        first: weight on the first key.
        last: weight on the last key.
        largest: the largest weight.
        uniform: whether every query attends to all visible keys alike, with a relative entropy above 0.99.
        unchanging: whether queries that see the same keys have the same weights, up to 0.01.
        counts: number of queries of each mean, by name; for the last two, 1 if the text can tell and 0 if it cannot,
            because no query sees two keys, or no two queries see the same ones.
    """

    entropy: PerHead
    relative_entropy: PerHead
    distance: PerHead
    diagonal: PerHead
    previous: PerHead
    next: PerHead
    first: PerHead
    last: PerHead
    largest: PerHead
    uniform: Bool[np.ndarray, " H"]
    unchanging: Bool[np.ndarray, " H"]
    counts: Mapping[str, int]


MEASURES = tuple(each.name for each in fields(HeadMeasures) if each.name != "counts")
"""The names of all measures."""


@dataclass(frozen=True)
class HeadMeasureSums:
    """The measures of one head summed over queries; sums of different texts can be added.

    Attributes:
        totals: by name of the measure.
        counts: number of queries of each, likewise.
        texts: number of texts.
    """

    totals: Mapping[str, float]
    counts: Mapping[str, int]
    texts: int

    @staticmethod
    def from_measures(measures: HeadMeasures, index: int) -> HeadMeasureSums:
        """Create the sums of one head for one text; `index` is the position of the head in `measures`."""
        counts = measures.counts
        means = {name: float(getattr(measures, name)[index]) for name in MEASURES}
        return HeadMeasureSums(
            {name: mean * counts[name] if counts[name] else 0.0 for name, mean in means.items()}, counts, 1
        )

    def __add__(self, other: HeadMeasureSums) -> HeadMeasureSums:
        return HeadMeasureSums(
            {name: self.totals[name] + other.totals[name] for name in MEASURES},
            {name: self.counts[name] + other.counts[name] for name in MEASURES},
            self.texts + other.texts,
        )

    @property
    def averages(self) -> dict[str, float]:
        """The measures over all texts, with equal weight for every query; NaN where no text can be measured.

        For `uniform` and `unchanging`, the share of texts for which it holds among those that can tell; besides,
        `texts` is the number of texts and `queries` the number of queries.
        """
        means = {name: self.totals[name] / count if count else math.nan for name, count in self.counts.items()}
        return {**means, "texts": self.texts, "queries": self.counts["entropy"]}


def compute_head_measures(
    weights: Float[np.ndarray, "H Q K"], visible: Bool[np.ndarray, "Q K"], *, same_axis: bool
) -> HeadMeasures:
    """Measure each head of one attention map; `visible` says which keys each query may see. Distances are measured only
    if queries and keys are on the same axis.

    Args:
        weights: of one attention module.
        visible: which keys each query may see.
        same_axis: whether queries and keys are on the same axis.
    """
    can_see = visible.any(1)
    shares = _normalize_weights(weights[:, can_see])
    visible_rows = visible[can_see]
    queries, keys = np.flatnonzero(can_see), np.arange(weights.shape[2])
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(2)
    sees_several = visible_rows.sum(1) > 1
    relative = entropy[:, sees_several] / np.log(visible_rows.sum(1)[sees_several])
    distances = np.abs(queries[:, None] - keys)
    rows = {
        "entropy": entropy,
        "relative_entropy": relative,
        "distance": (shares * distances).sum(2) if same_axis else entropy[:, :0],
        "diagonal": _select_offset(shares, queries, 0),
        "previous": _select_offset(shares, queries, -1),
        "next": _select_offset(shares, queries, 1),
        "first": shares[:, :, 0] if len(keys) else entropy[:, :0],
        "last": shares[:, :, -1] if len(keys) else entropy[:, :0],
        "largest": shares.max(2, initial=0.0),
    }
    unchanging = _find_unchanging(shares[:, sees_several], visible_rows[sees_several])
    no_heads = np.zeros(len(weights), bool)
    return HeadMeasures(
        **{name: values.mean(1) if values.shape[1] else no_heads + np.nan for name, values in rows.items()},
        uniform=(relative > _UNIFORM_ENTROPY).all(1) if sees_several.any() else no_heads,
        unchanging=no_heads if unchanging is None else unchanging,
        counts={
            **{name: values.shape[1] for name, values in rows.items()},
            "uniform": int(sees_several.any()),
            "unchanging": int(unchanging is not None),
        },
    )


def measure_map(attention_map: AttentionMap) -> HeadMeasures:
    """Measure each head of a map, averaged over queries."""
    # A written token gets the position of the token read in the same step, so that both axes of a decoder agree.
    return compute_head_measures(
        attention_map.weights, attention_map.visible, same_axis=attention_map.role in ("encoder", "decoder")
    )


def find_head_warnings(record: InspectionRecord) -> tuple[str, ...]:
    """Return a warning for each map whose heads attend uniformly, or alike for all queries."""
    messages = []
    for attention_map in record.maps:
        measures = measure_map(attention_map)
        uniform_and_unchanging = measures.uniform & measures.unchanging
        cases = (
            (measures.uniform, "every token that it sees gets the same weight (entropy above 99 % of the largest)"),
            (
                measures.unchanging & ~uniform_and_unchanging,
                "the weights are the same for all queries that see the same tokens",
            ),
        )
        messages += [
            f"{attention_map.name}, {_format_heads(attention_map, flags)}: {text}"
            for flags, text in cases
            if flags.any()
        ]
    return tuple(messages)


@dataclass(frozen=True)
class HeadDifference:
    """How much two records differ in one head.

    Attributes:
        role: of the attention.
        layer: of the attention.
        head: its number.
        largest: largest difference of a weight.
        divergence: Jensen-Shannon divergence of the rows in bits, averaged over queries: 0 for equal weights, 1 if they
            are on different keys (Lin 1991).
    """

    role: AttentionKind
    layer: int
    head: int
    largest: float
    divergence: float


def compare_heads(first: InspectionRecord, second: InspectionRecord) -> tuple[HeadDifference, ...]:
    """Compare the weights of every head that both records have, in the order of the first record.

    Raises:
        DataError: the tokens differ, or the records share no attention.
    """
    second_maps = {(attention_map.role, attention_map.layer): attention_map for attention_map in second.maps}
    differences_of_heads = []
    for attention_map in first.maps:
        second_map = second_maps.get((attention_map.role, attention_map.layer))
        if second_map is not None:
            _require_same_tokens(first, second, attention_map)
            heads = [head for head in attention_map.heads if head in second_map.heads]
            differences_of_heads += [
                _compare_head(attention_map, head, second_map.get_head_weights(head)) for head in heads
            ]
    if not differences_of_heads:
        raise DataError("the records have no head in common, so there is nothing to compare")
    return tuple(differences_of_heads)


def _require_same_tokens(first: InspectionRecord, second: InspectionRecord, attention_map: AttentionMap) -> None:
    """Raise `DataError` if the query or key tokens of a map differ between two records of that map."""
    for name in (attention_map.queries, attention_map.keys):
        first_tokens, second_tokens = first.get_axis(name).tokens, second.get_axis(name).tokens
        if first_tokens != second_tokens:
            raise DataError(
                f"the {name} tokens of the records differ ({' '.join(first_tokens)!r} and "
                f"{' '.join(second_tokens)!r}); "
                "record the same text, with --pair if the models write different texts"
            )


def _compare_head(attention_map: AttentionMap, head: int, other_weights: Float[np.ndarray, "Q K"]) -> HeadDifference:
    """Compare the weights of a head with those of the same head in another record, `other_weights`."""
    weights = attention_map.get_head_weights(head)
    p, q = (_normalize_weights(attention_map) for attention_map in (weights, other_weights))
    middle = (p + q) / 2
    divergence = float(((_compute_kl_divergence(p, middle) + _compute_kl_divergence(q, middle)) / 2).mean())
    return HeadDifference(
        attention_map.role, attention_map.layer, head, float(np.abs(weights - other_weights).max()), divergence
    )


def _normalize_weights(weights: Float[np.ndarray, "*H Q K"]) -> Float[np.ndarray, "*H Q K"]:
    """Return absolute weights divided by their row sums; 0 where the sum is 0."""
    sizes = np.abs(weights.astype(np.float64))
    sums = sizes.sum(-1, keepdims=True)
    shares: np.ndarray = np.divide(sizes, sums, out=np.zeros_like(sizes), where=sums > 0)
    return shares


def _compute_kl_divergence(p: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Return the Kullback-Leibler divergence of each row of `p` from the row of `middle`, in bits."""
    ratio = np.divide(p, middle, out=np.ones_like(p), where=p > 0)
    result: np.ndarray = (p * np.log2(ratio)).sum(1)
    return result


def _format_heads(attention_map: AttentionMap, flags: Bool[np.ndarray, " H"]) -> str:
    """Return the numbers of the heads whose flag is True in words, such as "heads 0, 2"."""
    numbers = [str(head) for head, flag in zip(attention_map.heads, flags, strict=True) if flag]
    return f"head {numbers[0]}" if len(numbers) == 1 else f"heads {', '.join(numbers)}"


def _select_offset(shares: Float[np.ndarray, "H Q K"], queries: np.ndarray, step: int) -> Float[np.ndarray, "H N"]:
    """Return each query's weight on the key `step` positions after its own (before it, if negative). `queries` are the
    positions of the rows; rows without such a key are left out.
    """
    keys = queries + step
    is_valid = (keys >= 0) & (keys < shares.shape[2])
    offset_weights: np.ndarray = shares[:, np.flatnonzero(is_valid), keys[is_valid]]
    return offset_weights


def _find_unchanging(
    shares: Float[np.ndarray, "H Q K"], visible_rows: Bool[np.ndarray, "Q K"]
) -> Bool[np.ndarray, " H"] | None:
    """Return whether all queries that see the same keys have the same weights, for each head; None if no two queries
    see the same. `shares` are weights that sum to 1; `visible_rows` are the keys that each query sees.
    """
    groups: dict[bytes, list[int]] = {}
    for row, bits in enumerate(visible_rows):
        groups.setdefault(bits.tobytes(), []).append(row)
    changes = [np.ptp(shares[:, rows], axis=1).max(1) for rows in groups.values() if len(rows) > 1]
    is_unchanging: np.ndarray | None = np.max(changes, axis=0) < _MAX_CHANGE if changes else None
    return is_unchanging
