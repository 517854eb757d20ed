"""A Transformer of torch's modules: `nn.Transformer`, sinusoids and a tied embedding."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class PlainTransformer(nn.Module):
    """Model that computes logits over the vocabulary from source and target ids; 0 is padding.

    `nn.Transformer` has one dropout for everything. The dropout of attention weights and activations is set to
    `inner_dropout` afterwards, so that all contestants have the same dropout.
    """

    def __init__(
        self, vocabulary: int, d_model: int, *, heads: int, d_ff: int, layers: int, dropout: float, inner_dropout: float
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.register_buffer("positions", build_sinusoids(1024, d_model), persistent=False)
        self.positions: Tensor
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(d_model, heads, layers, layers, d_ff, dropout, batch_first=True)
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = inner_dropout
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout = nn.Dropout(inner_dropout)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1), target.device, torch.bool)
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=source == 0,
            tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=source == 0,
            tgt_is_causal=True,
        )
        return functional.linear(hidden, self.embedding.weight)

    def embed(self, ids: Tensor) -> Tensor:
        scaled = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        embedded: Tensor = self.dropout(scaled + self.positions[: ids.size(1)])
        return embedded


def build_sinusoids(length: int, width: int) -> Tensor:
    angle = torch.arange(length).unsqueeze(1) * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    return torch.stack((angle.sin(), angle.cos()), 2).flatten(1)
