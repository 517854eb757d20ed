"""Transformer encoders, poolers and wrappers of encoders."""

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
from heedful.blocks.subsampling import ConvSubsampling, SpecAugment
from heedful.blocks.transformer import TransformerStack
from heedful.models.interface import Encoder
from heedful.tensors import FeatureBatch, FrameLayout, Memory, Tokens


class Pooler(nn.Module, ABC):
    """Base class: turns the hidden vectors of a text into one vector."""

    @abstractmethod
    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_summary"]:
        """Return one vector per text; it must not depend on vectors at -1.

        Args:
            hidden: hidden vectors of the tokens.
            positions: positions of the tokens.
        """


def mean_pool(hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B d_model"]:
    """Average the hidden vectors over all tokens, including special ones; zeros for a text without tokens."""
    token_mask = (positions >= 0).unsqueeze(-1)
    mean: Tensor = (hidden * token_mask).sum(1) / token_mask.sum(1).clamp(min=1)
    return mean


@final
class MeanPooler(Pooler):
    """Mean over all tokens (see `mean_pool`)."""

    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_model"]:
        """Average over all tokens, including special ones."""
        return mean_pool(hidden, positions)


@final
class FirstTokenPooler(Pooler):
    """BERT's pooler tanh(W_s z_0 + b_s), where z_0 is the token at position 0, [CLS] (Devlin et al. 2019)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)

    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_model"]:
        """Pool the token at position 0, wherever padding is."""
        first = (positions == 0).byte().argmax(1)
        rows = torch.arange(hidden.size(0), device=hidden.device)
        pooled: Tensor = self.dense(hidden[rows, first]).tanh()
        return pooled


@final
class SelfAttentivePooler(Pooler):
    """Structured self-attentive embedding M = A H as one vector, with A = softmax(W_s2 tanh(W_s1 H^T)) (Lin et al.
    2017, eq. 6 and 7).

    Row j of A holds the weights of hop j. `heedful.tasks.criteria.decorrelation_penalty` of A is the paper's penalty on
    hops with similar weights.

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
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_output"]:
        """Return the rows of M, concatenated."""
        query = self.queries.weight.flatten().expand(hidden.size(0), 1, -1)
        visible = (positions >= 0).unsqueeze(1)
        matrix: Tensor = self.hops(query, self.keys(hidden).tanh(), value=hidden, visible=visible)
        return matrix.squeeze(1)


class TransformerEncoder(Encoder[Tokens | FeatureBatch]):
    """Transformer encoder: a stack with bidirectional attention (Vaswani et al. 2017, 3.1).

    Args:
        stack: embedding and layers.
        summary: pooler of the tokens; their mean if not given.
    """

    def __init__(self, stack: TransformerStack, *, summary: Pooler | None = None) -> None:
        super().__init__()
        self.stack = stack
        assign_roles(stack, ENCODER_SELF)
        self.summary = summary or MeanPooler()

    def forward(self, source: Tokens | FeatureBatch) -> Memory:
        """Return a memory slot for each token."""
        hidden: Tensor
        hidden, _ = self.stack(source, self.stack.init_state(None))
        return Memory(hidden, hidden, source.positions, self.summary(hidden, source.positions))


@final
class SubsampledEncoder(Encoder[FeatureBatch]):
    """An encoder behind a subsampling by 4; its memory has the layout of frames.

    Args:
        front: subsamples the frames.
        encoder: reads the subsampled vectors.
        hidden: masks parts of the frames while training; nothing if not given.
    """

    def __init__(
        self, front: ConvSubsampling, encoder: Encoder[FeatureBatch], *, hidden: SpecAugment | None = None
    ) -> None:
        super().__init__()
        self.front = front
        self.encoder = encoder
        self.hidden = hidden

    def forward(self, source: FeatureBatch) -> Memory:
        """Return a memory slot for every four frames."""
        memory: Memory = self.encoder(self.front(source if self.hidden is None else self.hidden(source)))
        return replace(memory, layout=FrameLayout(memory.positions.size(1)))


@final
class NamedEncoders(nn.Module):
    """Several encoders by name; each makes one memory from the source of the same name.

    The parameters of each are called `NAME.*`.
    """

    def __init__(self, encoders: Mapping[str, Encoder[Any]]) -> None:
        super().__init__()
        self._names = tuple(encoders)
        for name, encoder in encoders.items():
            self.add_module(name, encoder)

    def forward(self, source: Mapping[str, Any]) -> dict[str, Memory]:
        """Return a memory for each source; sources and memories have the same names."""
        assert source.keys() == set(self._names), f"sources {[*source]}, but encoders of {[*self._names]}"
        return {name: self.get_submodule(name)(source[name]) for name in self._names}
