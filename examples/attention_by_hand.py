"""Attention by hand, step by step as in lectures, beside the module of the library.

Three input vectors; queries, keys and values; scores; softmax; the weighted sum. The example computes them once with
plain matrix products and once with `heedful.attention.MultiHeadAttention`. Both must give the same numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from heedful.attention import AttentionMask, ConcatAggregation, MultiHeadAttention, bidirectional, causal


def compute_by_hand(x: Tensor, w_q: Tensor, w_k: Tensor, *, w_v: Tensor, masked: bool) -> tuple[Tensor, Tensor]:
    """Compute one head: weights [Q, K] and contexts [Q, d_v]; `masked` hides later positions."""
    queries, keys, values = x @ w_q.T, x @ w_k.T, x @ w_v.T
    scores = queries @ keys.T / math.sqrt(keys.size(1))
    if masked:
        later = torch.ones_like(scores).triu(1).bool()
        scores = scores.masked_fill(later, -math.inf)
    exponentials = scores.exp()
    weights = exponentials / exponentials.sum(1, keepdim=True)
    return weights, weights @ values


def compute_with_heedful(
    x: Tensor, w_q: Tensor, w_k: Tensor, *, w_v: Tensor, heads: int, masked: bool
) -> tuple[Tensor, Tensor]:
    """Compute the same with the library: weights [heads, Q, K] and the concatenated contexts of the heads."""
    module = MultiHeadAttention(x.size(1), heads, aggregation=ConcatAggregation(), bias=False)
    weights: list[Tensor] = []
    module.probe.register_forward_hook(lambda _module, _inputs, output: weights.append(output))
    positions = torch.arange(len(x)).unsqueeze(0)  # the inputs have positions 0, 1 and 2 in one sequence
    visibility = causal if masked else bidirectional
    visible = visibility(positions.unsqueeze(2), positions.unsqueeze(1))
    mask = AttentionMask.from_visible(positions, key_positions=positions, visible=visible)
    with torch.no_grad():
        module.query.weight.copy_(w_q)
        module.key_value.weight.copy_(torch.cat((w_k, w_v)))
        batch = x.unsqueeze(0)
        contexts = module(batch, module.project_memory(batch, batch, positions), mask=mask)
    return weights[0][0], contexts[0]


def print_matrix(name: str, matrix: Tensor) -> None:
    """Print a matrix row by row below its name."""
    print(name)
    for row in matrix:
        print("  " + " ".join(f"{float(number):6.3f}" for number in row))


def main() -> None:
    """Compute both ways, print the matrices and check that they are equal."""
    torch.manual_seed(1)
    d_model, heads = 4, 2
    d_k = d_model // heads
    x = torch.randn(3, d_model)
    w_q, w_k, w_v = torch.randn(3, d_model, d_model)
    print_matrix("three inputs", x)
    for masked in (False, True):
        print("\nwith a causal mask" if masked else "\nwithout a mask")
        weights, contexts = compute_with_heedful(x, w_q, w_k, w_v=w_v, heads=heads, masked=masked)
        for head in range(heads):
            rows = slice(head * d_k, (head + 1) * d_k)
            own_weights, own_contexts = compute_by_hand(x, w_q[rows], w_k[rows], w_v=w_v[rows], masked=masked)
            print_matrix(f"head {head + 1}: weights, a row for each query", own_weights)
            print_matrix(f"head {head + 1}: contexts", own_contexts)
            torch.testing.assert_close(weights[head], own_weights)
            torch.testing.assert_close(contexts[:, rows], own_contexts)
    print("\nMultiHeadAttention gives the same weights and contexts")


if __name__ == "__main__":
    main()
