"""Readouts: from a decoder's state, embedding and context to the input of its output layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.blocks.linear import build_xavier_linear


class Readout(nn.Module, ABC):
    """Base class: combines state, embedding and context into the input of the output layer.

    Attributes:
        d_output: width of the result, equal to that of the output's embeddings.
    """

    d_output: int

    @abstractmethod
    def forward(self, state: Float[Tensor, "B T d"], *others: Float[Tensor, "B T _"]) -> Float[Tensor, "B T d_output"]:
        """Return one vector for each token."""


class DeepOutput(Readout):
    """Deep output: an activation of the sum of one linear map per input (Pascanu et al. 2014).

    Args:
        d_inputs: widths of the inputs: state, embedding, context.
        activation: tanh, or `Maxout`, which needs an input twice as wide.
        d_output: width of the result, equal to that of the output's embeddings.
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
        """Apply the activation to the sum of all maps."""
        total = sum(linear(x) for linear, x in zip(self.maps, (state, *others), strict=True))
        result: Tensor = self.dropout(self.activation(total))
        return result


class StateReadout(Readout):
    """Readout without a deep output: the output layer reads the state itself (Sutskever et al. 2014)."""

    def __init__(self, d_output: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_output = d_output
        self.dropout = Dropout(dropout)

    def forward(self, state: Float[Tensor, "B T d"], *others: Float[Tensor, "B T _"]) -> Float[Tensor, "B T d_output"]:
        """Return the state with dropout; ignore the other inputs."""
        result: Tensor = self.dropout(state)
        return result


class Maxout(nn.Module):
    """Maximum of each pair of neighbouring entries (Goodfellow et al. 2013)."""

    def forward(self, x: Float[Tensor, "*B pairs"]) -> Float[Tensor, "*B d"]:
        """Return a tensor half as wide."""
        return x.view(*x.shape[:-1], x.size(-1) // 2, 2).amax(-1)
