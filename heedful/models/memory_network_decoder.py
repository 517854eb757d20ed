"""The memory network as a language model: facts are the words just read (Sukhbaatar et al. 2015, 5)."""

from __future__ import annotations

from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.attention_trace import AttentionTrace, assign_roles
from heedful.attention.dropout import Dropout
from heedful.attention.hooks import DECODER_SELF
from heedful.attention.kv_cache import KVCache
from heedful.attention.mask import AttentionMask
from heedful.attention.mask_functions import sliding_window
from heedful.attention.multihead import HeadedAttention
from heedful.attention.positions import TemporalEncoding
from heedful.attention.scores import DotScore
from heedful.attention.weight_functions import ScoredWeights
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.layer_info import LayerInfo
from heedful.blocks.state import LayerState, StackState
from heedful.models.interface import Decoder
from heedful.tensors import Memories, Tokens

_INITIAL_QUERY: Final = 0.1
"""Of each number of what every word asks first."""


class HopAttention(HeadedAttention):
    """o = sum_i softmax(u . m_i) c_i over the words that are remembered (eq. 1-3); nothing is projected.

    Args:
        width: of everything.
        ages: what their age adds to words; all hops may share it.
        dropout: probability of dropping a weight.
    """

    def __init__(self, width: int, ages: TemporalEncoding, *, dropout: float = 0.0) -> None:
        super().__init__(1, d_k=width, d_v=width, relative=ages, weigher=ScoredWeights(DotScore()), dropout=dropout)

    def forward(self, query: Float[Tensor, "G Q d"], memory: KVCache, *, mask: AttentionMask) -> Float[Tensor, "G Q d"]:
        """What is found."""
        return self._attend(query.unsqueeze(1), memory, mask=mask).squeeze(1)

    def compute_trace(self, query: Float[Tensor, "G Q d"], memory: KVCache, *, mask: AttentionMask) -> AttentionTrace:
        """All that lies between what is asked and what is found."""
        return self._build_trace(query.unsqueeze(1), memory, mask=mask.to_dense())


class MemoryNetworkDecoder(Decoder):
    """u^{k+1} = H u^k + o^k, the same for all hops, from a constant u^1; part of it goes through a ReLU (2.2, 5).

    A word's key and value are rows of two tables, A and C, which stand side by side, plus vectors of its age. What is
    asked does not depend on the word at hand but by what is found, in which that word is the youngest.

    Args:
        vocabulary: entries.
        width: d.
        hops: K.
        memory: words that are looked at, the one at hand among them.
        rectified: share of u that goes through a ReLU behind each hop, the last numbers of it.
        dropout: probability of dropping a number of what is remembered, a weight, and a number of what comes out.
    """

    def __init__(
        self, vocabulary: int, width: int, *, hops: int, memory: int, rectified: float = 0.5, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(nn.Embedding(vocabulary, 2 * width), scaled=False, dropout=dropout)
        self.map = nn.Linear(width, width, bias=False)
        ages = TemporalEncoding(width, memory)
        self.hops = nn.ModuleList(HopAttention(width, ages, dropout=dropout) for _ in range(hops))
        self.dropout = Dropout(dropout)
        self.widths = [width - round(rectified * width), round(rectified * width)]
        self.visibility = sliding_window(memory - 1, 0)
        assign_roles(self, DECODER_SELF)

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """One: all hops look at the words themselves."""
        return (LayerInfo(f"{len(self.hops)} hops", before=self.visibility.before),)

    def init_state(self, memory: Memories | None) -> StackState:
        """The state before the first token, which looks at nothing else."""
        assert memory is None, "this remembers what it reads, and nothing else"
        return StackState(None, {}, (LayerState(),))

    def forward(self, tokens: Tokens, state: StackState) -> tuple[Float[Tensor, "B T d"], StackState]:
        """What became of the question at each token, and the state after them."""
        rows, length = tokens.positions.shape
        groups = rows // state.width  # the rows of a group side by side, as in a stack
        tables: Tensor = self.embedding(tokens).view(groups, 1, state.width * length, 2 * self.map.in_features)
        key, value = tables.chunk(2, -1)
        new = KVCache(key, value)
        state = state.materialize(state.width * length)
        past = state.layers[0].past
        memory = new if past is None else past.extend(new)
        positions = tokens.positions.reshape(groups, state.width * length)
        layout = state.extend_past(positions)
        mask = layout.build_mask(positions, self.visibility)
        query = new.key.new_full((*positions.shape, self.map.in_features), _INITIAL_QUERY)
        for hop in self.hops:
            query = self._apply_partial_relu(self.map(query) + hop(query, memory, mask=mask))
        hidden: Tensor = self.dropout(query).view(rows, length, query.size(-1))
        return hidden, StackState(layout, {}, (LayerState(memory),), state.width)

    def _apply_partial_relu(self, query: Float[Tensor, "G Q d"]) -> Float[Tensor, "G Q d"]:
        linear_part, relu_part = torch.split(query, self.widths, -1)
        return torch.cat((linear_part, functional.relu(relu_part)), -1)
