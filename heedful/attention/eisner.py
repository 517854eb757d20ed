"""Eisner's inside-outside algorithm: how probable each arc is among all projective dependency trees of a sentence.

A span of slots i to j is complete to the right (i heads all others, and j has all its children), complete to the left
(j heads all others, and i has all its children), or incomplete: like these, but with the arc between i and j, whose
child may still have children beyond the span (Eisner 1996, section 3; Kim et al. 2017, figure 6). All spans of one
width are dealt with at once, so there are O(N) steps for O(N^3) work. The batch is the last axis, along which memory is
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
    """p(head of row = column), [N, N, B], from scores of that shape, of sentences that fill the first `lengths` slots.

    The first slot is the root. Marginals are the gradient of the log-partition, so their Jacobian is symmetric, and its
    product with the gradient that comes in is the derivative of the marginals in that direction: the same two passes
    once more, with first-order terms. That needs no logarithms of negative numbers (Kim et al. 2017, table 1).
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, lengths: Tensor) -> Tensor:
        """One pass from narrow spans to wide ones, and one back."""
        inside = _inside(scores)
        outside = _outside(inside, whole=_whole(inside, lengths))
        ctx.save_for_backward(inside.first, inside.last, outside.first, outside.last)
        return outside.arcs()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        """The same for the derivative."""
        charts = ctx.saved_tensors
        inside, outside = _Charts(*charts[:2]), _Charts(*charts[2:])
        return _outside_moved(inside, _inside_moved(inside, upstream[0]), outside=outside).arcs(), None


def excluded(scores: Tensor, *, slots: int) -> float:
    """The score of an arc that no tree may have.

    Where other scores are at most 1 / (2 slots) of this in size, a tree with such an arc has less than half of it, and
    no sum leaves the range of the type.
    """
    return -torch.finfo(scores.dtype).max / (4 * max(1, slots))


@dataclass(frozen=True)
class _Charts:
    """A number for each span, twice, so that all ways to cut all spans of one width are a sum of two rectangles.

    `first[:, i, d]` is about spans that begin at slot i, `last[:, j, N - 1 - d]` about spans that end at slot j; d is
    j - i, but j - i - 1 for incomplete spans, which have more than one slot. Of the leading axis

    - 0: complete to the right, i to k, beside complete to the left, k + 1 to j, can be joined to incomplete;
    - 1: incomplete to the right, i to k, and complete to the right, k to j, make complete to the right;
    - 2: complete to the left, i to k, and incomplete to the left, k to j, make complete to the left.
    """

    first: Float[Tensor, "3 N N B"]
    last: Float[Tensor, "3 N N B"]

    @classmethod
    def zeros(cls, slots: int, like: Tensor) -> _Charts:
        return cls(*(like.new_zeros(3, slots, slots, like.size(-1)) for _ in range(2)))

    def joined(self, width: int) -> Float[Tensor, "m cuts B"]:
        """Of each incomplete span, what its ways to be cut have."""
        m = self.first.size(1) - width
        return self.first[0, :m, :width] + self.last[0, width:, m:]

    def completed(self, width: int) -> Float[Tensor, "2 m cuts B"]:
        """Of each complete span, to the right and to the left, what its ways to be cut have."""
        m = self.first.size(1) - width
        return self.first[1:, :m, :width] + self.last[1:, width:, m:]

    def put_incomplete(self, width: int, *, right: Float[Tensor, "m B"], left: Float[Tensor, "m B"]) -> None:
        m = self.first.size(1) - width
        self.first[1, :m, width - 1], self.last[2, width:, m] = right, left

    def put_complete(self, width: int, spans: Float[Tensor, "2 m B"]) -> None:
        m = self.first.size(1) - width
        self.first[0, :m, width] = self.last[1, width:, m - 1] = spans[0]
        self.first[2, :m, width] = self.last[0, width:, m - 1] = spans[1]

    def incomplete(self, width: int) -> tuple[Float[Tensor, "m B"], Float[Tensor, "m B"]]:
        """To the right and to the left."""
        m = self.first.size(1) - width
        return self.first[1, :m, width - 1], self.last[2, width:, m]

    def complete(self, width: int) -> Float[Tensor, "2 m B"]:
        """To the right and to the left: the sum of what was handed to a span in either of its places."""
        m = self.first.size(1) - width
        right = self.first[0, :m, width] + self.last[1, width:, m - 1]
        return torch.stack((right, self.first[2, :m, width] + self.last[0, width:, m - 1]))

    def hand_to_joined(self, width: int, cuts: Float[Tensor, "m cuts B"]) -> None:
        m = self.first.size(1) - width
        self.first[0, :m, :width] += cuts
        self.last[0, width:, m:] += cuts

    def hand_to_completed(self, width: int, cuts: Float[Tensor, "2 m cuts B"]) -> None:
        m = self.first.size(1) - width
        self.first[1:, :m, :width] += cuts
        self.last[1:, width:, m:] += cuts

    def arcs(self) -> Float[Tensor, "N N B"]:
        """What incomplete spans have, as a matrix of children and heads."""
        slots = self.first.size(1)
        matrix = self.first.new_zeros(self.first.shape[1:])
        for width in range(1, slots):
            right, left = self.incomplete(width)
            matrix.diagonal(-width).copy_(right.T)
            matrix.diagonal(width).copy_(left.T)
        return matrix


