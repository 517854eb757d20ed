"""Feed-forward parts: linear maps, the network of a Transformer layer, and readouts of recurrent decoders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.fused_operators import apply_linear


def build_xavier_linear(d_input: int, d_output: int, *, bias: bool = True, parts: int = 1) -> nn.Linear:
    """Create a linear map of these widths, with a zero bias if `bias`. Its `parts` (blocks of output rows) are each
    initialised by Xavier's rule (Glorot and Bengio 2010, eq. 16).
    """
    linear = nn.Linear(d_input, d_output, bias=bias)
    for matrix in torch.split(linear.weight, d_output // parts):
        nn.init.xavier_uniform_(matrix)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


class FeedForward(nn.Module):
    """Feed-forward network W_2 f(W_1 x + b_1) + b_2, applied to every token (Vaswani et al. 2017, eq. 2).

    Args:
        d_model: width of input and output.
        d_ff: width of the hidden layer.
        activation: f; nn.ReLU() in the paper, nn.GELU() in BERT and GPT.
        dropout: dropout after the activation.
        bias: whether there are b_1 and b_2.
    """

    def __init__(
        self, d_model: int, d_ff: int, *, activation: nn.Module, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            if bias:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Apply the network to each token separately."""
        return apply_linear(self.dropout(apply_linear(x, self.inner, self.activation)), self.outer)


class GatedFeedForward(FeedForward):
    """Gated feed-forward network W_2 (f(W_1 x + b_1) * (V x + c)) + b_2 (Shazeer 2020, equation 6); SwiGLU if f is
    SiLU, GEGLU if it is GELU.

    Args:
        d_model: width of input and output.
        d_ff: width of the hidden layer.
        activation: f.
        dropout: dropout after the product.
        bias: whether there are b_1, b_2 and c.
    """

    def __init__(
        self, d_model: int, d_ff: int, *, activation: nn.Module, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__(d_model, d_ff, activation=activation, dropout=dropout, bias=bias)
        self.gate = build_xavier_linear(d_model, d_ff, bias=bias)

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Apply the network to each token separately."""
        gated = apply_linear(x, self.inner, self.activation) * apply_linear(x, self.gate)
        return apply_linear(self.dropout(gated), self.outer)


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
        """Apply the activation to the sum of the maps of the state and of all other inputs."""
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
