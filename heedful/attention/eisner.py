"""Eisner's inside-outside algorithm: marginal probabilities of the arcs of projective dependency trees.

A span of slots i to j is complete to the right (i heads all others, and j has all its children), complete to the left
(j heads all others, and i has all its children), or incomplete: like these, but with the arc between i and j, whose
child may still have children beyond the span (Eisner 1996, section 3; Kim et al. 2017, figure 6). All spans of one
width are processed at once, so there are O(N) steps for O(N^3) work. The batch is the last axis, along which memory is
contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


class TreeMarginals(torch.autograd.Function):
    """Arc marginals p(head of row = column), [N, N, B], from scores of that shape; sentences fill the first `lengths`
    slots.

    The first slot is the root. Marginals are the gradient of the log-partition, so their Jacobian is symmetric, and its
    product with the incoming gradient is the directional derivative of the marginals: the same two passes once more,
    with first-order terms. That needs no logarithms of negative numbers (Kim et al. 2017, table 1).
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, lengths: Tensor) -> Tensor:
        """Run one pass from narrow spans to wide ones, and one back."""
        inside = _compute_inside(scores)
        outside = _compute_outside(inside, full_spans=_mark_full_spans(inside, lengths))
        ctx.save_for_backward(inside.by_start, inside.by_end, outside.by_start, outside.by_end)
        return outside.to_arc_matrix()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        """Propagate the derivative through the same two passes."""
        charts = ctx.saved_tensors
        inside, outside = _SpanCharts(*charts[:2]), _SpanCharts(*charts[2:])
        return _differentiate_outside(
            inside, _differentiate_inside(inside, upstream[0]), outside=outside
        ).to_arc_matrix(), None


def compute_excluded_score(scores: Tensor, *, slots: int) -> float:
    """Return the score of a forbidden arc.

    Where all other scores are at most 1 / (2 slots) of this in size, a tree with such an arc has less than half of it,
    and no sum leaves the range of the type.
    """
    return -torch.finfo(scores.dtype).max / (4 * max(1, slots))


@dataclass(frozen=True)
class _SpanCharts:
    """A number for each span, stored twice, so that all splits of all spans of one width are a sum of two rectangles.

    `by_start[:, i, d]` belongs to spans that begin at slot i, `by_end[:, j, N - 1 - d]` to spans that end at slot j; d
    is j - i, but j - i - 1 for incomplete spans, which have more than one slot. Indices of the leading axis:

    - 0: complete to the right, i to k, beside complete to the left, k + 1 to j, can be joined to an incomplete span;
    - 1: incomplete to the right, i to k, and complete to the right, k to j, make a span complete to the right;
    - 2: complete to the left, i to k, and incomplete to the left, k to j, make a span complete to the left.
    """

    by_start: Float[Tensor, "3 N N B"]
    by_end: Float[Tensor, "3 N N B"]

    @classmethod
    def new_zeros(cls, slots: int, reference: Tensor) -> _SpanCharts:
        """Create charts of zeros."""
        return cls(*(reference.new_zeros(3, slots, slots, reference.size(-1)) for _ in range(2)))

    def sum_incomplete_splits(self, width: int) -> Float[Tensor, "m cuts B"]:
        """Return the sum of both parts for each split of each incomplete span of this width."""
        m = self.by_start.size(1) - width
        return self.by_start[0, :m, :width] + self.by_end[0, width:, m:]

    def sum_complete_splits(self, width: int) -> Float[Tensor, "2 m cuts B"]:
        """Return the sum of both parts for each split of each complete span of this width, right and left."""
        m = self.by_start.size(1) - width
        return self.by_start[1:, :m, :width] + self.by_end[1:, width:, m:]

    def write_incomplete(self, width: int, *, right: Float[Tensor, "m B"], left: Float[Tensor, "m B"]) -> None:
        """Store values for the incomplete spans of this width."""
        m = self.by_start.size(1) - width
        self.by_start[1, :m, width - 1], self.by_end[2, width:, m] = right, left

    def write_complete(self, width: int, spans: Float[Tensor, "2 m B"]) -> None:
        """Store values for the complete spans of this width, right and left."""
        m = self.by_start.size(1) - width
        self.by_start[0, :m, width] = self.by_end[1, width:, m - 1] = spans[0]
        self.by_start[2, :m, width] = self.by_end[0, width:, m - 1] = spans[1]

    def read_incomplete(self, width: int) -> tuple[Float[Tensor, "m B"], Float[Tensor, "m B"]]:
        """Return the values of incomplete spans of this width, to the right and to the left."""
        m = self.by_start.size(1) - width
        return self.by_start[1, :m, width - 1], self.by_end[2, width:, m]

    def read_complete(self, width: int) -> Float[Tensor, "2 m B"]:
        """Return the values of complete spans of this width, right and left, summed over both places where they are
        stored.
        """
        m = self.by_start.size(1) - width
        right = self.by_start[0, :m, width] + self.by_end[1, width:, m - 1]
        return torch.stack((right, self.by_start[2, :m, width] + self.by_end[0, width:, m - 1]))

    def add_to_incomplete_splits(self, width: int, cuts: Float[Tensor, "m cuts B"]) -> None:
        """Add values to both parts of each split of incomplete spans of this width."""
        m = self.by_start.size(1) - width
        self.by_start[0, :m, :width] += cuts
        self.by_end[0, width:, m:] += cuts

    def add_to_complete_splits(self, width: int, cuts: Float[Tensor, "2 m cuts B"]) -> None:
        """Add values to both parts of each split of complete spans of this width."""
        m = self.by_start.size(1) - width
        self.by_start[1:, :m, :width] += cuts
        self.by_end[1:, width:, m:] += cuts

    def to_arc_matrix(self) -> Float[Tensor, "N N B"]:
        """Return the values of incomplete spans as a matrix with children as rows and heads as columns."""
        slots = self.by_start.size(1)
        matrix = self.by_start.new_zeros(self.by_start.shape[1:])
        for width in range(1, slots):
            right, left = self.read_incomplete(width)
            matrix.diagonal(-width).copy_(right.T)
            matrix.diagonal(width).copy_(left.T)
        return matrix