def _inside(scores: Float[Tensor, "N N B"]) -> _Charts:
    """The logarithm of the sum over all ways to build each span."""
    inside = _Charts.zeros(len(scores), like=scores)
    for width in range(1, len(scores)):
        joined = inside.joined(width).logsumexp(1)
        right, left = joined + scores.diagonal(-width).T, joined + scores.diagonal(width).T
        inside.put_incomplete(width, right=right, left=left)
        inside.put_complete(width, inside.completed(width).logsumexp(2))
    return inside


def _inside_moved(inside: _Charts, direction: Float[Tensor, "N N B"]) -> _Charts:
    """The derivative of `_inside` in this direction of the scores."""
    moved = _Charts.zeros(len(direction), like=direction)
    for width in range(1, len(direction)):
        joined = inside.joined(width).softmax(1).mul_(moved.joined(width)).sum(1)
        right, left = joined + direction.diagonal(-width).T, joined + direction.diagonal(width).T
        moved.put_incomplete(width, right=right, left=left)
        moved.put_complete(width, inside.completed(width).softmax(2).mul_(moved.completed(width)).sum(2))
    return moved


def _whole(inside: _Charts, lengths: Int[Tensor, " B"]) -> Float[Tensor, "N B"]:
    """1 where the span from the root to this slot is the sentence, unless the sentence has no tree."""
    slots = inside.first.size(1)
    ends = torch.arange(slots, device=lengths.device).unsqueeze(1) == lengths - 1
    partition = inside.first[0, :1].flatten(0, 1)
    return (ends & (partition > excluded(partition, slots=slots) / 2)).to(partition.dtype)


def _outside(inside: _Charts, *, whole: Float[Tensor, "N B"]) -> _Charts:
    """How probable each span is as a part of the tree.

    A span hands its probability to what it was made of, in the proportions of the ways to make it. The sums of what
    narrower spans get are those of the outside algorithm times the inside sums, but need no logarithms.
    """
    outside = _Charts.zeros(len(whole), like=whole)
    outside.first[0, :1] = whole
    for width in range(len(whole) - 1, 0, -1):
        shares = inside.completed(width).softmax(2)
        outside.hand_to_completed(width, shares.mul_(outside.complete(width).unsqueeze(2)))
        right, left = outside.incomplete(width)
        outside.hand_to_joined(width, inside.joined(width).softmax(1).mul_((right + left).unsqueeze(1)))
    return outside


def _outside_moved(inside: _Charts, moved: _Charts, *, outside: _Charts) -> _Charts:
    """The derivative of `_outside` where the inside sums move like this."""
    result = _Charts.zeros(inside.first.size(1), like=inside.first)
    for width in range(inside.first.size(1) - 1, 0, -1):
        completed = _shares_moved(
            inside.completed(width), moved.completed(width), of=outside.complete(width), of_moved=result.complete(width)
        )
        result.hand_to_completed(width, completed)
        (right, left), (right_moved, left_moved) = outside.incomplete(width), result.incomplete(width)
        joined = _shares_moved(
            inside.joined(width), moved.joined(width), of=right + left, of_moved=right_moved + left_moved
        )
        result.hand_to_joined(width, joined)
    return result


def _shares_moved(
    cuts: Float[Tensor, "*m cuts B"],
    cuts_moved: Float[Tensor, "*m cuts B"],
    *,
    of: Float[Tensor, "*m B"],
    of_moved: Float[Tensor, "*m B"],
) -> Float[Tensor, "*m cuts B"]:
    """The derivative of softmax(cuts) times what is shared out."""
    shares = cuts.softmax(-2)
    mean = (shares * cuts_moved).sum(-2, keepdim=True)
    return shares.mul_(cuts_moved.sub_(mean).mul_(of.unsqueeze(-2)).add_(of_moved.unsqueeze(-2)))
