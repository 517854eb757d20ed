"""Structured attention: linear chains, dependency trees (Eisner 1996), and queries that choose jointly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from heedful.attention.hooks import AttentionTrace, TraceableAttention
from heedful.attention.normalizers import softmax


class TreeMarginals(torch.autograd.Function):
    """Arc marginals p(head of row = column), [N, N, B], from scores of that shape; sentences fill the first `lengths`
    slots.

    The first slot is the root. Marginals are the gradient of the log-partition, so their Jacobian is symmetric, and its
    product with the incoming gradient is the directional derivative of the marginals: the same two passes once more,
    with first-order terms. That needs no logarithms of negative numbers (Kim et al. 2017, table 1).
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, lengths: Tensor) -> Tensor:
        """Compute the marginals by one pass from narrow spans to wide ones, and one back; store both in `ctx` for the
        gradient.
        """
        inside = _compute_inside(scores)
        outside = _compute_outside(inside, full_spans=_mark_full_spans(inside, lengths))
        ctx.save_for_backward(inside.by_start, inside.by_end, outside.by_start, outside.by_end)
        return outside.to_arc_matrix()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the scores from that of the marginals (`upstream`), by the derivative of the same two
        passes.
        """
        charts = ctx.saved_tensors
        inside, outside = _SpanCharts(*charts[:2]), _SpanCharts(*charts[2:])
        return _differentiate_outside(
            inside, _differentiate_inside(inside, upstream[0]), outside=outside
        ).to_arc_matrix(), None


def compute_excluded_score(scores: Tensor, *, slots: int) -> float:
    """Return the score of a forbidden arc between `slots` slots, for the dtype of these scores.

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
        """Add values to both parts of each split of incomplete spans of this width; `cuts` holds one for each span and
        split.
        """
        m = self.by_start.size(1) - width
        self.by_start[0, :m, :width] += cuts
        self.by_end[0, width:, m:] += cuts

    def add_to_complete_splits(self, width: int, cuts: Float[Tensor, "2 m cuts B"]) -> None:
        """Add values to both parts of each split of complete spans of this width, right and left; `cuts` holds one for
        each span and split.
        """
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
    """Compute the log of the sum over all ways to build each span from arcs with these scores."""
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
    """Return 1 where the span from the root to this slot is the whole sentence of `lengths` slots, else 0; all 0 if
    `inside` says that the sentence has no tree.
    """
    slots = inside.by_start.size(1)
    ends = torch.arange(slots, device=lengths.device).unsqueeze(1) == lengths - 1
    partition = inside.by_start[0, :1].flatten(0, 1)
    return (ends & (partition > compute_excluded_score(partition, slots=slots) / 2)).to(partition.dtype)