def _compute_inside(scores: Float[Tensor, "N N B"]) -> _SpanCharts:
    """Compute the log of the sum over all ways to build each span."""
    inside = _SpanCharts.new_zeros(len(scores), reference=scores)
    for width in range(1, len(scores)):
        split_sums = inside.sum_incomplete_splits(width).logsumexp(1)
        right, left = split_sums + scores.diagonal(-width).T, split_sums + scores.diagonal(width).T
        inside.write_incomplete(width, right=right, left=left)
        inside.write_complete(width, inside.sum_complete_splits(width).logsumexp(2))
    return inside


def _differentiate_inside(inside: _SpanCharts, direction: Float[Tensor, "N N B"]) -> _SpanCharts:
    """Compute the derivative of `_compute_inside` in this direction of the scores."""
    tangents = _SpanCharts.new_zeros(len(direction), reference=direction)
    for width in range(1, len(direction)):
        split_tangents = (
            inside.sum_incomplete_splits(width).softmax(1).mul_(tangents.sum_incomplete_splits(width)).sum(1)
        )
        right, left = split_tangents + direction.diagonal(-width).T, split_tangents + direction.diagonal(width).T
        tangents.write_incomplete(width, right=right, left=left)
        tangents.write_complete(
            width, inside.sum_complete_splits(width).softmax(2).mul_(tangents.sum_complete_splits(width)).sum(2)
        )
    return tangents


def _mark_full_spans(inside: _SpanCharts, lengths: Int[Tensor, " B"]) -> Float[Tensor, "N B"]:
    """Return 1 where the span from the root to this slot is the whole sentence, unless the sentence has no tree."""
    slots = inside.by_start.size(1)
    ends = torch.arange(slots, device=lengths.device).unsqueeze(1) == lengths - 1
    partition = inside.by_start[0, :1].flatten(0, 1)
    return (ends & (partition > compute_excluded_score(partition, slots=slots) / 2)).to(partition.dtype)


def _compute_outside(inside: _SpanCharts, *, full_spans: Float[Tensor, "N B"]) -> _SpanCharts:
    """Compute the probability that each span is part of the tree.

    A span distributes its probability over its parts, in the proportions of the ways to build it. The sums that
    narrower spans receive are those of the outside algorithm times the inside sums, but need no logarithms.
    """
    outside = _SpanCharts.new_zeros(len(full_spans), reference=full_spans)
    outside.by_start[0, :1] = full_spans
    for width in range(len(full_spans) - 1, 0, -1):
        shares = inside.sum_complete_splits(width).softmax(2)
        outside.add_to_complete_splits(width, shares.mul_(outside.read_complete(width).unsqueeze(2)))
        right, left = outside.read_incomplete(width)
        outside.add_to_incomplete_splits(
            width, inside.sum_incomplete_splits(width).softmax(1).mul_((right + left).unsqueeze(1))
        )
    return outside


def _differentiate_outside(inside: _SpanCharts, tangents: _SpanCharts, *, outside: _SpanCharts) -> _SpanCharts:
    """Compute the derivative of `_compute_outside` for these tangents of the inside sums."""
    result = _SpanCharts.new_zeros(inside.by_start.size(1), reference=inside.by_start)
    for width in range(inside.by_start.size(1) - 1, 0, -1):
        complete_tangents = _differentiate_shares(
            inside.sum_complete_splits(width),
            tangents.sum_complete_splits(width),
            total=outside.read_complete(width),
            total_tangent=result.read_complete(width),
        )
        result.add_to_complete_splits(width, complete_tangents)
        (right, left), (right_tangent, left_tangent) = outside.read_incomplete(width), result.read_incomplete(width)
        incomplete_tangents = _differentiate_shares(
            inside.sum_incomplete_splits(width),
            tangents.sum_incomplete_splits(width),
            total=right + left,
            total_tangent=right_tangent + left_tangent,
        )
        result.add_to_incomplete_splits(width, incomplete_tangents)
    return result


def _differentiate_shares(
    cuts: Float[Tensor, "*m cuts B"],
    cut_tangents: Float[Tensor, "*m cuts B"],
    *,
    total: Float[Tensor, "*m B"],
    total_tangent: Float[Tensor, "*m B"],
) -> Float[Tensor, "*m cuts B"]:
    """Compute the derivative of softmax(cuts) times the distributed total."""
    shares = cuts.softmax(-2)
    mean = (shares * cut_tangents).sum(-2, keepdim=True)
    return shares.mul_(cut_tangents.sub_(mean).mul_(total.unsqueeze(-2)).add_(total_tangent.unsqueeze(-2)))
