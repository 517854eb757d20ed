"""How far heads are apart, by sums written out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from random_records import build_random_record

from heedful.errors import DataError
from heedful.inspection.heads import compare_heads


def test_a_record_does_not_differ_from_itself() -> None:
    record = build_random_record()
    found = compare_heads(record, record)
    assert [(each.role, each.layer, each.head) for each in found] == [
        (role, layer, head) for role in ("encoder", "decoder", "cross") for layer in (0, 1) for head in (0, 1)
    ]
    assert all(each.largest == each.divergence == 0 for each in found)


def test_the_divergence_is_that_of_shannon_and_jensen() -> None:
    first, second = build_random_record(layers=1, seed=1), build_random_record(layers=1, seed=2)
    for each in compare_heads(first, second):
        one, other = (record.find_map(each.role, layer=0).get_head_weights(each.head) for record in (first, second))
        rows = []
        for p, q in zip(one.tolist(), other.tolist(), strict=True):
            middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
            sides = [sum(a * math.log2(a / m) for a, m in zip(side, middle, strict=True) if a) for side in (p, q)]
            rows.append(sum(sides) / 2)
        assert each.divergence == pytest.approx(sum(rows) / len(rows), abs=1e-6)
        assert 0 < each.divergence < 1
        assert each.largest == np.abs(one - other).max()


def test_heads_that_look_elsewhere_are_one_bit_apart() -> None:
    first = build_random_record(layers=1, heads=1, roles=("cross",))
    weights = np.zeros_like(first.maps[0].weights)
    one, other = weights.copy(), weights.copy()
    one[:, :, 0], other[:, :, 1] = 1, 1
    records = [replace(first, maps=(replace(first.maps[0], weights=each),)) for each in (one, other)]
    (found,) = compare_heads(*records)
    assert (found.largest, found.divergence) == (1, 1)


def test_heads_are_paired_by_their_numbers() -> None:
    """Two records that kept other heads have head 2 in common, the second of the one and the first of the other."""
    record = build_random_record(layers=1, heads=4)
    found = compare_heads(record.keep_maps(heads=[0, 2]), record.keep_maps(heads=[2, 3]))
    assert [(each.role, each.head) for each in found] == [(role, 2) for role in ("encoder", "decoder", "cross")]
    assert all(each.largest == each.divergence == 0 for each in found)


def test_what_cannot_be_compared() -> None:
    first, second = build_random_record(), build_random_record(written=("nein", "</s>"))
    with pytest.raises(DataError, match="the written tokens of the records differ"):
        compare_heads(first, second)
    with pytest.raises(DataError, match="no head in common"):
        compare_heads(first, build_random_record(layers=1).keep_maps(layers=[3]))
