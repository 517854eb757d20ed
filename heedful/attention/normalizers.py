"""Normalizers turn scores into attention weights.

A normalizer is any function of scores and a visibility mask; it is a module where it has parameters or draws samples:
`softmax` and `normalize_by_sum` here, `StraightThrough` and `HardSampling` in `hard`, `LinearChain` and
`DependencyTree` in `structured`. A `LocalWindow` restricts and reweights the keys before and after normalization.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Normalizer = Callable[[Float[Tensor, "*B Q K"], Bool[Tensor, "*B Q K"]], Float[Tensor, "*B Q K"]]
"""Maps scores and a visibility mask to attention weights."""


def softmax(scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"]) -> Float[Tensor, "*B Q K"]:
    """Compute the softmax over visible keys; a query that sees nothing gets zeros, not NaN."""
    floor = torch.finfo(scores.dtype).min
    return torch.where(visible, scores, floor).softmax(-1) * visible


def normalize_by_sum(scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"]) -> Float[Tensor, "*B Q K"]:
    """Divide nonnegative scores by their sum, p / sum(p), as in the lecture.

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
        """Return the Gaussian inside the window and 0 outside."""
        relative_position = torch.sigmoid(self.place(torch.tanh(self.hidden(query))))
        relative_position = relative_position.to(
            torch.promote_types(relative_position.dtype, torch.float32)
        )  # bf16 cannot tell slot 300 from 301
        slot_numbers = visible.cumsum(-1)
        distance = (slot_numbers - 1) - slot_numbers[..., -1:] * relative_position
        gaussian = torch.exp(-2 * (distance / self.reach).square())
        return torch.where(visible & (distance.abs() <= self.reach), gaussian, 0.0).to(query.dtype)
