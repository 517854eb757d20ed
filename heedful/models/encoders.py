"""Encoders: who makes the memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.attention import MultiHopAttention
from heedful.attention.attention_trace import assign_roles
from heedful.attention.hooks import ENCODER_SELF, SUMMARY
from heedful.blocks.linear import build_xavier_linear
from heedful.blocks.recurrent import CellState
from heedful.blocks.subsampling import ConvSubsampling, SpecAugment
from heedful.blocks.transformer import TransformerStack
from heedful.models.interface import Encoder
from heedful.tensors import FeatureBatch, FrameLayout, Memory, Tokens


class Pooler(nn.Module, ABC):
    """A text as one vector: what an encoder says of the whole, or what a head makes of what it says of each token."""

    @abstractmethod
    def forward(
        self,
        hidden: Float[Tensor, "B T d_model"],
        positions: Int[Tensor, "B T"],
        final_states: tuple[CellState, ...] = (),
    ) -> Float[Tensor, "B d_summary"]:
        """Of the hidden vectors of its tokens; nothing depends on those at -1.

        Args:
            hidden: what the encoder says of each token.
            positions: where the tokens are.
            final_states: the states in which the layers of a recurrent encoder have ended; none of any other, or of a memory.
        """


def mean_pool(hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B d_model"]:
    """The mean over all tokens, special ones too; a text without any has zeros."""
    token_mask = (positions >= 0).unsqueeze(-1)
    mean: Tensor = (hidden * token_mask).sum(1) / token_mask.sum(1).clamp(min=1)
    return mean


@final
class MeanPooler(Pooler):
    """See `mean_pool`."""

    def forward(
        self,
        hidden: Float[Tensor, "B T d_model"],
        positions: Int[Tensor, "B T"],
        final_states: tuple[CellState, ...] = (),
    ) -> Float[Tensor, "B d_model"]:
        """Special tokens count as well."""
        return mean_pool(hidden, positions)


@final
class FirstTokenPooler(Pooler):
    """tanh(W_s z_0 + b_s), where z_0 is the token at position 0: BERT's [CLS] (Devlin et al. 2019)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)

    def forward(
        self,
        hidden: Float[Tensor, "B T d_model"],
        positions: Int[Tensor, "B T"],
        final_states: tuple[CellState, ...] = (),
    ) -> Float[Tensor, "B d_model"]:
        """The token is looked up by its position, wherever padding is."""
        first = (positions == 0).byte().argmax(1)
        rows = torch.arange(hidden.size(0), device=hidden.device)
        pooled: Tensor = self.dense(hidden[rows, first]).tanh()
        return pooled


@final
class SelfAttentivePooler(Pooler):
    """M = A H as one vector, where A = softmax(W_s2 tanh(W_s1 H^T)) (Lin et al. 2017, eq. 6 and 7).

    Row j of A is what hop j looks at. `heedful.tasks.decorrelation` of A is the paper's penalty on hops that look at
    the same.

    Args:
        d_model: 2u, width of the hidden vectors.
        hops: r, rows of A.
        d_alignment: d_a, rows of W_s1.
    """

    def __init__(self, d_model: int, *, hops: int, d_alignment: int) -> None:
        super().__init__()
        self.keys = build_xavier_linear(d_model, d_alignment, bias=False)
        self.queries = build_xavier_linear(d_alignment, hops, bias=False)
        self.hops = MultiHopAttention(hops)
        assign_roles(self.hops, SUMMARY)
        self.d_output = hops * d_model

    def forward(
        self,
        hidden: Float[Tensor, "B T d_model"],
        positions: Int[Tensor, "B T"],
        final_states: tuple[CellState, ...] = (),
    ) -> Float[Tensor, "B d_output"]:
        """The rows of M, one behind the other."""
        query = self.queries.weight.flatten().expand(hidden.size(0), 1, -1)
        visible = (positions >= 0).unsqueeze(1)
        matrix: Tensor = self.hops(query, self.keys(hidden).tanh(), value=hidden, visible=visible)
        return matrix.squeeze(1)


class TransformerEncoder(Encoder[Tokens | FeatureBatch]):
    """A stack whose tokens see each other (Vaswani et al. 2017, 3.1).

    Args:
        stack: embedding and layers.
        summary: of the tokens; their mean unless given.
    """

    def __init__(self, stack: TransformerStack, *, summary: Pooler | None = None) -> None:
        super().__init__()
        self.stack = stack
        assign_roles(stack, ENCODER_SELF)
        self.summary = summary or MeanPooler()

    def forward(self, source: Tokens | FeatureBatch) -> Memory:
        """A memory slot for each token."""
        hidden: Tensor
        hidden, _ = self.stack(source, self.stack.init_state(None))
        return Memory(hidden, hidden, source.positions, self.summary(hidden, source.positions))


@final
class SubsampledEncoder(Encoder[FeatureBatch]):
    """An encoder that reads one vector for four frames; its memory has the shape of frames.

    Args:
        front: makes fewer vectors of the frames.
        encoder: reads them.
        hidden: hides parts of the frames while training; nothing unless given.
    """

    def __init__(
        self, front: ConvSubsampling, encoder: Encoder[FeatureBatch], *, hidden: SpecAugment | None = None
    ) -> None:
        super().__init__()
        self.front = front
        self.encoder = encoder
        self.hidden = hidden

    def forward(self, source: FeatureBatch) -> Memory:
        """A memory slot for four frames."""
        memory: Memory = self.encoder(self.front(source if self.hidden is None else self.hidden(source)))
        return replace(memory, layout=FrameLayout(memory.positions.size(1)))


@final
class NamedEncoders(nn.Module):
    """Several encoders, each of which makes the memory of its name from the source of its name.

    The parameters of each are called `NAME.*`.
    """

    def __init__(self, encoders: Mapping[str, Encoder[Any]]) -> None:
        super().__init__()
        self._names = tuple(encoders)
        for name, encoder in encoders.items():
            self.add_module(name, encoder)

    def forward(self, source: Mapping[str, Any]) -> dict[str, Memory]:
        """A memory of each source; sources and memories have the same names."""
        assert source.keys() == set(self._names), f"sources {[*source]}, but encoders of {[*self._names]}"
        return {name: self.get_submodule(name)(source[name]) for name in self._names}
