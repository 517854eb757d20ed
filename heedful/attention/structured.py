"""Structured attention: weights are marginals of a distribution over subsets of keys or over trees."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.eisner import TreeMarginals, compute_excluded_score
from heedful.attention.normalizers import softmax


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
        """Compute marginals by the forward-backward algorithm in log space; a query that sees nothing gets zeros."""
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
    """Return log p(z_i = 1) - log p(z_i = 0): a slot's own score plus the messages from both sides.

    The message of a binary variable is one number, the difference of its log-probabilities, which stays bounded for any
    length of chain.
    """
    left_messages = _pass_messages(scores, visible, transition=transition)
    right_messages = _pass_messages(scores.flip(-1), visible.flip(-1), transition=transition.T).flip(-1)
    return scores + left_messages + right_messages


def _pass_messages(
    scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"], *, transition: Float[Tensor, "2 2"]
) -> Float[Tensor, "*B Q K"]:
    """Return the message that each slot receives from the slots before it; hidden slots forward messages unchanged."""
    message = scores.new_zeros(scores.shape[:-1])
    messages = [message]
    for score, is_visible in zip(scores.unbind(-1), visible.unbind(-1), strict=True):
        message = torch.where(is_visible, _compute_message(score + message, transition), message)
        messages.append(message)
    return torch.stack(messages, -1)[..., :-1]


def _compute_message(log_odds: Float[Tensor, "*B Q"], transition: Float[Tensor, "2 2"]) -> Float[Tensor, "*B Q"]:
    """Return the message of a slot with these log-odds: log sum_z p(z) exp b[z, 1] - log sum_z p(z) exp b[z, 0]."""
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
        """Compute marginals by Eisner's inside-outside algorithm: O(N^3) work in O(N) steps; first-order gradients
        only.
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
