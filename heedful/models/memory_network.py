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

from heedful.attention import Attention, Dot, Look, declare
from heedful.attention.chain import Chain
from heedful.values import Memory

FACTS: Final = "facts"
QUESTION: Final = "question"
STEPS: Final = "steps"

_DEVIATION: Final = 0.1
"""Of all parameters at first (4.2)."""


@dataclass(frozen=True)
class Story:
    """Facts in their order, and a question about them.

    Attributes:
        facts: ids of words, -1 where there is none: behind a fact's words, and where a word is unknown.
        ages: of each fact how many came after it, or stand for time that passed; -1 where there is no fact.
        question: ids of words, as those of facts.
    """

    facts: Int[Tensor, "B S J"]
    ages: Int[Tensor, "B S"]
    question: Int[Tensor, "B Q"]


class Tying(ABC):
    """Which tables of embeddings are one (2.2); the first `facts` of them are what facts are embedded by.

    Attributes:
        tables: how many there are.
        facts: those that embed facts.
        question: the table of the question's words.
        answer: the table whose rows answers are compared with.
        mapped: whether what was asked goes through a matrix from hop to hop.
    """

    tables: int
    facts: int
    question: int
    answer: int
    mapped: bool

    @abstractmethod
    def keys(self, hop: int) -> int:
        """The table that facts are looked for by."""

    @abstractmethod
    def values(self, hop: int) -> int:
        """The table of what they say."""


@final
class Adjacent(Tying):
    """A^{k+1} = C^k, B = A^1, W^T = C^K: what one hop reads is what the next one looks for."""

    mapped = False

    def __init__(self, hops: int) -> None:
        self.tables = self.facts = hops + 1
        self.question, self.answer = 0, hops

    def keys(self, hop: int) -> int:
        """A^k."""
        return hop

    def values(self, hop: int) -> int:
        """C^k."""
        return hop + 1


@final
class LayerWise(Tying):
    """A^1 = ... = A^K, C^1 = ... = C^K, and a matrix H: a recurrent network that reads what it looks at."""

    tables, facts, question, answer = 4, 2, 2, 3
    mapped = True

    def keys(self, hop: int) -> int:
        """A."""
        return 0

    def values(self, hop: int) -> int:
        """C."""
        return 1


