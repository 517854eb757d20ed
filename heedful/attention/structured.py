"""Structured attention: weights that are marginals of a distribution over whole selections of keys."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.choice import softmax


class LinearChain(nn.Module):
    """p(z_i = 1), where z selects keys and neighbours influence each other (Kim et al. 2017, section 3.1).

    p(z) is proportional to exp(sum_i z_i score_i + sum_i b[z_i, z_{i+1}]): a linear-chain conditional random field
    whose 2 x 2 transitions b are learnt. A key may be selected beside any others, so the weights of a query sum to the
    number of keys that it expects to select, not to 1. Hidden slots are no part of the chain: those on their two sides
    are neighbours.

    At first b is 0 and the keys are independent, each with the sigmoid of its score.

    Args:
        total: the weights of a query are scaled to sum to this (the paper's translation experiments: 2); None leaves
            them marginals.
    """

    def __init__(self, *, total: float | None = None) -> None:
        super().__init__()
        self.total = total
        self.transition = nn.Parameter(torch.zeros(2, 2))

    def forward(self, scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"]) -> Float[Tensor, "*B Q K"]:
        """Marginals by the forward-backward algorithm in log space; a query that sees nothing gets zeros."""
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        odds = _log_odds(torch.where(visible, wide, 0.0), visible, transition=self.transition.to(wide.dtype))
        if self.total is None:
            weights = torch.sigmoid(odds) * visible
        else:
            weights = self.total * softmax(functional.logsigmoid(odds), visible)
        return weights.to(scores.dtype)


def _log_odds(
    scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"], *, transition: Float[Tensor, "2 2"]
) -> Float[Tensor, "*B Q K"]:
    """log p(z_i = 1) - log p(z_i = 0): a slot's own score, and what it hears from either side.

    Of a variable with two values a message is one number, the difference of its logarithms, which no length of chain
    makes large.
    """
    before = _heard(scores, visible, transition=transition)
    after = _heard(scores.flip(-1), visible.flip(-1), transition=transition.T).flip(-1)
    return scores + before + after


def _heard(
    scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"], *, transition: Float[Tensor, "2 2"]
) -> Float[Tensor, "*B Q K"]:
    """What each slot hears from those before it; slots that are not visible pass on what they hear."""
    message = scores.new_zeros(scores.shape[:-1])
    messages = [message]
    for score, sees in zip(scores.unbind(-1), visible.unbind(-1), strict=True):
        message = torch.where(sees, _told(score + message, transition), message)
        messages.append(message)
    return torch.stack(messages, -1)[..., :-1]


def _told(odds: Float[Tensor, "*B Q"], transition: Float[Tensor, "2 2"]) -> Float[Tensor, "*B Q"]:
    """What a slot with these log-odds tells the next: log sum_z p(z) exp b[z, 1] - log sum_z p(z) exp b[z, 0]."""
    # From log-probabilities, not from odds: with odds of 1e4 the difference would be one of large numbers.
    off, on = functional.logsigmoid(-odds), functional.logsigmoid(odds)
    one = torch.logaddexp(off + transition[0, 1], on + transition[1, 1])
    none = torch.logaddexp(off + transition[0, 0], on + transition[1, 0])
    return one - none
