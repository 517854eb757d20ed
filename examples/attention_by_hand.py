"""Attention by hand, step by step as lectures draw it, and the library's module beside it.

Three input vectors; queries, keys and values; scores; softmax; the weighted sum: once with nothing but matrix products,
once through `heedful.attention.MultiHeadAttention`. Both must give the same numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from heedful.attention import Concatenation, MultiHeadAttention, Sight, causal, everything


def by_hand(x: Tensor, w_q: Tensor, w_k: Tensor, *, w_v: Tensor, masked: bool) -> tuple[Tensor, Tensor]:
    """One head: weights [Q, K] and contexts [Q, d_v]; `masked` hides what comes later."""
    queries, keys, values = x @ w_q.T, x @ w_k.T, x @ w_v.T
    scores = queries @ keys.T / math.sqrt(keys.size(1))
    if masked:
        later = torch.ones_like(scores).triu(1).bool()
        scores = scores.masked_fill(later, -math.inf)
    exponentials = scores.exp()
    weights = exponentials / exponentials.sum(1, keepdim=True)
    return weights, weights @ values


def with_heedful(
    x: Tensor, w_q: Tensor, w_k: Tensor, *, w_v: Tensor, heads: int, masked: bool
) -> tuple[Tensor, Tensor]:
    """The same by the library: weights [heads, Q, K] and contexts, those of the heads side by side."""
    module = MultiHeadAttention(x.size(1), heads, aggregation=Concatenation(), bias=False)
    weights: list[Tensor] = []
    module.probe.register_forward_hook(lambda _module, _inputs, found: weights.append(found))
    positions = torch.arange(len(x)).unsqueeze(0)  # the inputs are numbers 0, 1 and 2 of one sequence
    visibility = causal if masked else everything
    visible = visibility(positions.unsqueeze(2), positions.unsqueeze(1))
    sight = Sight.of(positions, key_positions=positions, visible=visible)
    with torch.no_grad():
        module.query.weight.copy_(w_q)
        module.key_value.weight.copy_(torch.cat((w_k, w_v)))
        batch = x.unsqueeze(0)
        contexts = module(batch, module.remember(batch, batch, positions), sight=sight)
    return weights[0][0], contexts[0]


def show(name: str, matrix: Tensor) -> None:
    print(name)
    for row in matrix:
        print("  " + " ".join(f"{float(number):6.3f}" for number in row))


def main() -> None:
    torch.manual_seed(1)
    d_model, heads = 4, 2
    d_k = d_model // heads
    x = torch.randn(3, d_model)
    w_q, w_k, w_v = torch.randn(3, d_model, d_model)
    show("three inputs", x)
    for masked in (False, True):
        print("\nwith a causal mask" if masked else "\nwithout a mask")
        weights, contexts = with_heedful(x, w_q, w_k, w_v=w_v, heads=heads, masked=masked)
        for head in range(heads):
            rows = slice(head * d_k, (head + 1) * d_k)
            own_weights, own_contexts = by_hand(x, w_q[rows], w_k[rows], w_v=w_v[rows], masked=masked)
            show(f"head {head + 1}: weights, a row for each query", own_weights)
            show(f"head {head + 1}: contexts", own_contexts)
            torch.testing.assert_close(weights[head], own_weights)
            torch.testing.assert_close(contexts[:, rows], own_contexts)
    print("\nMultiHeadAttention gives the same weights and contexts")


if __name__ == "__main__":
    main()
