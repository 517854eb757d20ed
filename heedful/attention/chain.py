"""Attention whose queries choose jointly: a Markov chain over keys with one step per query."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.attention.attention_trace import AttentionTrace, TraceableAttention
from heedful.attention.normalizers import softmax


class ChainAttention(TraceableAttention):
    """Attention by the marginals p(z_q = k) of a path z with one key per query (Kim et al. 2017, section 4.3).

    p(z) is proportional to exp(sum_q score(q, z_q) + sum_q link(z_q, z_q+1)): a linear-chain conditional random field
    whose states are keys. As in the authors' code, a path with links never stays at the same key, unless there is only
    one key. Without links the queries are independent, and each has the softmax of its scores.
    """

    def forward(
        self,
        query: Float[Tensor, "B Q d"],
        key: Float[Tensor, "B K d"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B 1 K"],
        links: Float[Tensor, "B steps K K"] | None = None,
    ) -> Float[Tensor, "B Q d_value"]:
        """Return the expected value of each query; zeros where nothing is visible.

        Args:
            query: one query for each step of a path.
            key: the states of the chain.
            value: the values to average.
            visible: which keys exist.
            links: transition scores between a key of one step and a key of the next, for Q - 1 steps.
        """
        weights: Tensor = self.probe(_run_forward_backward(query @ key.transpose(1, 2), visible, links).marginals)
        return weights @ value

    def compute_trace(
        self,
        query: Float[Tensor, "B Q d"],
        key: Float[Tensor, "B K d"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B 1 K"],
        links: Float[Tensor, "B steps K K"] | None = None,
    ) -> AttentionTrace:
        """Return all intermediate values; `bias` is what the rest of the path adds to each score."""
        unary_scores = query @ key.transpose(1, 2)
        paths = _run_forward_backward(unary_scores, visible, links)
        visible_keys = visible.expand_as(unary_scores)
        tensors = (
            query,
            key,
            value,
            paths.log_marginals,
            paths.marginals,
            paths.marginals @ value,
            paths.log_marginals - unary_scores,
            paths.pair_marginals,
        )
        query, key, value, scores, weights, context, bias, edges = (tensor.unsqueeze(1) for tensor in tensors)
        return AttentionTrace(query, key, value, scores, visible_keys, weights, context, bias=bias, edges=edges)


@dataclass(frozen=True)
class _PathMarginals:
    """Marginals of the distribution over all paths.

    Attributes:
        log_marginals: log sum exp over the paths through each key, up to a constant per query.
        marginals: probability that a path goes through each key.
        log_pair_marginals: log-probability that a path goes through a pair of keys in consecutive steps, up to a
            constant.
        visible: which keys exist.
    """

    log_marginals: Float[Tensor, "B Q K"]
    marginals: Float[Tensor, "B Q K"]
    log_pair_marginals: Float[Tensor, "B steps K K"]
    visible: Bool[Tensor, "B 1 K"]

    @property
    def pair_marginals(self) -> Float[Tensor, "B steps K K"]:
        """Probability that a path goes through a pair of keys in consecutive steps."""
        pair_visible = (self.visible.unsqueeze(3) & self.visible.unsqueeze(2)).expand_as(self.log_pair_marginals)
        return (
            softmax(self.log_pair_marginals.flatten(2), pair_visible.flatten(2))
            .view_as(self.log_pair_marginals)
            .to(self.marginals.dtype)
        )


def _run_forward_backward(
    scores: Float[Tensor, "B Q K"], visible: Bool[Tensor, "B 1 K"], links: Float[Tensor, "B steps K K"] | None
) -> _PathMarginals:
    """Run the forward-backward algorithm in log space."""
    queries, keys = scores.shape[1:]
    exact_scores, visible_keys = scores.to(torch.promote_types(scores.dtype, torch.float32)), visible.expand_as(scores)
    if links is None:
        log_pairs = exact_scores[:, :-1].unsqueeze(3) + exact_scores[:, 1:].unsqueeze(2)
        return _PathMarginals(scores, softmax(exact_scores, visible_keys).to(scores.dtype), log_pairs, visible)
    forbidden = torch.finfo(exact_scores.dtype).min / (4 * queries)  # so that sums along a path are finite
    unary_scores = torch.where(visible, exact_scores, forbidden)
    links = links.to(exact_scores.dtype).masked_fill(
        torch.eye(keys, dtype=torch.bool, device=links.device), forbidden / 2
    )
    before, after = [unary_scores[:, 0]], [torch.zeros_like(unary_scores[:, 0])]
    for step in range(1, queries):
        before.append(unary_scores[:, step] + (before[-1].unsqueeze(2) + links[:, step - 1]).logsumexp(1))
    for step in range(queries - 1, 0, -1):
        after.append((links[:, step - 1] + (unary_scores[:, step] + after[-1]).unsqueeze(1)).logsumexp(2))
    forward, backward = torch.stack(before, 1), torch.stack(after[::-1], 1)
    log_pairs = forward[:, :-1].unsqueeze(3) + links + (unary_scores + backward)[:, 1:].unsqueeze(2)
    log_sums = forward + backward
    return _PathMarginals(
        log_sums.to(scores.dtype), softmax(log_sums, visible_keys).to(scores.dtype), log_pairs, visible
    )
