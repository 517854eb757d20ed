"""End-to-end memory networks: a question that looks at facts again and again (Sukhbaatar et al. 2015)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import Attention, AttentionRole, DotScore, assign_roles
from heedful.attention.chain import ChainAttention
from heedful.tensors import Memory

FACTS_AXIS: Final = "facts"
QUESTION_AXIS: Final = "question"
STEPS_AXIS: Final = "steps"

_DEVIATION: Final = 0.1
"""Of all parameters at first (4.2)."""


@dataclass(frozen=True)
class StoryInputs:
    """Facts in their order, and a question about them.

    Attributes:
        facts: ids of words, -1 where there is none: behind a fact's words, and where a word is unknown.
        ages: of each fact how many came after it, or stand for time that passed; -1 where there is no fact.
        question: ids of words, as those of facts.
    """

    facts: Int[Tensor, "B S J"]
    ages: Int[Tensor, "B S"]
    question: Int[Tensor, "B Q"]


class WeightTying(ABC):
    """Which tables of embeddings are one (2.2); the first `num_fact_tables` of them are what facts are embedded by.

    Attributes:
        num_tables: how many there are.
        num_fact_tables: those that embed facts.
        question_table: the table of the question's words.
        answer_table: the table whose rows answers are compared with.
        has_hop_map: whether what was asked goes through a matrix from hop to hop.
    """

    num_tables: int
    num_fact_tables: int
    question_table: int
    answer_table: int
    has_hop_map: bool

    @abstractmethod
    def key_table(self, hop: int) -> int:
        """The table that facts are looked for by."""

    @abstractmethod
    def value_table(self, hop: int) -> int:
        """The table of what they say."""


@final
class AdjacentTying(WeightTying):
    """A^{k+1} = C^k, B = A^1, W^T = C^K: what one hop reads is what the next one looks for."""

    has_hop_map = False

    def __init__(self, hops: int) -> None:
        self.num_tables = self.num_fact_tables = hops + 1
        self.question_table, self.answer_table = 0, hops

    def key_table(self, hop: int) -> int:
        """A^k."""
        return hop

    def value_table(self, hop: int) -> int:
        """C^k."""
        return hop + 1


@final
class LayerWiseTying(WeightTying):
    """A^1 = ... = A^K, C^1 = ... = C^K, and a matrix H: a recurrent network that reads what it looks at."""

    num_tables, num_fact_tables, question_table, answer_table = 4, 2, 2, 3
    has_hop_map = True

    def key_table(self, hop: int) -> int:
        """A."""
        return 0

    def value_table(self, hop: int) -> int:
        """C."""
        return 1


class SentenceEmbedding(nn.Module):
    """Sums of the embeddings of words, by several tables at once (2.1, 4.1).

    Args:
        vocabulary: words.
        width: d, of a vector.
        num_tables: how many.
        ordered: position encoding: element k of word j of J counts 2 (1 - j/J) - 2 (k/d)(1 - 2j/J) times, so that the
            order of words matters; else each word counts once, a bag of words. The 2 is not in the paper but in its
            authors' code: words count once on average.
    """

    def __init__(self, vocabulary: int, width: int, num_tables: int, *, ordered: bool) -> None:
        super().__init__()
        self.width = width
        self.ordered = ordered
        self.weight = nn.Parameter(torch.randn(vocabulary, num_tables * width) * _DEVIATION)
        self.register_buffer("share", torch.arange(1, width + 1) / width, persistent=False)

    def forward(self, words: Int[Tensor, "N J"], first: int, last: int) -> Float[Tensor, "N tables d"]:
        """A vector of each sentence by the tables from `first` up to `last`; a sentence without words is zeros."""
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
        """Some of the tables side by side."""
        return self.weight[:, first * self.width : last * self.width].contiguous()

    def _sum_embeddings(
        self, words: Int[Tensor, "N J"], table: Float[Tensor, "V width"], weights: Float[Tensor, "N J"]
    ) -> Float[Tensor, "N tables d"]:
        if not words.numel():  # of no sentences, or of sentences without words, torch makes no sum
            return table.new_zeros(len(words), table.size(1) // self.width, self.width)
        sums = functional.embedding_bag(words.clamp(min=0), table, per_sample_weights=weights, mode="sum")
        return sums.view(len(words), -1, self.width)


class HopUpdate(nn.Module):
    """u^{k+1} = u^k + o^k, or H u^k + o^k, where o^k is what u^k finds (eq. 1-4)."""

    def __init__(self, hops: int, width: int, *, has_hop_map: bool) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(Attention(DotScore()) for _ in range(hops))
        self.map = nn.Linear(width, width, bias=False) if has_hop_map else None
        assign_roles(self, AttentionRole("cross", QUESTION_AXIS, FACTS_AXIS))

    def forward(
        self, query: Float[Tensor, "B d"], memories: Sequence[Memory], *, linear: bool = False
    ) -> Float[Tensor, "B d"]:
        """What the question has become behind the last hop; `linear` takes scores themselves for weights (4.2)."""
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
    """All hops look at once, by a distribution over paths (Kim et al. 2017, 4.3): o = E[sum_k c^k], then u^K + o.

    Queries do not wait for what was found: u^{k+1} = Q^k u^k where hops are linked. Where they are not, it is
    sum_i m_i^{k+1} (m_i^k . u^k), all that facts say of the question, as in the authors' code.
    """

    def __init__(self, hops: int, width: int, *, has_links: bool) -> None:
        super().__init__()
        self.has_links = has_links
        self.chain = ChainAttention()
        self.maps = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(hops - 1) if has_links)
        assign_roles(self, AttentionRole("cross", STEPS_AXIS, FACTS_AXIS))

    def forward(self, query: Float[Tensor, "B d"], memories: Sequence[Memory]) -> Float[Tensor, "B d"]:
        """What the last query and all that was found say."""
        visible = (memories[0].positions >= 0).unsqueeze(1)
        queries, links = [query], []
        for step, (memory, next_memory) in enumerate(pairwise(memories)):
            if self.has_links:
                queries.append(self.maps[step](queries[-1]))
                links.append(memory.keys @ next_memory.keys.transpose(1, 2))
            else:
                score = (queries[-1].unsqueeze(1) @ memory.keys.transpose(1, 2)) * visible
                queries.append((score @ next_memory.keys).squeeze(1))
        # each step has keys and values of its own: side by side, where a query is zeros beside those of its step
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
    """1 where a step meets itself."""
    return torch.eye(len(queries), dtype=queries[0].dtype, device=queries[0].device)[None, :, :, None]


class MemoryNetwork(nn.Module):
    """p(answer | story) = softmax(W u), where u is what a question has become after it looked at facts (2.1, 2.2).

    Args:
        sentences: embeds facts, questions and answers; the first ids are answers.
        tying: which of its tables are one.
        looking: how facts are looked at.
        answers: how many there are.
        hops: K.
        ages: of facts that are told apart, older ones count as the oldest (temporal encoding, 4.1); 0 tells none.
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
        """What each hop looks at: keys, values and ages of facts; the summary is the question."""
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
        """Logits of the answers; `linear` leaves the softmax of attention out, where there is one in each hop."""
        memories = self.build_memories(story)
        options = {"linear": True} if linear else {}
        hidden: Tensor = self.looking(memories[0].summary, memories, **options)
        return (
            hidden @ self.sentences.get_tables(self.tying.answer_table, self.tying.answer_table + 1)[: self.answers].T
        )
