"""The encoder of the architecture; it needs torch, but its recipe table does not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.models.interface import Encoder
from heedful.models.transformer import MeanPooler
from heedful.tensors import Memory, Tokens
from own_task.averaging import AveragingConfig


class AveragingEncoder(Encoder[Tokens]):
    """Encoder that computes relu(W x + b) of each embedding in each layer; the summary is the mean over the tokens."""

    def __init__(self, embedding: TokenEmbedding, maps: list[nn.Linear]) -> None:
        super().__init__()
        self.embedding = embedding
        self.maps = nn.ModuleList(maps)
        self.summary = MeanPooler()

    def forward(self, source: Tokens) -> Memory:
        """Return a memory slot for each token."""
        hidden: Tensor = self.embedding(source)
        for each in self.maps:
            hidden = torch.relu(each(hidden))
        return Memory(hidden, hidden, source.positions, self.summary(hidden, source.positions))


def build_averaging_encoder(config: AveragingConfig, *, vocabulary: int, longest: int) -> AveragingEncoder:  # noqa: ARG001 - no limit of length
    """Build an encoder with new weights."""
    embedding = TokenEmbedding(build_embedding(vocabulary, config.d_model), dropout=config.dropout)
    return AveragingEncoder(embedding, [nn.Linear(config.d_model, config.d_model) for _ in range(config.layers)])
