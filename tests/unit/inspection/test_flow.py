"""Rollout by hand and by its invariants, flow by the smallest of all cuts, and records that say too little."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import networkx
import numpy as np
import pytest
from random_records import build_random_record

from heedful.attention.hooks import READ_AXIS, SOURCE_AXIS, WRITTEN_AXIS, AttentionKind
from heedful.errors import DataError
from heedful.inspection.flow import build_attention_graph, compute_attention_flow, compute_rollout
from heedful.inspection.record import AttentionMap, InspectionRecord, MapAxis

SIDES = {
    "encoder": (SOURCE_AXIS, SOURCE_AXIS),
    "decoder": (WRITTEN_AXIS, READ_AXIS),
    "cross": (WRITTEN_AXIS, SOURCE_AXIS),
}


def a_record(
    *maps: tuple[AttentionKind, int, Sequence[Sequence[float]]], source: int = 2, written: int = 2
) -> InspectionRecord:
    """With one head for each map."""
    axes = tuple(
        MapAxis(name, tuple(f"{name}{i}" for i in range(n)))
        for name, n in ((SOURCE_AXIS, source), (READ_AXIS, written), (WRITTEN_AXIS, written))
    )
    made = []
    for role, layer, rows in maps:
        weights = np.array(rows, np.float32)[None]
        made.append(AttentionMap(f"{role}.{layer}", role, layer, (0,), *SIDES[role], weights, weights[0] > 0))
    return InspectionRecord("by hand", axes, tuple(made))


def test_two_encoder_layers_by_hand() -> None:
    one, two = [[0.8, 0.2], [0.4, 0.6]], [[0.0, 1.0], [0.5, 0.5]]
    found = compute_rollout(a_record(("encoder", 0, one), ("encoder", 1, two)))
    # first layer: (0.9 0.1 / 0.2 0.8), second: (0.5 0.5 / 0.25 0.75), and their product, second times first
    np.testing.assert_allclose(found.shares, [[0.55, 0.45], [0.375, 0.625]], atol=1e-7)
    assert found.queries.name == SOURCE_AXIS
    assert [axis.name for axis in found.inputs] == [SOURCE_AXIS]


def test_one_decoder_layer_by_hand() -> None:
    record = a_record(
        ("encoder", 0, [[0.8, 0.2], [0.4, 0.6]]),
        ("decoder", 0, [[1.0, 0.0], [0.6, 0.4]]),
        ("cross", 0, [[0.5, 0.5], [0.0, 1.0]]),
    )
    found = compute_rollout(record)
    # after its own attention: (1 0 / 0.3 0.7) of what was read; half of that stays, half comes from the encoder's last
    # layer, (0.9 0.1 / 0.2 0.8) of the source: its mean (0.55 0.45) for the first token, its second row for the other
    np.testing.assert_allclose(found.select_axis(READ_AXIS), [[0.5, 0.0], [0.15, 0.35]], atol=1e-7)
    np.testing.assert_allclose(found.select_axis(SOURCE_AXIS), [[0.275, 0.225], [0.1, 0.4]], atol=1e-7)
    assert found.queries.name == WRITTEN_AXIS


def test_without_self_attention_only_the_look_at_the_source_is_left() -> None:
    cross = [[0.25, 0.75], [1.0, 0.0]]
    found = compute_rollout(a_record(("cross", 0, cross)))
    np.testing.assert_allclose(found.select_axis(SOURCE_AXIS), np.array(cross) / 2, atol=1e-7)
    np.testing.assert_allclose(found.select_axis(READ_AXIS), np.eye(2) / 2, atol=1e-7)


def test_a_language_model_has_no_source() -> None:
    found = compute_rollout(build_random_record(3, 2, roles=("decoder",)))
    assert [axis.name for axis in found.inputs] == [READ_AXIS]
    assert not np.triu(found.shares, 1).any(), "no token comes from later ones"


@pytest.mark.parametrize("roles", [("encoder",), ("decoder",), ("cross",), ("decoder", "cross"), ("encoder", "cross"),
                                   ("encoder", "decoder", "cross")])  # fmt: skip
@pytest.mark.parametrize("layers", [1, 4])
def test_rows_sum_to_one(roles: tuple[AttentionKind, ...], layers: int) -> None:
    found = compute_rollout(build_random_record(layers, 3, roles=roles))
    np.testing.assert_allclose(found.shares.sum(1), 1, atol=1e-6)
    assert (found.shares >= 0).all()
    assert found.shares.shape == (len(found.queries.tokens), sum(len(axis.tokens) for axis in found.inputs))


def test_the_order_of_the_maps_and_the_number_of_heads_do_not_matter() -> None:
    record = build_random_record(3, 1)
    shuffled = replace(record, maps=tuple(record.maps[i] for i in np.random.permutation(len(record.maps))))
    doubled = replace(
        record,
        maps=tuple(replace(each, heads=(0, 1), weights=each.weights.repeat(2, 0)) for each in record.maps),
    )
    for other in (shuffled, doubled):
        np.testing.assert_allclose(compute_rollout(other).shares, compute_rollout(record).shares, atol=1e-7)


def test_the_encoder_of_a_translator_can_be_asked_for() -> None:
    record = build_random_record(2, 2)
    alone = replace(record, maps=tuple(each for each in record.maps if each.role == "encoder"))
    np.testing.assert_array_equal(compute_rollout(record, side="encoder").shares, compute_rollout(alone).shares)


def test_a_query_that_sees_nothing_keeps_what_it_has() -> None:
    found = compute_rollout(a_record(("encoder", 0, [[0.0, 0.0], [0.5, 0.5]])))
    np.testing.assert_allclose(found.shares, [[1, 0], [0.25, 0.75]], atol=1e-7)


def smallest_cut(steps: Sequence[np.ndarray], query: int, token: int) -> float:
    """The least capacity between the nodes on one side and those on the other, over all ways to divide them."""
    size = len(steps[0])
    start, end = (len(steps), query), (0, token)
    nodes = [(level, i) for level in range(len(steps) + 1) for i in range(size)]
    others = [node for node in nodes if node not in (start, end)]
    best = np.inf
    for bits in itertools.product((False, True), repeat=len(others)):
        above = {start, *itertools.compress(others, bits)}
        crossing = sum(
            steps[level - 1][i, j] for level, i in above if level for j in range(size) if (level - 1, j) not in above
        )
        best = min(best, crossing)
    return float(best)


def test_flow_is_the_smallest_cut() -> None:
    """Two layers over three tokens: 2 ** 7 ways to divide the other nodes."""
    weights = np.random.dirichlet(np.ones(3), (2, 3))
    record = a_record(("encoder", 0, weights[0].tolist()), ("encoder", 1, weights[1].tolist()), source=3)
    steps = [0.5 * np.eye(3) + 0.5 * each for each in weights]
    for query in range(3):
        found = compute_attention_flow(record, query)
        expected = [smallest_cut(steps, query, token) for token in range(3)]
        np.testing.assert_allclose(found.amounts, expected, atol=1e-6)


def test_flow_through_a_decoder_is_the_smallest_cut() -> None:
    record = a_record(
        ("encoder", 0, [[0.7, 0.3], [0.2, 0.8]]),
        ("decoder", 0, [[1.0, 0.0], [0.35, 0.65]]),
        ("cross", 0, [[0.1, 0.9], [0.45, 0.55]]),
    )
    # nodes: two of the source, two that were read; what does not take part in a step keeps what it has
    steps = [np.eye(4) for _ in range(3)]
    steps[0][:2, :2] = [[0.85, 0.15], [0.1, 0.9]]
    steps[1][2:, 2:] = [[1.0, 0.0], [0.175, 0.825]]
    steps[2][2:] = [[0.05, 0.45, 0.5, 0.0], [0.225, 0.275, 0.0, 0.5]]
    found = compute_attention_flow(record, 1)
    np.testing.assert_allclose(found.amounts, [smallest_cut(steps, 3, token) for token in range(4)], atol=1e-6)
    np.testing.assert_array_equal(
        np.concatenate([found.select_axis(SOURCE_AXIS), found.select_axis(READ_AXIS)]), found.amounts
    )


@pytest.mark.slow
@pytest.mark.parametrize(("layers", "sharpness"), [(2, 8.0), (4, 1.0), (7, 4.0)])
def test_flow_is_that_of_networkx(layers: int, sharpness: float) -> None:
    """Deep enough that what was sent down has to be taken back up, which the smallest examples never need."""
    record = build_random_record(layers, 1, sharpness=sharpness)
    graph = build_attention_graph(record)
    ways = networkx.DiGraph()
    for level, step in enumerate(graph.steps):
        widths = step.build_matrix(graph.size)
        for i, j in np.argwhere(widths > 0).tolist():
            ways.add_edge((level + 1, i), (level, j), capacity=widths[i, j])
    for query in (0, 5, 8):
        start = (len(graph.steps), graph.top.start + query)
        expected = [networkx.maximum_flow_value(ways, start, (0, node)) for node in range(graph.size)]
        # widths are rounded to 2 ** -40 here, and networkx adds up numbers with a floating point
        np.testing.assert_allclose(compute_attention_flow(record, query).amounts, expected, atol=1e-9)


def test_flow_in_one_layer_is_its_rollout_and_in_more_at_least_that() -> None:
    record = build_random_record(1, 2, roles=("encoder",))
    np.testing.assert_allclose(compute_attention_flow(record, 3).amounts, compute_rollout(record).shares[3], atol=1e-6)
    deep = build_random_record(3, 2, source=["a", "b", "c", "d"], written=["x", "y"])
    found = compute_attention_flow(deep, 1)
    assert (found.amounts >= compute_rollout(deep).shares[1] - 1e-6).all(), "what is rolled out does flow"
    assert (found.amounts <= 1 + 1e-6).all()


def test_what_cannot_be_reached_gets_nothing() -> None:
    found = compute_attention_flow(build_random_record(2, 2), 0)
    assert found.select_axis(READ_AXIS)[0] > 0
    assert not found.select_axis(READ_AXIS)[1:].any(), "the first token was written before the others were read"


def test_missing_parts_are_named() -> None:
    record = build_random_record(4, 2)
    with pytest.raises(DataError, match=r"encoder layers 0, 1 are not in this record.*--layers"):
        compute_rollout(record.keep_maps(layers=[2, 3]))
    with pytest.raises(DataError, match="no attention of the encoder"):
        compute_rollout(build_random_record(roles=("cross",)), side="encoder")
    with pytest.raises(DataError, match="no attention of the encoder"):
        compute_rollout(replace(record, maps=()))
    for query in (-1, 9):
        with pytest.raises(DataError, match=f"token {query} of written: it has 9 tokens"):
            compute_attention_flow(record, query)
    with pytest.raises(DataError, match="no axis 'regions' among these inputs: source, read"):
        compute_rollout(record).select_axis("regions")


def test_nothing_flows_where_weights_are_below_zero() -> None:
    """As weights may be that only sum to 1, those of proportional attention; the search for ways must end there too."""
    record = build_random_record(2, 1, roles=("encoder",))
    lower = [replace(each, weights=each.weights * 1.5 - 0.5 / each.weights.shape[-1]) for each in record.maps]
    assert min(float(each.weights.min()) for each in lower) < 0
    found = compute_attention_flow(replace(record, maps=tuple(lower)), 1)
    graph = build_attention_graph(replace(record, maps=tuple(lower)))
    network = networkx.DiGraph()
    for level, step in enumerate(graph.steps):
        for (row, column), width in np.ndenumerate(step.build_matrix(graph.size)):
            if width > 0:
                network.add_edge((level + 1, row), (level, column), capacity=width)
    for token, amount in enumerate(found.amounts):
        reached = network.has_node((0, token))
        expected = networkx.maximum_flow_value(network, (2, 1), (0, token)) if reached else 0
        assert amount == pytest.approx(expected, abs=1e-6)
