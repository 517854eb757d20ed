"""Penalties of training and of search, in plain loops."""

from __future__ import annotations

import torch
from torch import Tensor

from heedful.generation import AverageLength, GNMTLengthPenalty, NoLengthPenalty, PowerLengthPenalty
from heedful.tasks.generation_objective import decorrelation_penalty


def compute_penalty(weights: Tensor) -> float:
    """Compute the sum over sentences and queries of |A A^T - I|^2, where the rows of A are the heads."""
    rows, heads, queries, keys = weights.shape
    total = 0.0
    for b in range(rows):
        for i in range(queries):
            if weights[b, :, i].sum() == 0:
                continue
            for one in range(heads):
                for other in range(heads):
                    product = sum(float(weights[b, one, i, k] * weights[b, other, i, k]) for k in range(keys))
                    total += (product - (one == other)) ** 2
    return total


def test_decorrelation() -> None:
    layers = [torch.randn(2, 3, 4, 5).softmax(-1), torch.randn(2, 2, 4, 7).softmax(-1)]
    layers[0][1, :, 2:] = 0  # padding attends to nothing
    found = float(decorrelation_penalty(layers))
    torch.testing.assert_close(found, sum(map(compute_penalty, layers)), rtol=1e-6, atol=0)


def test_decorrelation_is_zero_for_heads_that_attend_to_different_keys() -> None:
    apart = torch.eye(3)[None, :, None, :].repeat(2, 1, 4, 1)
    assert float(decorrelation_penalty([apart])) == 0
    together = torch.eye(3)[None, :1, None, :].repeat(2, 3, 4, 1)
    assert float(decorrelation_penalty([together])) == 2 * 4 * 6, "six pairs of heads attend to the same key"


def test_decorrelation_pushes_heads_apart() -> None:
    scores = torch.randn(1, 3, 2, 6, requires_grad=True)
    before = decorrelation_penalty([scores.softmax(-1)])
    before.backward()
    assert scores.grad is not None
    after = decorrelation_penalty([(scores - 0.1 * scores.grad).softmax(-1)])
    assert float(after.detach()) < float(before.detach())
    torch.autograd.gradcheck(lambda s: decorrelation_penalty([s.softmax(-1)]), scores, eps=1e-3, atol=1e-2, rtol=1e-2)


def test_length_penalties() -> None:
    """lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha (Wu et al. 2016, eq. 14)."""
    lengths = torch.tensor([1.0, 2.0, 7.0, 50.0])
    for alpha in (0.0, 0.6, 1.0, 2.0):
        expected = torch.tensor([(5 + n) ** alpha / (5 + 1) ** alpha for n in lengths.tolist()])
        torch.testing.assert_close(GNMTLengthPenalty(alpha).compute_divisors(lengths), expected)
    assert NoLengthPenalty().compute_divisors(lengths).tolist() == [1, 1, 1, 1]
    assert AverageLength().compute_divisors(lengths).tolist() == lengths.tolist()
    for alpha in (0.0, 0.5, -0.5, 1.5):
        torch.testing.assert_close(
            PowerLengthPenalty(alpha).compute_divisors(lengths), torch.tensor([n**alpha for n in lengths.tolist()])
        )
