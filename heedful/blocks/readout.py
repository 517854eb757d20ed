"""From what a decoder knows at a step to what its output reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.blocks.linear import build_xavier_linear


class Readout(nn.Module, ABC):
    """What of state, embedding and context the output reads.

    Attributes:
        d_output: width of the result, that of the output's embeddings.
    """

    d_output: int

    @abstractmethod
    def forward(self, state: Float[Tensor, "B T d"], *others: Float[Tensor, "B T _"]) -> Float[Tensor, "B T d_output"]:
        """One vector for each token."""


class DeepOutput(Readout):
    """The deep output: an activation of the sum of one map for each input (Pascanu et al. 2014).

    Args:
        d_inputs: widths of the inputs: state, embedding, context.
        activation: makes d_output numbers of them: tanh, or `Maxout`, which wants twice as many.
        d_output: width of the result, that of the output's embeddings.
    """

    def __init__(self, d_inputs: Sequence[int], d_output: int, *, activation: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_output = d_output
        width = 2 * d_output if isinstance(activation, Maxout) else d_output
        self.maps = nn.ModuleList(
            build_xavier_linear(d_input, width, bias=n == 0) for n, d_input in enumerate(d_inputs)
        )
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, state: Float[Tensor, "B T d"], *others: Float[Tensor, "B T _"]) -> Float[Tensor, "B T d_output"]:
        """The activation of the sum."""
        total = sum(linear(x) for linear, x in zip(self.maps, (state, *others), strict=True))
        result: Tensor = self.dropout(self.activation(total))
        return result


class StateReadout(Readout):
    """No deep output: what the output reads is the state itself (Sutskever et al. 2014)."""

    def __init__(self, d_output: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_output = d_output
        self.dropout = Dropout(dropout)

    def forward(self, state: Float[Tensor, "B T d"], *others: Float[Tensor, "B T _"]) -> Float[Tensor, "B T d_output"]:
        """The state, whatever stands beside it."""
        result: Tensor = self.dropout(state)
        return result


class Maxout(nn.Module):
    """The larger number of each pair of neighbours (Goodfellow et al. 2013)."""

    def forward(self, x: Float[Tensor, "*B pairs"]) -> Float[Tensor, "*B d"]:
        """Half as wide."""
        return x.view(*x.shape[:-1], x.size(-1) // 2, 2).amax(-1)