def _compute_outside(inside: _SpanCharts, *, full_spans: Float[Tensor, "N B"]) -> _SpanCharts:
    """Compute the probability that each span is part of the tree, from the inside sums; `full_spans` is 1 for the whole
    sentence.

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
    """Compute the derivative of `_compute_outside`, whose result is `outside`, for these tangents of the inside
    sums.
    """
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
    """Compute the derivative of softmax(cuts) * total from the tangents of `cuts` and `total`."""
    shares = cuts.softmax(-2)
    mean = (shares * cut_tangents).sum(-2, keepdim=True)
    return shares.mul_(cut_tangents.sub_(mean).mul_(total.unsqueeze(-2)).add_(total_tangent.unsqueeze(-2)))


class LinearChain(nn.Module):
    """Marginals p(z_i = 1) of a linear-chain CRF that selects keys (Kim et al. 2017, section 3.1).

    p(z) is proportional to exp(sum_i z_i score_i + sum_i b[z_i, z_{i+1}]): a linear-chain conditional random field
    whose 2 x 2 transitions b are learned. Any number of keys may be selected, so the weights of a query sum to the
    expected number of selected keys, not to 1. Hidden slots are not part of the chain: the slots around them are
    neighbours.

    Initially b is 0 and the keys are independent, each with the sigmoid of its score.

    Args:
        total: the weights of a query are scaled to sum to this (the paper's translation experiments: 2); None keeps the
            marginals.
    """

    def __init__(self, *, total: float | None = None) -> None:
        super().__init__()
        self.total = total
        self.transition = nn.Parameter(torch.zeros(2, 2))

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"total={self.total}"

    def forward(self, scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"]) -> Float[Tensor, "*B Q K"]:
        """Turn the scores of visible keys into marginals by the forward-backward algorithm in log space; a query that
        sees nothing gets zeros.
        """
        exact_scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        log_odds = _compute_log_odds(
            torch.where(visible, exact_scores, 0.0), visible, transition=self.transition.to(exact_scores.dtype)
        )
        if self.total is None:
            weights = torch.sigmoid(log_odds) * visible
        else:
            weights = self.total * softmax(functional.logsigmoid(log_odds), visible)
        return weights.to(scores.dtype)


def _compute_log_odds(
    scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"], *, transition: Float[Tensor, "2 2"]
) -> Float[Tensor, "*B Q K"]:
    """Return log p(z_i = 1) - log p(z_i = 0) of each visible slot: its own score plus the messages from both sides.
    `transition` holds the scores of two neighbouring z.

    The message of a binary variable is one number, the difference of its log-probabilities, which stays bounded for any
    length of chain.
    """
    left_messages = _pass_messages(scores, visible, transition=transition)
    right_messages = _pass_messages(scores.flip(-1), visible.flip(-1), transition=transition.T).flip(-1)
    return scores + left_messages + right_messages


def _pass_messages(
    scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"], *, transition: Float[Tensor, "2 2"]
) -> Float[Tensor, "*B Q K"]:
    """Return the message that each slot receives from the slots before it; hidden slots forward messages unchanged.
    `transition` holds the scores of two neighbouring z.
    """
    message = scores.new_zeros(scores.shape[:-1])
    messages = [message]
    for score, is_visible in zip(scores.unbind(-1), visible.unbind(-1), strict=True):
        message = torch.where(is_visible, _compute_message(score + message, transition), message)
        messages.append(message)
    return torch.stack(messages, -1)[..., :-1]


def _compute_message(log_odds: Float[Tensor, "*B Q"], transition: Float[Tensor, "2 2"]) -> Float[Tensor, "*B Q"]:
    """Return the message of a slot with these log-odds: log sum_z p(z) exp b[z, 1] - log sum_z p(z) exp b[z, 0], where
    b is the transition.
    """
    # From log-probabilities, not from odds: with odds of 1e4 the difference would be one of large numbers.
    off, on = functional.logsigmoid(-log_odds), functional.logsigmoid(log_odds)
    log_one = torch.logaddexp(off + transition[0, 1], on + transition[1, 1])
    log_zero = torch.logaddexp(off + transition[0, 0], on + transition[1, 0])
    return log_one - log_zero


class DependencyTree(nn.Module):
    """Marginals p(head of the query = key) of projective dependency trees (Kim et al. 2017, section 3.2).

    p(tree) is proportional to exp(sum of the scores of its arcs), where the score of a query and a key is that of the
    arc from the key, as head, to the query, as child. In a projective tree no two arcs cross. Queries and keys are the
    same slots, in the same order. The first slot is the root, the paper's symbol `$`: it has no head, so its weights
    are zeros, and it may have any number of children; every other slot has one head, so its weights sum to 1.

    Slots that no query sees are not part of the sentence, as query or key; the slots around them are neighbours. A tree
    has no arc from a key to a query that does not see it. If that leaves no tree, all weights are zeros.
    """

    def forward(self, scores: Float[Tensor, "*B N N"], visible: Bool[Tensor, "*#B N N"]) -> Float[Tensor, "*B N N"]:
        """Turn the scores of visible heads into marginals by Eisner's inside-outside algorithm: O(N^3) work in O(N)
        steps; first-order gradients only.
        """
        slots = scores.size(-1)
        flat = (math.prod(scores.shape[:-2]), slots, slots)
        exact_scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).reshape(flat)
        visible_pairs = visible.expand_as(scores).reshape(flat)
        in_sentence = visible_pairs.any(1)
        order = (
            (~in_sentence).to(torch.uint8).argsort(dim=1, stable=True)
        )  # tokens of the sentence first, then all others
        excluded_score = compute_excluded_score(exact_scores, slots=slots)
        limit = -excluded_score / (2 * max(1, slots))
        bounded = torch.where(
            _permute_slots(visible_pairs, order),
            _permute_slots(exact_scores, order).clamp(-limit, limit),
            excluded_score,
        )
        apply: Callable[..., Tensor] = TreeMarginals.apply
        marginals = apply(bounded.permute(1, 2, 0).contiguous(), in_sentence.sum(1)).permute(2, 0, 1)
        return _permute_slots(marginals, order.argsort(1)).reshape(scores.shape).to(scores.dtype)


def _permute_slots(matrix: Shaped[Tensor, "B N N"], order: Int[Tensor, "B N"]) -> Shaped[Tensor, "B N N"]:
    """Permute the rows and columns of each matrix."""
    rows = matrix.gather(1, order.unsqueeze(2).expand_as(matrix))
    return rows.gather(2, order.unsqueeze(1).expand_as(matrix))


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
        """Return the expected value of each query over all paths; zeros where nothing is visible. `links` holds
        transition scores between a key of one step and a key of the next.

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
        """Return all intermediate values of `forward` for the same arguments; `bias` is what the rest of the path adds
        to each score.
        """
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
    """Compute the marginals of all paths by the forward-backward algorithm in log space, from the scores of each step
    and the transition scores `links`; without links the steps are independent.
    """
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
