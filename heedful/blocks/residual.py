"""Residual connections around the sublayers of a Transformer, and batch normalization of tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.fused_operators import LayerNorm

Sublayer = Callable[[Tensor], Tensor]

_BATCH_MOMENTUM: Final = 0.1
"""Weight of the statistics of a new batch in the running averages."""


class ResidualConnection(nn.Module, ABC):
    """Abstract: residual connection around a sublayer.

    Attributes:
        behind: module applied to the sublayer's result before it is added, such as an adapter; None in newly built
            models.
    """

    behind: nn.Module | None

    def __init__(self) -> None:
        super().__init__()
        self.behind = None

    @abstractmethod
    def forward(self, x: Float[Tensor, "B T d_model"], sublayer: Sublayer) -> Float[Tensor, "B T d_model"]:
        """Return the input combined with the result of the sublayer."""

    def _apply_sublayer(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """Apply the sublayer, and the adapter if there is one."""
        result = sublayer(x)
        return result if self.behind is None else self.behind(result)


class TokenBatchNorm(nn.Module):
    """Batch normalization (Ioffe and Szegedy 2015, algorithm 1) of each feature over all tokens of a batch.

    In training, mean and variance are computed over the batch, padding included. Otherwise the running averages are
    used, so the result of a text does not depend on the other texts. The running averages are parameters without
    gradients, which are saved and averaged like weights. If the gain is frozen, they are used in training too and do
    not change.

    Args:
        width: number of features.
        eps: number that is added to the variance.
        bias: whether a learned bias is added.
    """

    def __init__(self, width: int, *, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.normalized_shape = (width,)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.mean = nn.Parameter(torch.zeros(width), requires_grad=False)
        self.variance = nn.Parameter(torch.ones(width), requires_grad=False)

    def forward(self, x: Float[Tensor, "*B width"]) -> Float[Tensor, "*B width"]:
        """Normalise each feature; a single token has no variance and is normalised by the running averages."""
        tokens = x.reshape(-1, x.shape[-1])
        uses_batch = self.training and self.weight.requires_grad
        if len(tokens) < 2:  # a branch, because compiled code has no truth value for a size
            uses_batch = False
        normalized = nn.functional.batch_norm(
            tokens,
            self.mean,
            self.variance,
            self.weight,
            self.bias,
            training=uses_batch,
            momentum=_BATCH_MOMENTUM,
            eps=self.eps,
        )
        return normalized.view(x.shape)


class NormalizedResidual(ResidualConnection):
    """Abstract: a residual connection with a norm and dropout.

    Args:
        d_model: width of the tokens.
        dropout: dropout of the sublayer's result.
        norm: LayerNorm if not given.
    """

    def __init__(self, d_model: int, dropout: float = 0.0, *, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.norm = norm or LayerNorm(d_model)
        self.dropout = Dropout(dropout)


class PostNorm(NormalizedResidual):
    """Post-norm residual LN(x + dropout(f(x))), as in Vaswani et al. 2017, 3.1; deep stacks need a warm-up.

    torch's LayerNorm is the lecture's LN(x; mu, sigma): its bias is mu, its gain sigma, its statistics are taken over
    the d_model entries of each token with the biased variance.
    """

    def forward(self, x: Float[Tensor, "B T d_model"], sublayer: Sublayer) -> Float[Tensor, "B T d_model"]:
        """Add the sublayer's result, then normalise."""
        result: Tensor = self.norm(self.dropout.add_dropped(x, self._apply_sublayer(x, sublayer)))
        return result


class PreNorm(NormalizedResidual):
    """Pre-norm residual x + dropout(f(LN(x))): the shortcut is not normalised, so deep stacks train without warm-up
    (Xiong et al. 2020).
    """

    def forward(self, x: Float[Tensor, "B T d_model"], sublayer: Sublayer) -> Float[Tensor, "B T d_model"]:
        """Normalise, apply the sublayer, then add."""
        return self.dropout.add_dropped(x, self.compute_branch(x, sublayer))

    def compute_branch(self, x: Float[Tensor, "B T d_model"], sublayer: Sublayer) -> Float[Tensor, "B T d_model"]:
        """Return f(LN(x)) without dropout; the shortcut is not yet added."""
        return self._apply_sublayer(self.norm(x), sublayer)
