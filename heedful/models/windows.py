"""An encoder that looks for short sequences of words, wherever in a text they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.blocks.convolution import Lineup
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.levels import Level
from heedful.blocks.linear import xavier_linear
from heedful.models.encoders import mean_of_tokens
from heedful.models.interface import Encoder
from heedful.values import Memory, Tokens


@final
class Windows(nn.Module):
    """relu(W [x_t ... x_{t+k-1}] + b): what is found in the window that begins at each token (Kim 2014, eq. 2).

    Args:
        d_model: width of a token.
        width: k, tokens in a window; behind the end of a text are zeros.
        features: how many things are looked for.
    """

    def __init__(self, d_model: int, width: int, *, features: int) -> None:
        super().__init__()
        self.width = width
        self.linear = xavier_linear(width * d_model, features)

    def forward(self, line: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T features"]:
        """Of tokens in the order of a text, with zeros behind its end."""
        padded = functional.pad(line, (0, 0, 0, self.width - 1))
        taps = [padded.narrow(1, tap, line.size(1)) for tap in range(self.width)]
        return torch.relu(self.linear(torch.cat(taps, -1)))


@final
class WindowEncoder(Encoder[Tokens]):
    """Windows of several widths over a text (Kim 2014).

    A slot holds what was found in the windows that begin at its token. The summary is the strongest find of each
    feature anywhere in the text, beside the mean of the embeddings: the mean counts words whatever stands around them,
    and learns from few texts; windows know their order.

    Args:
        embedding: of the tokens.
        windows: what they find stands side by side.
    """

    def __init__(self, embedding: TokenEmbedding, windows: Sequence[Windows]) -> None:
        super().__init__()
        self.embedding = embedding
        self.windows = nn.ModuleList(windows)
        self.widest = max(each.width for each in windows)
        self.d_slot = sum(each.linear.out_features for each in windows)
        self.d_summary = self.d_slot + embedding.table.embedding_dim

    def levels(self) -> tuple[Level, ...]:
        """All windows are one level, as far as the widest of them."""
        return (Level("windows", 0, self.widest - 1),)

    def forward(self, source: Tokens) -> Memory:
        """A memory slot for each token."""
        lineup = Lineup.of(source.positions)
        embedded = self.embedding(source)
        line = lineup.blank(lineup.arrange(embedded))
        found = torch.cat([windows(line) for windows in self.windows], -1)
        # nothing is below zero, so zeros where there is no token are never the strongest
        strongest = lineup.blank(found).amax(1)
        values = lineup.restore(found)
        mean = mean_of_tokens(embedded, source.positions)
        return Memory(values, values, source.positions, torch.cat((strongest, mean), -1))
