"""Recurrent decoders: one fixed context, attention before each step, attention after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.attention import Attention
from heedful.attention.dropout import Dropout
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.recurrent import Cell, CellState, RecurrentStack, keep_where
from heedful.models.interface import Decoder
from heedful.values import Memory, Rows, Tokens


@dataclass(frozen=True)
class Attended:
    """A memory ready to be attended to, kept once for the rows of a group (see `heedful.values.Rows`)."""

    keys: Float[Tensor, "G S d_key"]
    values: Float[Tensor, "G S d_value"]
    positions: Int[Tensor, "G S"]
    width: int = 1

    def rearrange(self, rows: Rows) -> Attended:
        """With other rows; what they look at is copied only where groups are picked or dropped."""
        groups, width = rows.source_groups(self.width), 1 if rows.free else rows.width
        if groups is None:
            return Attended(self.keys, self.values, self.positions, width)
        keys, values, positions = (part.index_select(0, groups) for part in (self.keys, self.values, self.positions))
        return Attended(keys, values, positions, width)

    def by(self, attention: Attention, query: Float[Tensor, "B Q d"]) -> Float[Tensor, "B Q d_value"]:
        """What each query takes; those of a group side by side."""
        rows, queries, width = query.shape
        groups = rows // self.width
        visible = (self.positions >= 0).unsqueeze(1).expand(-1, self.width * queries, -1)
        context: Tensor = attention(
            query.reshape(groups, self.width * queries, width), self.keys, value=self.values, visible=visible
        )
        return context.view(rows, queries, -1)


@dataclass(frozen=True)
class RecurrentState:
    """What a recurrent decoder remembers.

    Attributes:
        cells: of each layer.
        context: the summary of the source, where it is read again.
        attended: the memory, where there is attention.
        fed: the last attentional vector, where it is fed back.
    """

    cells: tuple[CellState, ...]
    context: Float[Tensor, "B d_summary"] | None = None
    attended: Attended | None = None
    fed: Float[Tensor, "B d_fed"] | None = None


class Start(nn.Module, ABC):
    """From an encoder's summary to the states in which a decoder begins."""

    @abstractmethod
    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """A state for each layer."""


