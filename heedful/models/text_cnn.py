"""Convolutional text encoder with windows of several widths (Kim 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.blocks.convolution import PackedTokens
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.layer_info import LayerInfo
from heedful.blocks.linear import build_xavier_linear
from heedful.models.encoders import mean_pool
from heedful.models.interface import Encoder
from heedful.tensors import Memory, Tokens


@final
class ConvWindow(nn.Module):
    """Convolution over windows, relu(W [x_t ... x_{t+k-1}] + b) (Kim 2014, eq. 2).

    Args:
        d_model: width of a token.
        width: k, tokens in a window; zeros follow the end of a text.
        features: number of filters.
    """

    def __init__(self, d_model: int, width: int, *, features: int) -> None:
        super().__init__()
        self.width = width
        self.linear = build_xavier_linear(width * d_model, features)

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T features"]:
        """Return the features of the window that begins at each token; tokens are in order, with zeros behind the
        end.
        """
        padded = functional.pad(x, (0, 0, 0, self.width - 1))
        taps = [padded.narrow(1, tap, x.size(1)) for tap in range(self.width)]
        return torch.relu(self.linear(torch.cat(taps, -1)))


@final
class WindowEncoder(Encoder[Tokens]):
    """Convolutional encoder with windows of several widths and max-pooling (Kim 2014).

    A slot holds the features of the windows that begin at its token. The summary is the maximum of each feature over
    the text, concatenated with the mean of the embeddings: the mean ignores word order and needs few texts to learn;
    windows know the order.

    Args:
        embedding: of the tokens.
        windows: convolutions whose features are concatenated.
    """

    def __init__(self, embedding: TokenEmbedding, windows: Sequence[ConvWindow]) -> None:
        super().__init__()
        self.embedding = embedding
        self.windows = nn.ModuleList(windows)
        self.max_width = max(each.width for each in windows)
        self.d_slot = sum(each.linear.out_features for each in windows)
        self.d_summary = self.d_slot + embedding.table.embedding_dim

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Describe all windows as one layer, as wide as the widest of them."""
        return (LayerInfo("windows", 0, self.max_width - 1),)

    def forward(self, source: Tokens) -> Memory:
        """Return a memory slot for each token."""
        packed = PackedTokens.from_positions(source.positions)
        embedded = self.embedding(source)
        ordered = packed.zero_padding(packed.pack(embedded))
        features = torch.cat([windows(ordered) for windows in self.windows], -1)
        # no value is below zero, so zeros where there is no token are never the maximum
        max_features = packed.zero_padding(features).amax(1)
        values = packed.unpack(features)
        mean = mean_pool(embedded, source.positions)
        return Memory(values, values, source.positions, torch.cat((max_features, mean), -1))
