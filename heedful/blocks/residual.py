"""Where the norm stands around a sublayer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout

Sublayer = Callable[[Tensor], Tensor]


class ResidualConnection(nn.Module, ABC):
    """A shortcut around a sublayer, with a norm and dropout.

    Attributes:
        behind: what the sublayer's result goes through before it is added, such as an adapter; None in models as they
            are built.
    """

    behind: nn.Module | None

    def __init__(self) -> None:
        super().__init__()
        self.behind = None

    @abstractmethod
    def forward(self, x: Float[Tensor, "B T d_model"], sublayer: Sublayer) -> Float[Tensor, "B T d_model"]:
        """The input and what the sublayer adds to it."""

    def _apply_sublayer(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        result = sublayer(x)
        return result if self.behind is None else self.behind(result)


class PostNorm(ResidualConnection):
    """LN(x + dropout(f(x))): as in the paper (Vaswani et al. 2017, 3.1); deep stacks need a warm-up.

    torch's LayerNorm is the lecture's LN(x; mu, sigma): its bias is mu, its gain sigma, its statistics are taken over
    the d_model entries of each token with the biased variance.
    """

    def __init__(self, d_model: int, dropout: float = 0.0, *, epsilon: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=epsilon, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T d_model"], sublayer: Sublayer) -> Float[Tensor, "B T d_model"]:
        """Normalised after the sum."""
        result: Tensor = self.norm(self.dropout.add_dropped(x, self._apply_sublayer(x, sublayer)))
        return result


class PreNorm(ResidualConnection):
    """x + dropout(f(LN(x))): the shortcut stays untouched, so deep stacks train from the start (Xiong et al. 2020)."""

    def __init__(self, d_model: int, dropout: float = 0.0, *, epsilon: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=epsilon, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T d_model"], sublayer: Sublayer) -> Float[Tensor, "B T d_model"]:
        """Normalised before the sublayer."""
        return self.dropout.add_dropped(x, self._apply_sublayer(self.norm(x), sublayer))
