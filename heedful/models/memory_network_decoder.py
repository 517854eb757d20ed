"""Memory network as a language model: the facts are the words just read (Sukhbaatar et al. 2015, 5)."""

from __future__ import annotations

from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import DotScore, assign_roles
from heedful.attention.attention_trace import AttentionTrace
from heedful.attention.dropout import Dropout
from heedful.attention.hooks import DECODER_SELF
from heedful.attention.kv_cache import KVCache
from heedful.attention.mask import AttentionMask
from heedful.attention.mask_functions import sliding_window
from heedful.attention.multihead import HeadedAttention
from heedful.attention.positions import TemporalEncoding
from heedful.attention.weight_functions import ScoredWeights
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.layer_info import LayerInfo
from heedful.blocks.state import LayerState, StackState
from heedful.models.interface import Decoder
from heedful.tensors import Memories, Tokens

_INITIAL_QUERY: Final = 0.1
"""Value of every entry of the constant initial query."""


class HopAttention(HeadedAttention):
    """Unprojected attention over the remembered words, o = sum_i softmax(u . m_i) c_i (eq. 1-3).

    Args:
        width: of queries, keys and values.
        ages: temporal encoding of the words; all hops may share it.
        dropout: probability of dropping a weight.
    """

    def __init__(self, width: int, ages: TemporalEncoding, *, dropout: float = 0.0) -> None:
        super().__init__(1, d_k=width, d_v=width, relative=ages, weigher=ScoredWeights(DotScore()), dropout=dropout)

    def forward(self, query: Float[Tensor, "G Q d"], memory: KVCache, *, mask: AttentionMask) -> Float[Tensor, "G Q d"]:
        """Return the context of each query."""
        return self._attend(query.unsqueeze(1), memory, mask=mask).squeeze(1)

    def compute_trace(self, query: Float[Tensor, "G Q d"], memory: KVCache, *, mask: AttentionMask) -> AttentionTrace:
        """Return all intermediate values of the call."""
        return self._build_trace(query.unsqueeze(1), memory, mask=mask.to_dense())


class MemoryNetworkDecoder(Decoder):
    """Memory network decoder u^{k+1} = H u^k + o^k with shared hops and a constant u^1; part of u goes through a ReLU
    (2.2, 5).

    A word's key and value are rows of two tables, A and C, which stand side by side, plus vectors of its age. The query
    depends on the current word only through the contexts, in which that word is the youngest.

    Args:
        vocabulary: number of entries.
        width: d.
        hops: K.
        memory: number of words attended to, including the current one.
        rectified: share of u that goes through a ReLU after each hop, its last entries.
        dropout: probability of dropping an entry of a remembered word, a weight, or an entry of the output.
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
        """Describe a single layer: all hops attend to the words themselves."""
        return (LayerInfo(f"{len(self.hops)} hops", before=self.visibility.before),)

    def init_state(self, memory: Memories | None) -> StackState:
        """Return the state before the first token; `memory` must be None."""
        assert memory is None, "this decoder remembers only what it reads"
        return StackState(None, {}, (LayerState(),))

    def forward(self, tokens: Tokens, state: StackState) -> tuple[Float[Tensor, "B T d"], StackState]:
        """Return the query after the last hop for each token, and the new state."""
        rows, length = tokens.positions.shape
        groups = rows // state.width  # the rows of a group are next to each other, as in a stack
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
        """Apply ReLU to the last entries of each query."""
        linear_part, relu_part = torch.split(query, self.widths, -1)
        return torch.cat((linear_part, functional.relu(relu_part)), -1)
