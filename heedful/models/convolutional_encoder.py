"""The encoder of convolutional sequence to sequence learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from heedful.blocks.convolution import CentredConvolution, Lineup, halved_sum, projection
from heedful.blocks.embedding import TokenEmbedding
from heedful.models.interface import Encoder
from heedful.values import Memory, Tokens


class ConvolutionalEncoder(Encoder[Tokens]):
    """Gated convolutions over the source, each inside a residual (Gehring et al. 2017, 3.1 and 3.2).

    Keys are what the convolutions make of a token and its surroundings, z; values are z + e, because the embedding e
    says which token it is (eq. 2). The summary is the mean of z.

    Args:
        embedding: of the tokens.
        layers: from the first to the last.
        gradient_scale: of the gradient that reaches the convolutions from the decoder, 1 / (2 * attentions) (3.4): each
            attention sends one through the keys and one through the values. What goes straight to e is left alone.
    """

    def __init__(
        self, embedding: TokenEmbedding, layers: Sequence[CentredConvolution], *, gradient_scale: float = 1.0
    ) -> None:
        super().__init__()
        d_model, d_hidden = embedding.table.embedding_dim, layers[0].d_hidden
        self.embedding = embedding
        self.inward = projection(d_model, d_hidden, variance=1 - embedding.dropout.p)
        self.layers = nn.ModuleList(layers)
        self.outward = projection(d_hidden, d_model)
        self.gradient_scale = gradient_scale

    def forward(self, source: Tokens) -> Memory:
        """A memory slot for each token."""
        lineup = Lineup.of(source.positions)
        embedded = self.embedding(source)
        x = self.inward(embedded)
        for layer in self.layers:
            x = halved_sum(x, layer(x, lineup))
        z: Tensor = _ScaledGradient.apply(self.outward(x), self.gradient_scale)  # type: ignore[no-untyped-call]  # torch's
        real = (source.positions >= 0).unsqueeze(-1)
        # where, because padding must not meet the sum even as zero times something
        summary = torch.where(real, z, 0.0).sum(1) / real.sum(1).clamp(min=1)
        return Memory(z, z + embedded, source.positions, summary)


class _ScaledGradient(torch.autograd.Function):
    """The identity whose gradient is multiplied by a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return gradient * ctx.scale, None
