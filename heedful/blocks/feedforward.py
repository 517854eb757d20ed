"""The position-wise feed-forward network of a Transformer layer."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout


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
        result: Tensor = self.outer(self.dropout(self.activation(self.inner(x))))
        return result
