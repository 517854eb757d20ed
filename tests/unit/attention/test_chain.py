"""Paths that hops take together, against all paths one by one."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
import torch

from heedful.attention.structured import ChainAttention
from heedful.inspection.capture import watch_attention


def by_enumeration(
    scores: torch.Tensor, links: torch.Tensor | None, visible: list[bool]
) -> tuple[torch.Tensor, torch.Tensor]:
    """p(z_q = k) and p(z_q = k, z_q+1 = l) of one row: every path, its weight, and what it passes."""
    queries, keys = scores.shape
    nodes, edges = scores.new_zeros(queries, keys), scores.new_zeros(queries - 1, keys, keys)
    total = 0.0
    for path in product([i for i, sees in enumerate(visible) if sees], repeat=queries):
        steps = list(pairwise(path))
        if links is not None and sum(visible) > 1 and any(a == b for a, b in steps):
            continue
        score = sum(float(scores[q, k]) for q, k in enumerate(path))
        if links is not None and sum(visible) > 1:
            score += sum(float(links[q, k, after]) for q, (k, after) in enumerate(steps))
        weight = math.exp(score)
        total += weight
        for q, k in enumerate(path):
            nodes[q, k] += weight
        for q, (k, after) in enumerate(steps):
            edges[q, k, after] += weight
    return nodes / total, edges / total


@pytest.mark.parametrize("linked", [False, True], ids=["unary", "binary"])
@pytest.mark.parametrize("queries", [1, 2, 3])
@pytest.mark.parametrize("visible", [[True] * 4, [True, False, True, True], [False, False, True, False]])
def test_marginals_are_those_of_all_paths(linked: bool, queries: int, visible: list[bool]) -> None:
    torch.manual_seed(queries)
    chain = ChainAttention()
    query, key, value = (torch.randn(2, n, 3, dtype=torch.float64) for n in (queries, 4, 4))
    links = torch.randn(2, queries - 1, 4, 4, dtype=torch.float64) if linked else None
    seen = torch.tensor(visible).expand(2, 1, 4)
    with watch_attention(chain) as weights:
        found = chain(query, key, value=value, visible=seen, links=links)
    told = chain.compute_trace(query, key, value=value, visible=seen, links=links)
    assert told.edges is not None
    for row in range(2):
        nodes, edges = by_enumeration(query[row] @ key[row].T, None if links is None else links[row], visible)
        torch.testing.assert_close(weights[""][0][row], nodes)
        torch.testing.assert_close(told.edges[row, 0], edges)
        torch.testing.assert_close(found[row], nodes @ value[row])


@pytest.mark.parametrize("links", [None, torch.zeros(1, 1, 3, 3)], ids=["unary", "binary"])
def test_where_nothing_is_to_be_seen_nothing_is_found(links: torch.Tensor | None) -> None:
    query, key = torch.randn(1, 2, 4, requires_grad=True), torch.randn(1, 3, 4)
    found = ChainAttention()(query, key, value=key, visible=torch.zeros(1, 1, 3, dtype=torch.bool), links=links)
    found.sum().backward()
    assert found.tolist() == [[[0.0] * 4] * 2]
    assert query.grad is not None
    assert bool(torch.isfinite(query.grad).all())


def test_scores_as_large_as_they_come_stay_finite() -> None:
    key, links = 1e3 * torch.randn(1, 5, 6), 1e6 * torch.randn(1, 2, 5, 5)
    seen = torch.ones(1, 1, 5, dtype=torch.bool)
    found = ChainAttention()(1e3 * torch.randn(1, 3, 6), key, value=key, visible=seen, links=links)
    assert bool(torch.isfinite(found).all())


@pytest.mark.parametrize("linked", [False, True])
def test_what_is_explained_is_what_is_done(linked: bool) -> None:
    chain = ChainAttention()
    query, key, value = (torch.randn(2, n, 6) for n in (2, 4, 4))
    links = torch.randn(2, 1, 4, 4) if linked else None
    seen = torch.tensor([[[True, True, False, True]], [[True] * 4]])
    told = chain.compute_trace(query, key, value=value, visible=seen, links=links)
    torch.testing.assert_close(told.context[:, 0], chain(query, key, value=value, visible=seen, links=links))
    assert told.bias is not None
    plain = told.query @ told.key.transpose(-2, -1) + told.bias
    hidden = ~told.visible.unsqueeze(1)
    torch.testing.assert_close(plain.masked_fill(hidden, -torch.inf), told.scores.masked_fill(hidden, -torch.inf))
    torch.testing.assert_close(told.scores.masked_fill(hidden, -torch.inf).softmax(-1), told.weights)
