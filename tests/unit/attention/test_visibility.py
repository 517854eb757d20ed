"""Who sees whom, query by query and key by key."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from heedful.attention import MaskFunction, bidirectional, causal, sliding_window

NOBODY = -1


def seen(visibility: MaskFunction, query: Tensor, key: Tensor) -> Tensor:
    return visibility(query.unsqueeze(2), key.unsqueeze(1))


def places(length: int) -> Tensor:
    """Positions in any order, with holes."""
    at = torch.stack([torch.randperm(20)[:length] for _ in range(3)])
    return torch.where(torch.rand(3, length) < 0.2, NOBODY, at)


RULES = {
    "everything": (bidirectional, lambda *_: True),
    "causal": (causal, lambda q, k: k <= q),
    "window 0 0": (sliding_window(0, 0), lambda q, k: k == q),
    "window 2 1": (sliding_window(2, 1), lambda q, k: q - 2 <= k <= q + 1),
    "window 3 0": (sliding_window(3, 0), lambda q, k: q - 3 <= k <= q),
}


@pytest.mark.parametrize("name", RULES)
def test_the_rule_holds_for_each_pair(name: str) -> None:
    visibility, rule = RULES[name]
    query, key = places(6), places(8)
    found = seen(visibility, query, key)
    assert found.dtype == torch.bool
    assert found.shape == (3, 6, 8)
    for b in range(3):
        for i, q in enumerate(query[b].tolist()):
            for j, k in enumerate(key[b].tolist()):
                if q != NOBODY:  # what a query that is not there sees is of no consequence
                    assert bool(found[b, i, j]) == (k != NOBODY and rule(q, k)), (q, k)
                assert not found[b, i, j] or k != NOBODY


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_window_as_wide_as_the_sentence_hides_nothing(n: int) -> None:
    """Restricted self-attention with r >= n is self-attention (Vaswani et al. 2017, table 1)."""
    at = torch.arange(n)[None]
    for r in (n - 1, n, 100):
        assert torch.equal(seen(sliding_window(r, r), at, at), seen(bidirectional, at, at))
        assert torch.equal(seen(sliding_window(r, 0), at, at), seen(causal, at, at))
    if n > 1:
        assert not torch.equal(seen(sliding_window(n - 2, n - 2), at, at), seen(bidirectional, at, at))


def test_each_query_sees_as_many_as_the_window_holds() -> None:
    at = torch.arange(30)[None]
    for before, after in ((0, 0), (4, 2), (2, 4)):
        assert seen(sliding_window(before, after), at, at).sum(-1)[0, 5:-5].tolist() == [before + 1 + after] * 20
