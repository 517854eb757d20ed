"""Encoders of pairs: a second text is read in the light of the first (Rocktäschel et al. 2016)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from heedful.attention.attention import Attention
from heedful.attention.dropout import Dropout
from heedful.attention.explained import declare
from heedful.attention.probe import HYPOTHESIS, PREMISE, WHOLE, Look
from heedful.attention.scores import Concat
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.linear import xavier_linear
from heedful.blocks.recurrent import CellState, RecurrentStack
from heedful.models.interface import Encoder
from heedful.values import Memory, Tokens


@dataclass(frozen=True)
class Outputs:
    """What the layers above each other say of the tokens of a text, from its first column on; -1 is no token."""

    values: Float[Tensor, "B T d"]
    positions: Int[Tensor, "B T"]

    @property
    def last(self) -> Float[Tensor, "B d"]:
        """Of the last token of each text."""
        ends = (self.positions >= 0).sum(1) - 1
        return self.values[torch.arange(len(ends), device=ends.device), ends]


class Comparison(nn.Module, ABC):
    """What is said of two texts, of the outputs for both; made of the width of these."""

    @abstractmethod
    def forward(self, premise: Outputs, hypothesis: Outputs) -> Float[Tensor, "B d"]:
        """One vector; nothing depends on outputs at -1."""


@final
class LastOutput(Comparison):
    """h* = tanh(W_x h_N): conditional encoding without attention (section 2.2)."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.end = xavier_linear(d, d, bias=False)

    def forward(self, premise: Outputs, hypothesis: Outputs) -> Float[Tensor, "B d"]:
        """Of the hypothesis alone, which was read with the memory of the premise."""
        said: Tensor = self.end(hypothesis.last).tanh()
        return said


@final
class AttentionOfLast(Comparison):
    """h* = tanh(W_p r + W_x h_N), where r is what the last output takes from the premise (section 2.3, eq. 7 to 10).

    With M = tanh(W_y Y + W_h h_N) and alpha = softmax(w^T M), r = Y alpha^T.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.of_last = Attention(Concat(d, d, d))
        declare(self.of_last, Look("summary", WHOLE, PREMISE))
        self.context = xavier_linear(d, d, bias=False)
        self.end = xavier_linear(d, d, bias=False)

    def forward(self, premise: Outputs, hypothesis: Outputs) -> Float[Tensor, "B d"]:
        """One look at the premise, when all is read."""
        last = hypothesis.last
        context = self.of_last(
            last.unsqueeze(1),
            self.of_last.score.project(premise.values),
            value=premise.values,
            visible=(premise.positions >= 0).unsqueeze(1),
        )
        said: Tensor = (self.context(context.squeeze(1)) + self.end(last)).tanh()
        return said


@final
class WordByWord(Comparison):
    """h* = tanh(W_p r_N + W_x h_N), where each word of the hypothesis looks at the premise (section 2.4, eq. 11 to 14).

    r_t = Y alpha_t^T + tanh(W_t r_{t-1}) with alpha_t = softmax(w^T M_t) and M_t = tanh(W_y Y + W_h h_t + W_r r_{t-1}).
    W_t begins orthogonal, so that what was found early is still there in the end.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.of_words = Attention(Concat(2 * d, d, d))
        declare(self.of_words, Look("summary", HYPOTHESIS, PREMISE))
        self.recurrent = nn.Linear(d, d, bias=False)
        nn.init.orthogonal_(self.recurrent.weight)
        self.context = xavier_linear(d, d, bias=False)
        self.end = xavier_linear(d, d, bias=False)

    def forward(self, premise: Outputs, hypothesis: Outputs) -> Float[Tensor, "B d"]:
        """A look at the premise for each word, which knows what the looks before it found."""
        keys = self.of_words.score.project(premise.values)
        visible = (premise.positions >= 0).unsqueeze(1)
        found = torch.zeros_like(hypothesis.values[:, 0])
        for output, real in zip(hypothesis.values.unbind(1), (hypothesis.positions >= 0).unbind(1), strict=True):
            query = torch.cat((output, found), -1).unsqueeze(1)
            context = self.of_words(query, keys, value=premise.values, visible=visible).squeeze(1)
            found = torch.where(real.unsqueeze(1), context + self.recurrent(found).tanh(), found)
        said: Tensor = (self.context(found) + self.end(hypothesis.last)).tanh()
        return said


@final
class ConditionalEncoder(Encoder[Tokens]):
    """Two recurrent stacks: that over the hypothesis begins with what the cells of the premise's remember (2.2).

    Only the memory of the cells is handed on, c of (h, c); the first output before the hypothesis is zero. Premise and
    hypothesis are segments 0 and 1 of the tokens. The end of the premise is what the paper's delimiter is. Both stacks
    are of as many cells, from left to right, and of the same widths; dropout is on the outputs of both.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        *,
        premise: RecurrentStack,
        hypothesis: RecurrentStack,
        comparison: Comparison,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.premise = premise
        self.hypothesis = hypothesis
        self.comparison = comparison
        self.dropout = Dropout(dropout)

    def forward(self, source: Tokens) -> Memory:
        """A slot for each token of the premise, then one for each of the hypothesis; the summary compares them."""
        assert source.segments is not None, "premise and hypothesis are told apart by segments"
        real = source.positions >= 0
        asked = real & (source.segments > 0)
        assert bool(asked.any(1).all()), "a row has no second text"
        x = self.embedding(source)
        read, states = self._read(self.premise, x, source.positions, real & ~asked, self.premise.begin(len(x), x))
        begun = tuple(_memory_of(state) for state in states)
        compared, _ = self._read(self.hypothesis, x, source.positions, asked, begun)
        values = torch.cat((read.values, compared.values), 1)
        positions = torch.cat((read.positions, compared.positions), 1)
        return Memory(values, values, positions, self.comparison(read, compared))

    def _read(
        self, stack: RecurrentStack, x: Tensor, positions: Tensor, chosen: Tensor, state: tuple[CellState, ...]
    ) -> tuple[Outputs, tuple[CellState, ...]]:
        """The outputs of a stack for some of the tokens, moved to the first columns."""
        x, positions = _moved(x, chosen), torch.where(_moved(chosen, chosen), _moved(positions, chosen), -1)
        outputs, states = stack(x, state, positions=positions)
        return Outputs(self.dropout(outputs), positions), states


def _memory_of(state: CellState) -> CellState:
    """What a cell remembers, without its output."""
    output, *memory = state
    assert memory, "a cell that is all output has no memory to hand on"
    return (torch.zeros_like(output), *memory)


def _moved(columns: Shaped[Tensor, "B T *more"], chosen: Bool[Tensor, "B T"]) -> Shaped[Tensor, "B C *more"]:
    """The chosen columns of each row from the first place on, in their order; others behind them."""
    order = (~chosen).byte().argsort(dim=1, stable=True)[:, : int(chosen.sum(1).max())]
    rows = torch.arange(len(order), device=order.device).unsqueeze(1)
    return columns[rows, order]
