"""What kind of head it is, in numbers: how sharp, how far, which tokens; for one text and for many, and for two records
of one text, where models, or two states of one, attend differently."""

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
    def from_measures(measures: HeadMeasures, index: int) -> HeadMeasureSums:
        """Of the head at this place of a text's measures."""
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
        """The measures over all texts, in which every query counts the same; NaN where no text has what is measured.

        Of `uniform` and `unchanging` the share of the texts that can tell in which it is so; besides `texts`, how many
        there were, and `queries`, how many tokens looked in all of them.
        """
        means = {name: self.totals[name] / count if count else math.nan for name, count in self.counts.items()}
        return {**means, "texts": self.texts, "queries": self.counts["entropy"]}


def compute_head_measures(
    weights: Float[np.ndarray, "H Q K"], visible: Bool[np.ndarray, "Q K"], *, same_axis: bool
) -> HeadMeasures:
    """What kind of head each one is.

    Args:
        weights: of one attention.
        visible: who may see whom.
        same_axis: whether queries and keys are counted along the same text.
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
    """What kind of head each one of a map is."""
    # What was written stands at the place of what was read then, so that a decoder's axes count the same places.
    return compute_head_measures(
        attention_map.weights, attention_map.visible, same_axis=attention_map.role in ("encoder", "decoder")
    )


def find_head_warnings(record: InspectionRecord) -> tuple[str, ...]:
    """Which heads look at nothing in particular, or always at the same, in plain words."""
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
    """How far two heads are apart.

    Attributes:
        role: of the attention.
        layer: of it.
        head: its number.
        largest: difference of any weight.
        divergence: Jensen-Shannon divergence of their rows in bits, on average over queries: 0 for the same weights,
            1 where they look at different keys altogether (Lin 1991).
    """

    role: AttentionKind
    layer: int
    head: int
    largest: float
    divergence: float


def compare_heads(first: InspectionRecord, second: InspectionRecord) -> tuple[HeadDifference, ...]:
    """Every head that both records have, in the order of the first.

    Raises:
        DataError: the tokens are not the same, or no attention is in both.
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
    for name in (attention_map.queries, attention_map.keys):
        first_tokens, second_tokens = first.get_axis(name).tokens, second.get_axis(name).tokens
        if first_tokens != second_tokens:
            raise DataError(
                f"the {name} tokens of the records differ ({' '.join(first_tokens)!r} and {' '.join(second_tokens)!r}); "
                "record the same text, with --pair where models write differently"
            )


def _compare_head(attention_map: AttentionMap, head: int, other_weights: Float[np.ndarray, "Q K"]) -> HeadDifference:
    weights = attention_map.get_head_weights(head)
    p, q = (_normalize_weights(attention_map) for attention_map in (weights, other_weights))
    middle = (p + q) / 2
    divergence = float(((_compute_kl_divergence(p, middle) + _compute_kl_divergence(q, middle)) / 2).mean())
    return HeadDifference(
        attention_map.role, attention_map.layer, head, float(np.abs(weights - other_weights).max()), divergence
    )


def _normalize_weights(weights: Float[np.ndarray, "*H Q K"]) -> Float[np.ndarray, "*H Q K"]:
    """Of the weights of each query, relative to their sum; 0 where there is none."""
    sizes = np.abs(weights.astype(np.float64))
    sums = sizes.sum(-1, keepdims=True)
    shares: np.ndarray = np.divide(sizes, sums, out=np.zeros_like(sizes), where=sums > 0)
    return shares


def _compute_kl_divergence(p: np.ndarray, middle: np.ndarray) -> np.ndarray:
    ratio = np.divide(p, middle, out=np.ones_like(p), where=p > 0)
    result: np.ndarray = (p * np.log2(ratio)).sum(1)
    return result


def _format_heads(attention_map: AttentionMap, flags: Bool[np.ndarray, " H"]) -> str:
    numbers = [str(head) for head, flag in zip(attention_map.heads, flags, strict=True) if flag]
    return f"head {numbers[0]}" if len(numbers) == 1 else f"heads {', '.join(numbers)}"


def _select_offset(shares: Float[np.ndarray, "H Q K"], queries: np.ndarray, step: int) -> Float[np.ndarray, "H N"]:
    """Weights on the keys so many tokens behind the queries, where there are such keys."""
    keys = queries + step
    is_valid = (keys >= 0) & (keys < shares.shape[2])
    offset_weights: np.ndarray = shares[:, np.flatnonzero(is_valid), keys[is_valid]]
    return offset_weights


def _find_unchanging(
    shares: Float[np.ndarray, "H Q K"], visible_rows: Bool[np.ndarray, "Q K"]
) -> Bool[np.ndarray, " H"] | None:
    """Whether no weight changes between queries that see the same; None where no two do."""
    groups: dict[bytes, list[int]] = {}
    for row, bits in enumerate(visible_rows):
        groups.setdefault(bits.tobytes(), []).append(row)
    changes = [np.ptp(shares[:, rows], axis=1).max(1) for rows in groups.values() if len(rows) > 1]
    is_unchanging: np.ndarray | None = np.max(changes, axis=0) < _MAX_CHANGE if changes else None
    return is_unchanging
