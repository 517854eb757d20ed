"""What kind of head it is: each measure against its definition written out, flags at their borders, sums over texts."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from random_records import build_random_record

from heedful.inspection.heads import (
    MEASURES,
    HeadMeasures,
    HeadMeasureSums,
    compute_head_measures,
    find_head_warnings,
    measure_map,
)
from heedful.inspection.record import AttentionMap

MEANS = [name for name in MEASURES if name not in ("uniform", "unchanging")]


def attention(heads: int, visible: np.ndarray, sharpness: float = 2.0) -> np.ndarray:
    scores = np.exp(sharpness * np.random.randn(heads, *visible.shape)) * visible
    sums = scores.sum(-1, keepdims=True)
    return (scores / np.where(sums > 0, sums, 1)).astype(np.float32)


def longhand(weights: np.ndarray, visible: np.ndarray, *, same_axis: bool) -> dict[str, float]:
    """Of one head, query by query."""
    found: dict[str, list[float]] = {name: [] for name in MEANS}
    for i, row in enumerate(weights.astype(float).tolist()):
        seen = [j for j in range(len(row)) if visible[i, j]]
        if not seen:
            continue
        entropy = -sum(w * math.log(w) for w in row if w > 0)
        found["entropy"].append(entropy)
        if len(seen) > 1:
            found["relative_entropy"].append(entropy / math.log(len(seen)))
        if same_axis:
            found["distance"].append(sum(w * abs(i - j) for j, w in enumerate(row)))
        for name, j in (("diagonal", i), ("previous", i - 1), ("next", i + 1)):
            if 0 <= j < len(row):
                found[name].append(row[j])
        found["first"].append(row[0])
        found["last"].append(row[-1])
        found["largest"].append(max(row))
    return {name: sum(each) / len(each) if each else math.nan for name, each in found.items()}


def masks() -> list[np.ndarray]:
    random = np.random.rand(6, 9) < 0.4
    random[2] = False
    return [np.ones((5, 5), bool), np.tri(7, dtype=bool), np.ones((4, 9), bool), np.ones((9, 4), bool), random]


@pytest.mark.parametrize("same_axis", [True, False])
@pytest.mark.parametrize("number", range(5))
def test_measures_are_what_they_are_called(number: int, same_axis: bool) -> None:
    visible = masks()[number]
    weights = attention(3, visible)
    found = compute_head_measures(weights, visible, same_axis=same_axis)
    for head in range(3):
        expected = longhand(weights[head], visible, same_axis=same_axis)
        for name in MEANS:
            np.testing.assert_allclose(getattr(found, name)[head], expected[name], rtol=1e-5, err_msg=name)


def test_known_heads_have_known_numbers() -> None:
    size = 6
    everyone = np.ones((size, size), bool)
    itself, before = np.eye(size), np.eye(size, k=-1)
    before[0, 0] = 1
    flat = np.full((size, size), 1 / size)
    found = compute_head_measures(np.stack([itself, before, flat]).astype(np.float32), everyone, same_axis=True)
    np.testing.assert_allclose(found.diagonal, [1, 1 / 6, 1 / 6], atol=1e-6)
    np.testing.assert_allclose(found.previous, [0, 1, 1 / 6], atol=1e-6)
    np.testing.assert_allclose(found.distance, [0, 5 / 6, 70 / 36], atol=1e-6)
    np.testing.assert_allclose(found.entropy, [0, 0, math.log(6)], atol=1e-6)
    np.testing.assert_allclose(found.relative_entropy, [0, 0, 1], atol=1e-6)
    assert found.uniform.tolist() == [False, False, True]
    assert found.unchanging.tolist() == [False, False, True]


def test_weights_that_do_not_sum_to_one_count_as_shares() -> None:
    visible = np.ones((4, 5), bool)
    weights = attention(2, visible)
    found, scaled = (compute_head_measures(each, visible, same_axis=False) for each in (weights, 3 * weights))
    for name in MEANS:
        np.testing.assert_allclose(getattr(found, name), getattr(scaled, name), rtol=1e-5)


def test_a_single_sharp_query_is_enough_to_be_not_uniform() -> None:
    weights = np.full((1, 8, 8), 1 / 8, np.float32)
    everyone = np.ones((8, 8), bool)
    assert compute_head_measures(weights, everyone, same_axis=True).uniform.all()
    weights[0, 3] = np.eye(8)[3]
    assert not compute_head_measures(weights, everyone, same_axis=True).uniform.any()


@pytest.mark.parametrize(("change", "still"), [(0.0, True), (0.009, True), (0.011, False)])
def test_unchanging_allows_a_hundredth(change: float, still: bool) -> None:
    weights = np.tile(np.array([0.6, 0.3, 0.1], np.float32), (1, 4, 1))
    weights[0, 2] += np.array([-change, change, 0], np.float32)
    found = compute_head_measures(weights, np.ones((4, 3), bool), same_axis=False)
    assert found.unchanging.tolist() == [still]
    assert not found.uniform.any()


def test_only_queries_that_see_the_same_are_compared() -> None:
    """Causal rows all differ in what they see, so no causal map can be said to never change."""
    visible = np.tri(5, dtype=bool)
    found = compute_head_measures(attention(2, visible, sharpness=0.0), visible, same_axis=True)
    assert found.uniform.all()
    assert not found.unchanging.any()
    assert found.counts["unchanging"] == 0
    assert found.counts["uniform"] == 1


def test_nobody_who_sees_two_keys_says_nothing_of_uniformity() -> None:
    found = compute_head_measures(np.ones((2, 4, 1), np.float32), np.ones((4, 1), bool), same_axis=False)
    assert not found.uniform.any()
    assert not found.unchanging.any()
    assert np.isnan(found.relative_entropy).all()


def test_averages_count_every_query_alike() -> None:
    """Two texts have the averages of all their queries, however these are spread over them."""
    parts = [(attention(2, each), each) for each in (np.ones((3, 6), bool), np.ones((7, 6), bool), masks()[4][:, :6])]
    sums = [HeadMeasureSums.from_measures(compute_head_measures(*part, same_axis=False), 1) for part in parts]
    found = (sums[0] + (sums[1] + sums[2])).averages
    assert (found["texts"], found["queries"]) == (3, 3 + 7 + 5)
    for name in ("entropy", "relative_entropy", "first", "last", "largest"):
        rows = [longhand(w[1][i : i + 1], v[i : i + 1], same_axis=False)[name] for w, v in parts for i in range(len(v))]
        known = [row for row in rows if not math.isnan(row)]
        assert found[name] == pytest.approx(sum(known) / len(known), rel=1e-5), name
    assert math.isnan(found["distance"])


def test_flags_are_averaged_over_texts_that_can_tell() -> None:
    flat, single = np.full((1, 3, 4), 0.25, np.float32), np.ones((1, 3, 1), np.float32)
    sharp = np.tile(np.eye(4, dtype=np.float32)[:3], (1, 1, 1))
    total = None
    for weights in (flat, sharp, single, flat):
        sums = HeadMeasureSums.from_measures(
            compute_head_measures(weights, np.ones(weights.shape[1:], bool), same_axis=False), 0
        )
        total = sums if total is None else total + sums
    assert total is not None
    assert total.averages["uniform"] == pytest.approx(2 / 3)
    assert total.averages["texts"] == 4


def test_averages_have_every_measure() -> None:
    each = HeadMeasureSums.from_measures(
        compute_head_measures(np.ones((1, 2, 2), np.float32) / 2, np.ones((2, 2), bool), same_axis=True), 0
    )
    assert set(each.averages) == {*MEASURES, "texts", "queries"}
    assert {each.name for each in fields(HeadMeasures)} == {*MEASURES, "counts"}


def test_a_decoder_counts_what_it_read_and_wrote_by_the_same_places() -> None:
    record = build_random_record()
    assert np.isnan(measure_map(record.find_map("cross", layer=0)).distance).all()
    for role in ("encoder", "decoder"):
        assert not np.isnan(measure_map(record.find_map(role, layer=0)).distance).any()


def test_warnings_name_layers_and_heads() -> None:
    record = build_random_record(layers=2, heads=3)
    assert find_head_warnings(record) == ()

    def spoilt(each: AttentionMap) -> AttentionMap:
        weights = each.weights.copy()
        if each.role == "cross" and each.layer == 1:
            weights[0], weights[2] = 1 / weights.shape[2], 1 / weights.shape[2]
            weights[1] = np.eye(weights.shape[2])[4]
        return replace(each, weights=weights)

    found = find_head_warnings(replace(record, maps=tuple(map(spoilt, record.maps))))
    assert [text.split(":")[0] for text in found] == ["cross layer 1, heads 0, 2", "cross layer 1, head 1"]
    assert "same weight" in found[0]
    assert "same for all queries" in found[1]
