"""Attention whose queries choose together: a Markov chain over keys, one for each query in turn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.attention.choice import softmax
from heedful.attention.explained import Explained, Explaining


class Chain(Explaining):
    """p(z_q = k), where z is a path that takes one key for each query (Kim et al. 2017, section 4.3).

    p(z) is proportional to exp(sum_q score(q, z_q) + sum_q link(z_q, z_q+1)): a linear-chain conditional random field
    whose states are keys. As in the authors' code a path with links does not stay where it is, unless there is one key
    alone. Without links queries know nothing of each other, and each has the softmax of its scores.
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
        """What each query expects to find; zeros where nothing is visible.

        Args:
            query: one for each step of a path.
            key: what paths lead through.
            value: what is found there.
            visible: which keys there are.
            links: scores of a key of one step and one of the next, Q - 1 steps.
        """
        weights: Tensor = self.probe(_paths(query @ key.transpose(1, 2), visible, links).nodes)
        return weights @ value

    def explain(
        self,
        query: Float[Tensor, "B Q d"],
        key: Float[Tensor, "B K d"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B 1 K"],
        links: Float[Tensor, "B steps K K"] | None = None,
    ) -> Explained:
        """All that lies between queries and what they find; `bias` is what the rest of paths adds to a score."""
        single = query @ key.transpose(1, 2)
        paths = _paths(single, visible, links)
        seen = visible.expand_as(single)
        parts = (query, key, value, paths.odds, paths.nodes, paths.nodes @ value, paths.odds - single, paths.edges)
        query, key, value, scores, weights, context, bias, edges = (each.unsqueeze(1) for each in parts)
        return Explained(query, key, value, scores, seen, weights, context, bias=bias, edges=edges)


@dataclass(frozen=True)
class _Paths:
    """Sums over all paths.

    Attributes:
        odds: log sum exp of the paths through a key, up to a constant of each query.
        nodes: how probable it is that a path goes through it.
        joints: log of how probable it is that a path goes through two keys, one after the other; up to a constant.
        visible: which keys there are.
    """

    odds: Float[Tensor, "B Q K"]
    nodes: Float[Tensor, "B Q K"]
    joints: Float[Tensor, "B steps K K"]
    visible: Bool[Tensor, "B 1 K"]

    @property
    def edges(self) -> Float[Tensor, "B steps K K"]:
        """How probable it is that a path goes through two keys, one after the other."""
        both = (self.visible.unsqueeze(3) & self.visible.unsqueeze(2)).expand_as(self.joints)
        return softmax(self.joints.flatten(2), both.flatten(2)).view_as(self.joints).to(self.nodes.dtype)


def _paths(
    scores: Float[Tensor, "B Q K"], visible: Bool[Tensor, "B 1 K"], links: Float[Tensor, "B steps K K"] | None
) -> _Paths:
    """The forward-backward algorithm in log space."""
    queries, keys = scores.shape[1:]
    wide, seen = scores.to(torch.promote_types(scores.dtype, torch.float32)), visible.expand_as(scores)
    if links is None:
        joints = wide[:, :-1].unsqueeze(3) + wide[:, 1:].unsqueeze(2)
        return _Paths(scores, softmax(wide, seen).to(scores.dtype), joints, visible)
    never = torch.finfo(wide.dtype).min / (4 * queries)  # so that the sums along a path are finite
    single = torch.where(visible, wide, never)
    links = links.to(wide.dtype).masked_fill(torch.eye(keys, dtype=torch.bool, device=links.device), never / 2)
    before, after = [single[:, 0]], [torch.zeros_like(single[:, 0])]
    for step in range(1, queries):
        before.append(single[:, step] + (before[-1].unsqueeze(2) + links[:, step - 1]).logsumexp(1))
    for step in range(queries - 1, 0, -1):
        after.append((links[:, step - 1] + (single[:, step] + after[-1]).unsqueeze(1)).logsumexp(2))
    forward, backward = torch.stack(before, 1), torch.stack(after[::-1], 1)
    joints = forward[:, :-1].unsqueeze(3) + links + (single + backward)[:, 1:].unsqueeze(2)
    odds = forward + backward
    return _Paths(odds.to(scores.dtype), softmax(odds, seen).to(scores.dtype), joints, visible)
