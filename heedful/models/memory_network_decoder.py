"""The memory network as a language model: facts are the words just read (Sukhbaatar et al. 2015, 5)."""

from __future__ import annotations

from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.dropout import Dropout
from heedful.attention.explained import Explained, declare
from heedful.attention.keys import KeyValues
from heedful.attention.multihead import HeadedAttention
from heedful.attention.positions import Ages
from heedful.attention.probe import WRITING
from heedful.attention.scores import Dot
from heedful.attention.sight import Sight
from heedful.attention.visibility import window
from heedful.attention.weigher import Scored
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.levels import Level
from heedful.blocks.state import LayerState, StackState
from heedful.models.interface import Decoder
from heedful.values import Memories, Tokens

_ASKED: Final = 0.1
"""Of each number of what every word asks first."""


class Hop(HeadedAttention):
    """o = sum_i softmax(u . m_i) c_i over the words that are remembered (eq. 1-3); nothing is projected.

    Args:
        width: of everything.
        ages: what their age adds to words; all hops may share it.
        dropout: probability of dropping a weight.
    """

    def __init__(self, width: int, ages: Ages, *, dropout: float = 0.0) -> None:
        super().__init__(1, d_k=width, d_v=width, relative=ages, weigher=Scored(Dot()), dropout=dropout)

    def forward(self, asked: Float[Tensor, "G Q d"], memory: KeyValues, *, sight: Sight) -> Float[Tensor, "G Q d"]:
        """What is found."""
        return self._attend(asked.unsqueeze(1), memory, sight=sight).squeeze(1)

    def explain(self, asked: Float[Tensor, "G Q d"], memory: KeyValues, *, sight: Sight) -> Explained:
        """All that lies between what is asked and what is found."""
        return self._explained(asked.unsqueeze(1), memory, sight=sight.whole())


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
        ages = Ages(width, memory)
        self.hops = nn.ModuleList(Hop(width, ages, dropout=dropout) for _ in range(hops))
        self.dropout = Dropout(dropout)
        self.widths = [width - round(rectified * width), round(rectified * width)]
        self.visibility = window(memory - 1, 0)
        declare(self, WRITING)

    def levels(self) -> tuple[Level, ...]:
        """One: all hops look at the words themselves."""
        return (Level(f"{len(self.hops)} hops", before=self.visibility.before),)

    def begin(self, memory: Memories | None) -> StackState:
        """The state before the first token, which looks at nothing else."""
        assert memory is None, "this remembers what it reads, and nothing else"
        return StackState(None, {}, (LayerState(),))

    def forward(self, tokens: Tokens, state: StackState) -> tuple[Float[Tensor, "B T d"], StackState]:
        """What became of the question at each token, and the state after them."""
        rows, length = tokens.positions.shape
        groups = rows // state.width  # the rows of a group side by side, as in a stack
        tables: Tensor = self.embedding(tokens).view(groups, 1, state.width * length, 2 * self.map.in_features)
        key, value = tables.chunk(2, -1)
        new = KeyValues(key, value)
        state = state.ready(state.width * length)
        past = state.layers[0].past
        memory = new if past is None else past.extend(new)
        positions = tokens.positions.reshape(groups, state.width * length)
        slots = state.read(positions)
        sight = slots.sight(positions, self.visibility)
        asked = new.key.new_full((*positions.shape, self.map.in_features), _ASKED)
        for hop in self.hops:
            asked = self._bent(self.map(asked) + hop(asked, memory, sight=sight))
        hidden: Tensor = self.dropout(asked).view(rows, length, asked.size(-1))
        return hidden, StackState(slots, {}, (LayerState(memory),), state.width)

    def _bent(self, asked: Float[Tensor, "G Q d"]) -> Float[Tensor, "G Q d"]:
        straight, bent = torch.split(asked, self.widths, -1)
        return torch.cat((straight, functional.relu(bent)), -1)
