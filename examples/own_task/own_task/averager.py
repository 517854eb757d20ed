"""The model of the family; it needs torch, its table does not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.models.interface import Encoder
from heedful.models.transformer import MeanPooler
from heedful.tensors import Memory, Tokens
from own_task.averaging import AveragingConfig


class Averager(Encoder[Tokens]):
    """relu(W x + b) of each token's embedding, layer by layer; the mean is what is said of the whole."""

    def __init__(self, embedding: TokenEmbedding, maps: list[nn.Linear]) -> None:
        super().__init__()
        self.embedding = embedding
        self.maps = nn.ModuleList(maps)
        self.summary = MeanPooler()

    def forward(self, source: Tokens) -> Memory:
        """A slot for each token, wherever padding is."""
        hidden: Tensor = self.embedding(source)
        for each in self.maps:
            hidden = torch.relu(each(hidden))
        return Memory(hidden, hidden, source.positions, self.summary(hidden, source.positions))


def averager(config: AveragingConfig, *, vocabulary: int, longest: int) -> Averager:  # noqa: ARG001 - there is no end
    """A freshly initialised one."""
    embedding = TokenEmbedding(build_embedding(vocabulary, config.d_model), dropout=config.dropout)
    return Averager(embedding, [nn.Linear(config.d_model, config.d_model) for _ in range(config.layers)])
