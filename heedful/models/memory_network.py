"""Memory networks (Sukhbaatar et al. 2015): for stories, and as language models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import Attention, AttentionRole, DotScore, assign_roles
from heedful.attention.dropout import Dropout
from heedful.attention.hooks import DECODER_SELF, AttentionTrace
from heedful.attention.kv_cache import KVCache
from heedful.attention.mask import AttentionMask
from heedful.attention.mask_functions import sliding_window
from heedful.attention.multihead import HeadedAttention
from heedful.attention.positions import TemporalEncoding
from heedful.attention.scores import ScoredWeights
from heedful.attention.structured import ChainAttention
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.layer_info import LayerInfo
from heedful.blocks.transformer import LayerState, StackState
from heedful.models.interface import Decoder
from heedful.tensors import Memories, Memory, Tokens

FACTS_AXIS: Final = "facts"
QUESTION_AXIS: Final = "question"
STEPS_AXIS: Final = "steps"

_DEVIATION: Final = 0.1
"""Initial standard deviation of all parameters (4.2)."""


@dataclass(frozen=True)
class StoryInputs:
    """Facts in order, and a question about them.

    Attributes:
        facts: word ids, -1 for padding and unknown words.
        ages: number of later facts for each fact, or time steps that passed; -1 where there is no fact.
        question: word ids, padded like facts.
    """

    facts: Int[Tensor, "B S J"]
    ages: Int[Tensor, "B S"]
    question: Int[Tensor, "B Q"]


@dataclass(frozen=True)
class WeightTying:
    """Which embedding tables are shared (2.2); the first `num_fact_tables` tables embed facts.

    Attributes:
        num_tables: number of tables.
        num_fact_tables: number of tables that embed facts.
        question_table: index of the table of the question's words.
        answer_table: index of the table whose rows answers are compared with.
        tables_per_hop: how many tables the keys of the next hop are further on.
        has_hop_map: whether the query is multiplied by a matrix from hop to hop.
    """

    num_tables: int
    num_fact_tables: int
    question_table: int
    answer_table: int
    tables_per_hop: int
    has_hop_map: bool

    @classmethod
    def adjacent(cls, hops: int) -> WeightTying:
        """Return adjacent tying A^{k+1} = C^k, B = A^1, W^T = C^K: the values of one hop are the keys of the next."""
        return cls(hops + 1, hops + 1, 0, hops, 1, has_hop_map=False)

    @classmethod
    def layer_wise(cls) -> WeightTying:
        """Return layer-wise tying A^1 = ... = A^K, C^1 = ... = C^K with a matrix H: a recurrent network over its
        contexts.
        """
        return cls(4, 2, 2, 3, 0, has_hop_map=True)

    def key_table(self, hop: int) -> int:
        """Return the index of A^k, the table for the keys of a hop."""
        return self.tables_per_hop * hop

    def value_table(self, hop: int) -> int:
        """Return the index of C^k, the table for the values of a hop."""
        return self.key_table(hop) + 1


class SentenceEmbedding(nn.Module):
    """Sums of word embeddings, by several tables at once (2.1, 4.1).

    Args:
        vocabulary: number of words.
        width: d, of a vector.
        num_tables: number of tables.
        ordered: position encoding: element k of word j of J is weighted by 2 (1 - j/J) - 2 (k/d)(1 - 2j/J), so that the
            order of words matters; else a bag of words. The 2 is not in the paper but in its authors' code: the mean
            weight of a word is 1.
    """

    def __init__(self, vocabulary: int, width: int, num_tables: int, *, ordered: bool) -> None:
        super().__init__()
        self.width = width
        self.ordered = ordered
        self.weight = nn.Parameter(torch.randn(vocabulary, num_tables * width) * _DEVIATION)
        self.register_buffer("share", torch.arange(1, width + 1) / width, persistent=False)

    def forward(self, words: Int[Tensor, "N J"], first: int, last: int) -> Float[Tensor, "N tables d"]:
        """Embed each sentence by the tables from `first` up to `last`; a sentence without words is zeros."""
        table, word_mask = self.get_tables(first, last), (words >= 0).to(self.weight.dtype)
        if not self.ordered:
            return self._sum_embeddings(words, table, word_mask)
        relative_position = word_mask.cumsum(1) / word_mask.sum(1, keepdim=True).clamp(min=1)
        share: Tensor = self.get_buffer("share")
        constant_part, slope = (
            self._sum_embeddings(words, table, word_mask * weights)
            for weights in (2 - 2 * relative_position, 4 * relative_position - 2)
        )
        return constant_part + share * slope

    def get_tables(self, first: int, last: int) -> Float[Tensor, "V width"]:
        """Return the tables from `first` up to `last`, concatenated."""
        return self.weight[:, first * self.width : last * self.width].contiguous()

    def _sum_embeddings(
        self, words: Int[Tensor, "N J"], table: Float[Tensor, "V width"], weights: Float[Tensor, "N J"]
    ) -> Float[Tensor, "N tables d"]:
        """Return the sum of the word embeddings of each sentence, times the weight of each word, by each of the tables
        that `table` holds side by side.
        """
        if not words.numel():  # torch cannot sum over no sentences, or over sentences without words
            return table.new_zeros(len(words), table.size(1) // self.width, self.width)
        sums = functional.embedding_bag(words.clamp(min=0), table, per_sample_weights=weights, mode="sum")
        return sums.view(len(words), -1, self.width)


class HopUpdate(nn.Module):
    """Attention hop after hop: u^{k+1} = u^k + o^k, or H u^k + o^k, where o^k is the context of u^k (eq. 1-4)."""

    def __init__(self, hops: int, width: int, *, has_hop_map: bool) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(Attention(DotScore()) for _ in range(hops))
        self.map = nn.Linear(width, width, bias=False) if has_hop_map else None
        assign_roles(self, AttentionRole("cross", QUESTION_AXIS, FACTS_AXIS))

    def forward(
        self, query: Float[Tensor, "B d"], memories: Sequence[Memory], *, linear: bool = False
    ) -> Float[Tensor, "B d"]:
        """Return the query after the last hop, with one memory for each hop; `linear` uses the scores themselves as
        weights (4.2).
        """
        state = query.unsqueeze(1)
        for attention, memory in zip(self.attentions, memories, strict=True):
            visible = (memory.positions >= 0).unsqueeze(1)
            if linear:
                context = ((state @ memory.keys.transpose(1, 2)) * visible) @ memory.values
            else:
                context = attention(state, memory.keys, value=memory.values, visible=visible)
            state = (state if self.map is None else self.map(state)) + context
        return state.squeeze(1)


class ChainedHops(nn.Module):
    """All hops at once, as a distribution over paths: o = E[sum_k c^k], then u^K + o (Kim et al. 2017, 4.3).

    Queries do not depend on contexts: u^{k+1} = Q^k u^k where hops are linked. Where they are not, it is
    sum_i m_i^{k+1} (m_i^k . u^k), a sum over all facts, as in the authors' code.
    """

    def __init__(self, hops: int, width: int, *, has_links: bool) -> None:
        super().__init__()
        self.has_links = has_links
        self.chain = ChainAttention()
        self.maps = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(hops - 1) if has_links)
        assign_roles(self, AttentionRole("cross", STEPS_AXIS, FACTS_AXIS))

    def forward(self, query: Float[Tensor, "B d"], memories: Sequence[Memory]) -> Float[Tensor, "B d"]:
        """Return the last query plus the sum of the contexts of all hops, with one memory for each hop."""
        visible = (memories[0].positions >= 0).unsqueeze(1)
        queries, links = [query], []
        for step, (memory, next_memory) in enumerate(pairwise(memories)):
            if self.has_links:
                queries.append(self.maps[step](queries[-1]))
                links.append(memory.keys @ next_memory.keys.transpose(1, 2))
            else:
                score = (queries[-1].unsqueeze(1) @ memory.keys.transpose(1, 2)) * visible
                queries.append((score @ next_memory.keys).squeeze(1))
        # each step has its own keys and values: they are next to each other, and a query is zero outside its own step
        keys, values = (torch.cat([getattr(item, name) for item in memories], 2) for name in ("keys", "values"))
        contexts: Tensor = self.chain(
            torch.stack(queries, 1).unsqueeze(2).mul(_identity_mask(queries)).flatten(2),
            keys,
            value=values,
            visible=visible,
            links=torch.stack(links, 1) if links else None,
        )
        context_by_step = contexts.view(len(query), len(queries), len(queries), -1) * _identity_mask(queries)
        return queries[-1] + context_by_step.sum((1, 2))


def _identity_mask(queries: Sequence[Tensor]) -> Float[Tensor, "1 steps steps 1"]:
    """Return a mask that is 1 where query step and value step are the same."""
    return torch.eye(len(queries), dtype=queries[0].dtype, device=queries[0].device)[None, :, :, None]


class MemoryNetwork(nn.Module):
    """Models p(answer | story) = softmax(W u), where u is the question after attending to facts (2.1, 2.2).

    Args:
        sentences: embeds facts, questions and answers; the first ids are answers.
        tying: which embedding tables are shared.
        looking: attention to the facts.
        answers: number of answers.
        hops: K.
        ages: number of distinct fact ages, older facts share the last one (temporal encoding, 4.1); 0 for no encoding.
    """

    def __init__(
        self,
        sentences: SentenceEmbedding,
        tying: WeightTying,
        looking: HopUpdate | ChainedHops,
        *,
        answers: int,
        hops: int,
        ages: int,
    ) -> None:
        super().__init__()
        self.sentences = sentences
        self.tying = tying
        self.looking = looking
        self.answers = answers
        self.hops = hops
        self.times = (
            nn.Parameter(torch.randn(ages, tying.num_fact_tables * sentences.width) * _DEVIATION) if ages else None
        )

    def build_memories(self, story: StoryInputs) -> list[Memory]:
        """Return the memory of a story for each hop: keys, values and ages of facts; the summary is the question."""
        fact_mask = story.ages >= 0
        facts = self.sentences(story.facts[fact_mask], 0, self.tying.num_fact_tables)
        if self.times is not None:
            ages = story.ages[fact_mask].clamp(max=len(self.times) - 1)
            facts = facts + functional.embedding(ages, self.times).view_as(facts)
        zeros = facts.new_zeros(fact_mask.numel(), *facts.shape[1:])
        block = zeros.index_copy(0, fact_mask.flatten().nonzero().squeeze(1), facts)
        tables, tying = block.view(*fact_mask.shape, *facts.shape[1:]).unbind(2), self.tying
        question = self.sentences(story.question, tying.question_table, tying.question_table + 1).squeeze(1)
        return [
            Memory(tables[tying.key_table(hop)], tables[tying.value_table(hop)], story.ages, question)
            for hop in range(self.hops)
        ]

    def forward(self, story: StoryInputs, *, linear: bool = False) -> Float[Tensor, "B answers"]:
        """Return the logits of the answers; `linear` removes the softmax of attention from each hop."""
        memories = self.build_memories(story)
        options = {"linear": True} if linear else {}
        hidden: Tensor = self.looking(memories[0].summary, memories, **options)
        return (
            hidden @ self.sentences.get_tables(self.tying.answer_table, self.tying.answer_table + 1)[: self.answers].T
        )


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