class Bridge(Start):
    """s_0 = tanh(W summary + b), another W for each layer (Bahdanau et al. 2015, A.2.2)."""

    def __init__(self, d_summary: int, cells: Sequence[Cell]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(_linear(d_summary, cell.d_state) for cell in cells)
        self.begins = tuple(type(cell).begin for cell in cells)

    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """Through a map for each layer."""
        return tuple(begin(torch.tanh(linear(summary))) for begin, linear in zip(self.begins, self.maps, strict=True))


class Continue(Start):
    """The decoder goes on where the encoder, of the same shape, ended (Sutskever et al. 2014)."""

    def __init__(self, widths: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.widths = tuple(map(tuple, widths))

    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """Cut into the states of the layers."""
        parts = iter(torch.split(summary, [width for widths in self.widths for width in widths], -1))
        return tuple(tuple(next(parts) for _ in widths) for widths in self.widths)


class Readout(nn.Module):
    """The deep output: an activation of the sum of one map for each input (Pascanu et al. 2014).

    Args:
        d_inputs: widths of the inputs: state, embedding, context.
        activation: makes d_output numbers of them: tanh, or `Maxout`, which wants twice as many.
        d_output: width of the result, that of the output's embeddings.
    """

    def __init__(self, d_inputs: Sequence[int], d_output: int, *, activation: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        width = 2 * d_output if isinstance(activation, Maxout) else d_output
        self.maps = nn.ModuleList(_linear(d_input, width, bias=n == 0) for n, d_input in enumerate(d_inputs))
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, *inputs: Float[Tensor, "B T _"]) -> Float[Tensor, "B T d_output"]:
        """One vector for each token."""
        summed = sum(linear(each) for linear, each in zip(self.maps, inputs, strict=True))
        result: Tensor = self.dropout(self.activation(summed))
        return result


class Maxout(nn.Module):
    """The larger number of each pair of neighbours (Goodfellow et al. 2013)."""

    def forward(self, x: Float[Tensor, "*B pairs"]) -> Float[Tensor, "*B d"]:
        """Half as wide."""
        return x.view(*x.shape[:-1], -1, 2).amax(-1)


class Column(nn.Module):
    """Cells on top of each other, one step at a time, with something more in the gates of the lowest.

    Args:
        cells: from the lowest to the highest.
        d_more: width of what enters the lowest cell besides its input.
        dropout: between layers.
    """

    def __init__(self, cells: Iterable[Cell], *, d_more: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        lowest = self._cells()[0]
        self.more = _linear(d_more, lowest.input.out_features, bias=False, parts=lowest.gates)
        self.dropout = Dropout(dropout)

    def project(self, x: Float[Tensor, "B T d_input"]) -> Float[Tensor, "B T gates"]:
        """What the inputs of all steps bring into the gates of the lowest cell, in one product."""
        projected: Tensor = self._cells()[0].input(x)
        return projected

    def advance(
        self,
        projected: Float[Tensor, "B gates"],
        more: Float[Tensor, "B d_more"],
        *,
        states: tuple[CellState, ...],
        real: Tensor,
    ) -> tuple[CellState, ...]:
        """One step; states of rows without a token stay."""
        gates = projected + self.more(more)
        after: list[CellState] = []
        for cell, state in zip(self._cells(), states, strict=True):
            if after:
                gates = cell.input(self.dropout(after[-1][0]))
            after.append(keep_where(real, cell.advance(gates, state), state))
        return tuple(after)

    def _cells(self) -> list[Cell]:
        return [cell for cell in self.cells if isinstance(cell, Cell)]


class ContextUse(ABC):
    """What of the source's summary every step reads, besides its token."""

    @abstractmethod
    def beside(
        self, summary: Float[Tensor, "B d_summary"], *, steps: int
    ) -> tuple[Float[Tensor, "B T d_summary"], ...]:
        """What enters the gates, and the readout, of so many steps."""


class AtStart(ContextUse):
    """Nothing: the summary only made the first state (Sutskever et al. 2014)."""

    def beside(self, summary: Float[Tensor, "B d_summary"], *, steps: int) -> tuple[()]:
        """Nothing."""
        return ()


class EveryStep(ContextUse):
    """All of it (Cho et al. 2014, section 2.2)."""

    def beside(self, summary: Float[Tensor, "B d_summary"], *, steps: int) -> tuple[Float[Tensor, "B T d_summary"]]:
        """The same at each step."""
        return (summary.unsqueeze(1).expand(-1, steps, -1),)


class ContextDecoder(Decoder):
    """The source as one vector: sequence to sequence before attention (Sutskever et al. 2014; Cho et al. 2014).

    Args:
        embedding: of the tokens.
        stack: reads them.
        start: its first state.
        use: what of the summary enters each step.
        readout: from state, embedding and summary to what the output reads.
    """

    def __init__(
        self, embedding: TokenEmbedding, stack: RecurrentStack, *, start: Start, use: ContextUse, readout: Readout
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.start = start
        self.use = use
        self.readout = readout

    def begin(self, memory: Memory | None) -> RecurrentState:
        """The state before the first token."""
        assert memory is not None, "a recurrent decoder starts from a summary"
        return RecurrentState(self.start(memory.summary), context=memory.summary)

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Hidden vectors of the tokens and the state after them."""
        assert state.context is not None
        x = self.embedding(tokens)
        context = self.use.beside(state.context, steps=x.size(1))
        hidden, cells = self.stack(torch.cat((x, *context), -1), state.cells, positions=tokens.positions)
        return self.readout(hidden, x, *context), RecurrentState(cells, context=state.context)


class BahdanauDecoder(Decoder):
    """Attention first: c_t by the state before, then s_t = f(y, c_t, s_{t-1}) (Bahdanau et al. 2015, 3.1 and A.2.2).

    The next word is read from s_t, y_{t-1} and c_t (eq. 4; the appendix has s_{t-1} in its place).

    Args:
        embedding: of the tokens.
        column: the cells; c_t enters the gates of the lowest.
        across: attention to the memory; the lowest cell's output asks.
        start: the first state.
        readout: from state, embedding and context to what the output reads.
    """

    def __init__(
        self, embedding: TokenEmbedding, column: Column, *, across: Attention, start: Start, readout: Readout
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.column = column
        self.across = across
        self.start = start
        self.readout = readout

    def begin(self, memory: Memory | None) -> RecurrentState:
        """The state before the first token: keys are projected once."""
        assert memory is not None, "there is nothing to attend to"
        return RecurrentState(self.start(memory.summary), attended=_attended(self.across, memory))

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Hidden vectors of the tokens and the state after them."""
        assert state.attended is not None
        x = self.embedding(tokens)
        projected, real = self.column.project(x), (tokens.positions >= 0).unsqueeze(-1)
        cells, hidden, contexts = state.cells, [], []
        for t in range(x.size(1)):
            context = state.attended.by(self.across, cells[0][0].unsqueeze(1)).squeeze(1)
            cells = self.column.advance(projected[:, t], context, states=cells, real=real[:, t])
            hidden.append(cells[-1][0])
            contexts.append(context)
        read = self.readout(torch.stack(hidden, 1), x, torch.stack(contexts, 1))
        return read, RecurrentState(cells, attended=state.attended)


class LuongDecoder(Decoder):
    """Attention last: h_t asks, and tanh(W [c_t; h_t]) is read, but not fed back (Luong et al. 2015, section 3.1).

    All tokens of a chunk go through the stack at once.
    """

    def __init__(
        self, embedding: TokenEmbedding, stack: RecurrentStack, *, across: Attention, start: Start, readout: Readout
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.across = across
        self.start = start
        self.readout = readout

    def begin(self, memory: Memory | None) -> RecurrentState:
        """The state before the first token: keys are projected once."""
        assert memory is not None, "there is nothing to attend to"
        return RecurrentState(self.start(memory.summary), attended=_attended(self.across, memory))

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Attentional vectors of the tokens and the state after them."""
        assert state.attended is not None
        hidden, cells = self.stack(self.embedding(tokens), state.cells, positions=tokens.positions)
        context = state.attended.by(self.across, hidden)
        return self.readout(hidden, context), RecurrentState(cells, attended=state.attended)


class FeedingDecoder(Decoder):
    """Luong's decoder whose attentional vector enters the next step (Luong et al. 2015, section 3.3).

    Args:
        embedding: of the tokens.
        column: the cells; the last attentional vector enters the gates of the lowest.
        across: attention to the memory; the highest cell's output asks.
        start: the first state.
        readout: from state and context to the attentional vector.
    """

    def __init__(
        self, embedding: TokenEmbedding, column: Column, *, across: Attention, start: Start, readout: Readout
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.column = column
        self.across = across
        self.start = start
        self.readout = readout

    def begin(self, memory: Memory | None) -> RecurrentState:
        """The state before the first token: keys are projected once, and nothing was fed yet."""
        assert memory is not None, "there is nothing to attend to"
        return RecurrentState(
            self.start(memory.summary),
            attended=_attended(self.across, memory),
            fed=memory.summary.new_zeros(len(memory.summary), self.column.more.in_features),
        )

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Attentional vectors of the tokens and the state after them."""
        assert state.attended is not None
        assert state.fed is not None
        projected, real = self.column.project(self.embedding(tokens)), (tokens.positions >= 0).unsqueeze(-1)
        cells, fed, read = state.cells, state.fed, []
        for t in range(projected.size(1)):
            cells = self.column.advance(projected[:, t], fed, states=cells, real=real[:, t])
            hidden = cells[-1][0].unsqueeze(1)
            attentional = self.readout(hidden, state.attended.by(self.across, hidden)).squeeze(1)
            fed = torch.where(real[:, t], attentional, fed)
            read.append(attentional)
        return torch.stack(read, 1), RecurrentState(cells, attended=state.attended, fed=fed)


def _linear(d_input: int, d_output: int, *, bias: bool = True, parts: int = 1) -> nn.Linear:
    """Xavier's initialisation, of each of the maps that stand side by side."""
    linear = nn.Linear(d_input, d_output, bias=bias)
    for matrix in torch.split(linear.weight, d_output // parts):
        nn.init.xavier_uniform_(matrix)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def _attended(attention: Attention, memory: Memory) -> Attended:
    return Attended(attention.score.project(memory.keys), memory.values, memory.positions)
