"""Normalizers turn scores into attention weights: soft ones, and hard ones that choose one key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.attention.hooks import HookPoint

Normalizer = Callable[[Float[Tensor, "*B Q K"], Bool[Tensor, "*B Q K"]], Float[Tensor, "*B Q K"]]
"""Maps scores and a visibility mask to attention weights."""


def softmax(scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"]) -> Float[Tensor, "*B Q K"]:
    """Compute the softmax over visible keys; a query that sees nothing gets zeros, not NaN."""
    floor = torch.finfo(scores.dtype).min
    return torch.where(visible, scores, floor).softmax(-1) * visible


def normalize_by_sum(scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"]) -> Float[Tensor, "*B Q K"]:
    """Divide nonnegative scores by their sum over visible keys, p / sum(p), as in the lecture.

    Only meaningful for scores that cannot be negative (`ExpDotScore`): with signed scores the sum can vanish and the
    weights leave [0, 1]. A query that sees nothing gets zeros.
    """
    visible_scores = torch.where(visible, scores, 0.0)
    total = visible_scores.sum(-1, keepdim=True)
    return torch.where(total == 0, 0.0, visible_scores / torch.where(total == 0, 1.0, total))


def format_callable(function: object) -> str:
    """Return the name under which `print` shows a normalizer or a mask function."""
    name: str = getattr(function, "__name__", "") or repr(function)
    return type(function).__name__ if isinstance(function, nn.Module) else name


class LocalWindow(nn.Module, ABC):
    """Factors for the attention weights, predicted from the query before any key is scored."""

    @abstractmethod
    def forward(self, query: Float[Tensor, "*B Q d_query"], visible: Bool[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
        """Return a factor for each weight; a key whose factor is 0 is also hidden from the normalizer."""


class PredictedWindow(LocalWindow):
    """A Gaussian window around a predicted position (Luong et al. 2015, local-p).

    The position is p = S sigmoid(v . tanh(W q)) (eq. 9) among the S slots that the query sees, counted from 0 in the
    order of their columns, so that padding on either side changes nothing. Only slots within `reach` of p are
    normalized, and their weights are multiplied by exp(-(s - p)^2 / (2 sigma^2)) with sigma = reach / 2 (eq. 10)
    without being normalized again; p learns through this factor alone.

    The paper's local-m, a window around the query's own position, needs no such module: use the mask function
    `sliding_window(reach, reach)`.

    Args:
        d_query: width of a query.
        d_hidden: width of the hidden layer; the paper's is d_query.
        reach: D, at least 1, so that the window of a query that sees anything is not empty.
    """

    def __init__(self, d_query: int, d_hidden: int, *, reach: int) -> None:
        super().__init__()
        assert reach >= 1, f"a window with a reach of {reach} may contain nothing; take 1 or more"
        self.reach = reach
        self.hidden = nn.Linear(d_query, d_hidden, bias=False)
        self.place = nn.Linear(d_hidden, 1, bias=False)

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"reach={self.reach}"

    def forward(self, query: Float[Tensor, "*B Q d_query"], visible: Bool[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
        """Return the factor of each visible key: a Gaussian inside the window of its query and 0 outside."""
        relative_position = torch.sigmoid(self.place(torch.tanh(self.hidden(query))))
        relative_position = relative_position.to(
            torch.promote_types(relative_position.dtype, torch.float32)
        )  # bf16 cannot distinguish slot 300 from 301
        slot_numbers = visible.cumsum(-1)
        distance = (slot_numbers - 1) - slot_numbers[..., -1:] * relative_position
        gaussian = torch.exp(-2 * (distance / self.reach).square())
        return torch.where(visible & (distance.abs() <= self.reach), gaussian, 0.0).to(query.dtype)


class StraightThrough(nn.Module):
    """Take one key per query, with the gradient of the softmax (straight-through estimator, Bengio et al. 2013).

    The gradient is biased but of low variance, and the loss needs no extra term. A query that sees nothing takes
    nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.probe = HookPoint()

    def forward(self, scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"]) -> Float[Tensor, "*B Q K"]:
        """Return 1 for the selected visible key of each query and 0 for the others."""
        soft: Tensor = self.probe(softmax(scores, visible))
        selected = _select_keys(soft.detach(), visible, sample=self.training).to(soft.dtype)
        return selected + (soft - soft.detach())


class HardSampling(nn.Module):
    """Take one key per query; the gradient comes from a REINFORCE loss (Xu et al. 2015, section 4.1).

    Unbiased, but only together with `compute_reinforce_loss`: without it nothing behind the scores learns. A query that
    sees nothing takes nothing.

    Args:
        expected: share of the queries that use the softmax itself in training instead of a sample, to reduce the
            variance of the gradient (the paper's 0.5, there for whole sentences).
    """

    def __init__(self, *, expected: float = 0.0) -> None:
        super().__init__()
        assert 0 <= expected <= 1, f"{expected} is not a share; take a number from 0 to 1"
        self.expected = expected
        self.probe = HookPoint()

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"expected={self.expected}"

    def forward(self, scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"]) -> Float[Tensor, "*B Q K"]:
        """Return the weights of the keys: 1 for the one selected visible key of each query and 0 for the others. In
        training, a random share `expected` of the queries has softmax weights instead.
        """
        soft: Tensor = self.probe(softmax(scores, visible))
        selected = _select_keys(soft.detach(), visible, sample=self.training).to(soft.dtype)
        if not self.training or self.expected == 0:
            return selected
        use_softmax = torch.rand(*scores.shape[:-1], 1, device=scores.device) < self.expected
        return torch.where(use_softmax, soft, selected)


@dataclass(frozen=True)
class SampleStatistics:
    """Log-probability and entropy of hard attention samples, as a REINFORCE loss needs them.

    Attributes:
        log_probability: of each query's sample, with its gradient; 0 where nothing was sampled.
        entropy: entropy of the distribution that was sampled from, in nats.
    """

    log_probability: Float[Tensor, "*B Q"]
    entropy: Float[Tensor, "*B Q"]

    @classmethod
    def from_weights(cls, weights: Float[Tensor, "*B Q K"], probabilities: Float[Tensor, "*B Q K"]) -> SampleStatistics:
        """Compute the statistics from attention weights and the normalizer's probabilities, as recorded by hooks.

        A query with exactly one nonzero weight sampled that key; any other query used the softmax or saw nothing.
        """
        # The logarithm of a probability that is 0 would be infinite, and its gradient NaN.
        log_probabilities = probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()
        nonzero = weights != 0
        sampled = nonzero & (nonzero.sum(-1, keepdim=True) == 1)
        return cls(torch.where(sampled, log_probabilities, 0.0).sum(-1), -(probabilities * log_probabilities).sum(-1))


def compute_reinforce_loss(
    samples: SampleStatistics,
    *,
    reward: Float[Tensor, "*#B #Q"],
    baseline: float | Float[Tensor, "*#B #Q"] = 0.0,
    entropy_weight: float = 0.0,
) -> Float[Tensor, "*B Q"]:
    """Return a loss term per sample whose gradient is that of -E[reward] - entropy_weight * entropy.

    Only the gradient is meaningful, not the value. REINFORCE with a baseline (Williams 1992; Xu et al. 2015, eq.
    11-12): the baseline leaves the expected gradient unchanged as long as it does not depend on the sample, and reduces
    its variance.

    Args:
        samples: log-probabilities and entropies of the samples.
        reward: reward of each sample; no gradient passes. For Xu et al. the log-likelihood of the whole sentence, [B,
            1], scaled, together with the baseline, by their lambda_r.
        baseline: the expected reward.
        entropy_weight: weight of the entropy bonus (their lambda_e, 0.002 in their code).
    """
    advantage = (reward - baseline).detach()
    return -(advantage * samples.log_probability + entropy_weight * samples.entropy)


@dataclass(frozen=True)
class MovingBaseline:
    """Exponential moving average of past rewards (Xu et al. 2015: b = 0.9 b + 0.1 reward)."""

    value: float = 0.0
    decay: float = 0.9

    def update(self, reward: Float[Tensor, ...]) -> MovingBaseline:
        """Return the baseline after including the mean of new rewards."""
        return MovingBaseline(self.decay * self.value + (1 - self.decay) * float(reward.detach().mean()), self.decay)


def _select_keys(
    probabilities: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"], *, sample: bool
) -> Bool[Tensor, "*B Q K"]:
    """Select one visible key per query: drawn by the probabilities if `sample`, otherwise the first of the most likely
    ones.
    """
    priority = probabilities
    if sample:
        # Of exponential variables with rates p_i, the i-th is the smallest with probability p_i. One may be 0, and a
        # hidden key with it would be 0 / 0.
        time = torch.empty_like(probabilities).exponential_().clamp(min=torch.finfo(probabilities.dtype).tiny)
        priority = probabilities / time
    columns = torch.arange(probabilities.size(-1), device=probabilities.device)
    return (columns == priority.argmax(-1, keepdim=True)) & visible
