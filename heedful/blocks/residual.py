"""Residual connections with layer normalisation before or after the sublayer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout

Sublayer = Callable[[Tensor], Tensor]


class ResidualConnection(nn.Module, ABC):
    """Residual connection around a sublayer, with a norm and dropout.

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
        """Return the input plus the result of the sublayer."""

    def _apply_sublayer(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """Apply the sublayer, and the adapter if there is one."""
        result = sublayer(x)
        return result if self.behind is None else self.behind(result)


class PostNorm(ResidualConnection):
    """Post-norm residual LN(x + dropout(f(x))), as in Vaswani et al. 2017, 3.1; deep stacks need a warm-up.

    torch's LayerNorm is the lecture's LN(x; mu, sigma): its bias is mu, its gain sigma, its statistics are taken over
    the d_model entries of each token with the biased variance.
    """

    def __init__(self, d_model: int, dropout: float = 0.0, *, epsilon: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=epsilon, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T d_model"], sublayer: Sublayer) -> Float[Tensor, "B T d_model"]:
        """Add the sublayer's result, then normalise."""
        result: Tensor = self.norm(self.dropout.add_dropped(x, self._apply_sublayer(x, sublayer)))
        return result


class PreNorm(ResidualConnection):
    """Pre-norm residual x + dropout(f(LN(x))): the shortcut is not normalised, so deep stacks train without warm-up
    (Xiong et al. 2020).
    """

    def __init__(self, d_model: int, dropout: float = 0.0, *, epsilon: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=epsilon, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T d_model"], sublayer: Sublayer) -> Float[Tensor, "B T d_model"]:
        """Normalise, apply the sublayer, then add."""
        return self.dropout.add_dropped(x, self._apply_sublayer(self.norm(x), sublayer))