class Sentences(nn.Module):
    """Sums of the embeddings of words, by several tables at once (2.1, 4.1).

    Args:
        vocabulary: words.
        width: d, of a vector.
        tables: how many.
        ordered: position encoding: element k of word j of J counts 2 (1 - j/J) - 2 (k/d)(1 - 2j/J) times, so that the
            order of words matters; else each word counts once, a bag of words. The 2 is not in the paper but in its
            authors' code: words count once on average.
    """

    def __init__(self, vocabulary: int, width: int, tables: int, *, ordered: bool) -> None:
        super().__init__()
        self.width = width
        self.ordered = ordered
        self.weight = nn.Parameter(torch.randn(vocabulary, tables * width) * _DEVIATION)
        self.register_buffer("share", torch.arange(1, width + 1) / width, persistent=False)

    def forward(self, words: Int[Tensor, "N J"], first: int, last: int) -> Float[Tensor, "N tables d"]:
        """A vector of each sentence by the tables from `first` up to `last`; a sentence without words is zeros."""
        table, there = self.table(first, last), (words >= 0).to(self.weight.dtype)
        if not self.ordered:
            return self._summed(words, table, there)
        place = there.cumsum(1) / there.sum(1, keepdim=True).clamp(min=1)
        share: Tensor = self.get_buffer("share")
        straight, slope = (self._summed(words, table, there * by) for by in (2 - 2 * place, 4 * place - 2))
        return straight + share * slope

    def table(self, first: int, last: int) -> Float[Tensor, "V width"]:
        """Some of the tables side by side."""
        return self.weight[:, first * self.width : last * self.width].contiguous()

    def _summed(
        self, words: Int[Tensor, "N J"], table: Float[Tensor, "V width"], by: Float[Tensor, "N J"]
    ) -> Float[Tensor, "N tables d"]:
        if not words.numel():  # of no sentences, or of sentences without words, torch makes no sum
            return table.new_zeros(len(words), table.size(1) // self.width, self.width)
        summed = functional.embedding_bag(words.clamp(min=0), table, per_sample_weights=by, mode="sum")
        return summed.view(len(words), -1, self.width)


class Hopping(nn.Module):
    """u^{k+1} = u^k + o^k, or H u^k + o^k, where o^k is what u^k finds (eq. 1-4)."""

    def __init__(self, hops: int, width: int, *, mapped: bool) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(Attention(Dot()) for _ in range(hops))
        self.map = nn.Linear(width, width, bias=False) if mapped else None
        declare(self, Look("cross", QUESTION, FACTS))

    def forward(
        self, query: Float[Tensor, "B d"], memories: Sequence[Memory], *, linear: bool = False
    ) -> Float[Tensor, "B d"]:
        """What the question has become behind the last hop; `linear` takes scores themselves for weights (4.2)."""
        asked = query.unsqueeze(1)
        for attention, memory in zip(self.attentions, memories, strict=True):
            visible = (memory.positions >= 0).unsqueeze(1)
            if linear:
                found = ((asked @ memory.keys.transpose(1, 2)) * visible) @ memory.values
            else:
                found = attention(asked, memory.keys, value=memory.values, visible=visible)
            asked = (asked if self.map is None else self.map(asked)) + found
        return asked.squeeze(1)


class Linked(nn.Module):
    """All hops look at once, by a distribution over paths (Kim et al. 2017, 4.3): o = E[sum_k c^k], then u^K + o.

    Queries do not wait for what was found: u^{k+1} = Q^k u^k where hops are linked. Where they are not, it is
    sum_i m_i^{k+1} (m_i^k . u^k), all that facts say of the question, as in the authors' code.
    """

    def __init__(self, hops: int, width: int, *, linked: bool) -> None:
        super().__init__()
        self.linked = linked
        self.chain = Chain()
        self.maps = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(hops - 1) if linked)
        declare(self, Look("cross", STEPS, FACTS))

    def forward(self, query: Float[Tensor, "B d"], memories: Sequence[Memory]) -> Float[Tensor, "B d"]:
        """What the last query and all that was found say."""
        visible = (memories[0].positions >= 0).unsqueeze(1)
        queries, links = [query], []
        for step, (memory, after) in enumerate(pairwise(memories)):
            if self.linked:
                queries.append(self.maps[step](queries[-1]))
                links.append(memory.keys @ after.keys.transpose(1, 2))
            else:
                score = (queries[-1].unsqueeze(1) @ memory.keys.transpose(1, 2)) * visible
                queries.append((score @ after.keys).squeeze(1))
        # each step has keys and values of its own: side by side, where a query is zeros beside those of its step
        keys, values = (torch.cat([getattr(each, name) for each in memories], 2) for name in ("keys", "values"))
        found: Tensor = self.chain(
            torch.stack(queries, 1).unsqueeze(2).mul(_eye(queries)).flatten(2),
            keys,
            value=values,
            visible=visible,
            links=torch.stack(links, 1) if links else None,
        )
        apart = found.view(len(query), len(queries), len(queries), -1) * _eye(queries)
        return queries[-1] + apart.sum((1, 2))


def _eye(queries: Sequence[Tensor]) -> Float[Tensor, "1 steps steps 1"]:
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
        self, sentences: Sentences, tying: Tying, looking: Hopping | Linked, *, answers: int, hops: int, ages: int
    ) -> None:
        super().__init__()
        self.sentences = sentences
        self.tying = tying
        self.looking = looking
        self.answers = answers
        self.hops = hops
        self.times = nn.Parameter(torch.randn(ages, tying.facts * sentences.width) * _DEVIATION) if ages else None

    def memories(self, story: Story) -> list[Memory]:
        """What each hop looks at: keys, values and ages of facts; the summary is the question."""
        here = story.ages >= 0
        facts = self.sentences(story.facts[here], 0, self.tying.facts)
        if self.times is not None:
            ages = story.ages[here].clamp(max=len(self.times) - 1)
            facts = facts + functional.embedding(ages, self.times).view_as(facts)
        empty = facts.new_zeros(here.numel(), *facts.shape[1:])
        block = empty.index_copy(0, here.flatten().nonzero().squeeze(1), facts)
        tables, tying = block.view(*here.shape, *facts.shape[1:]).unbind(2), self.tying
        question = self.sentences(story.question, tying.question, tying.question + 1).squeeze(1)
        return [
            Memory(tables[tying.keys(hop)], tables[tying.values(hop)], story.ages, question) for hop in range(self.hops)
        ]

    def forward(self, story: Story, *, linear: bool = False) -> Float[Tensor, "B answers"]:
        """Logits of the answers; `linear` leaves the softmax of attention out, where there is one in each hop."""
        memories = self.memories(story)
        how = {"linear": True} if linear else {}
        hidden: Tensor = self.looking(memories[0].summary, memories, **how)
        return hidden @ self.sentences.table(self.tying.answer, self.tying.answer + 1)[: self.answers].T
