"""From tokens to vectors."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.attention.positions import AbsolutePosition
from heedful.values import Tokens


class TokenEmbedding(nn.Module):
    """x_t = E[w_t] sqrt(d_model) + p_t, with dropout (Vaswani et al. 2017, 3.4 and 5.4).

    Args:
        table: a vector for each token; sharing it with another embedding or the output ties them.
        position: added to the vectors; nothing unless given.
        scaled: multiply the vectors by the root of their width, so that tied tables, which are initialised small for
            the sake of the output, do not drown in the positions.
        dropout: on the sum.
    """

    def __init__(
        self,
        table: nn.Embedding,
        *,
        position: AbsolutePosition | None = None,
        scaled: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.table = table
        self.position = position
        self.scale = math.sqrt(table.embedding_dim) if scaled else 1.0
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T d_model"]:
        """A vector for each token."""
        words, places = self.explain(tokens)
        dropped: Tensor = self.dropout(words if places is None else words + places)
        return dropped

    def explain(self, tokens: Tokens) -> tuple[Float[Tensor, "B T d_model"], Float[Tensor, "B T d_model"] | None]:
        """The summands: a vector for each token, and one for its position, if positions are added."""
        words: Tensor = self.table(tokens.ids) * self.scale
        return words, None if self.position is None else self.position(tokens.positions).to(words.dtype)


def embedding_table(size: int, d_model: int) -> nn.Embedding:
    """A table of normal vectors of expected length 1, fit to be tied with an output."""
    table = nn.Embedding(size, d_model)
    nn.init.normal_(table.weight, std=d_model**-0.5)
    return table
