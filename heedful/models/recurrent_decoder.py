"""Recurrent decoders: one fixed context, attention before each step, attention after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.attention import Attended, Attention
from heedful.attention.dropout import Dropout
from heedful.attention.explained import declare
from heedful.attention.probe import ACROSS
from heedful.attention.visibility import Visibility, everything
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.levels import Level
from heedful.blocks.linear import xavier_linear
from heedful.blocks.readout import Readout
from heedful.blocks.recurrent import Cell, CellState, Column, RecurrentStack
from heedful.models.interface import Decoder
from heedful.values import SOURCE, Memories, Tokens, by_name, memories_of


@dataclass(frozen=True)
class RecurrentState:
    """What a recurrent decoder remembers.

    Attributes:
        cells: of each layer.
        context: the summary of the source, where it is read again.
        attended: each memory, where there is attention.
        fed: the last attentional vector, where it is fed back.
    """

    cells: tuple[CellState, ...]
    context: Float[Tensor, "B d_summary"] | None = None
    attended: Mapping[str, Attended] = field(default_factory=dict)
    fed: Float[Tensor, "B d_fed"] | None = None


class Start(nn.Module, ABC):
    """From an encoder's summary to the states in which a decoder begins; `starts` is where these come from."""

    starts: ClassVar[Literal["summary", "layer"]] = "summary"

    @abstractmethod
    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """A state for each layer."""


class Bridge(Start):
    """s_0 = tanh(W summary + b), another W for each layer (Bahdanau et al. 2015, A.2.2)."""

    def __init__(self, d_summary: int, cells: Sequence[Cell]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(xavier_linear(d_summary, cell.d_state) for cell in cells)
        self.begins = tuple(type(cell).begin for cell in cells)

    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """Through a map for each layer."""
        return tuple(begin(torch.tanh(linear(summary))) for begin, linear in zip(self.begins, self.maps, strict=True))


class Carried(Start):
    """Each layer goes on where the same layer of the encoder ended, without a map between (Sutskever et al. 2014).

    The summary holds side by side all that the cells remember, as `recurrent_encoder.every_layer` puts it there.
    """

    starts = "layer"

    def __init__(self, cells: Sequence[Cell]) -> None:
        super().__init__()
        self.widths = [[cell.d_state] * cell.parts for cell in cells]

    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """The summary, cut into the parts of each layer's state."""
        parts = iter(torch.split(summary, [width for widths in self.widths for width in widths], -1))
        return tuple(tuple(next(parts) for _ in widths) for widths in self.widths)


class Perceptrons(Start):
    """Each part of each layer's state by a network of its own, tanh(V tanh(U summary)) (Xu et al. 2015, 3.1.2)."""

    def __init__(self, d_summary: int, cells: Sequence[Cell]) -> None:
        super().__init__()
        self.parts = [cell.parts for cell in cells]
        widths = [cell.d_state for cell in cells for _ in range(cell.parts)]
        self.hidden = nn.ModuleList(xavier_linear(d_summary, width) for width in widths)
        self.maps = nn.ModuleList(xavier_linear(width, width) for width in widths)

    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """Output and memory alike, part by part."""
        maps = zip(self.hidden, self.maps, strict=True)
        found = iter([torch.tanh(outer(torch.tanh(inner(summary)))) for inner, outer in maps])
        return tuple(tuple(next(found) for _ in range(count)) for count in self.parts)


ContextUse: TypeAlias = Callable[[Float[Tensor, "B d_summary"], int], tuple[Float[Tensor, "B T d_summary"], ...]]
"""What of the source's summary enters the gates, and the readout, of so many steps, besides their tokens."""


def at_start(_summary: Float[Tensor, "B d_summary"], _steps: int) -> tuple[()]:
    """Nothing: the summary only made the first state (Sutskever et al. 2014)."""
    return ()


def every_step(summary: Float[Tensor, "B d_summary"], steps: int) -> tuple[Float[Tensor, "B T d_summary"]]:
    """All of it, the same at each step (Cho et al. 2014, section 2.2)."""
    return (summary.unsqueeze(1).expand(-1, steps, -1),)


class ContextDecoder(Decoder):
    """The source as one vector: sequence to sequence before attention (Sutskever et al. 2014; Cho et al. 2014).

    The readout is of state, embedding, and what of the summary is used; those of several memories stand side by side.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        stack: RecurrentStack,
        *,
        start: Start,
        use: ContextUse,
        readout: Readout,
        names: Sequence[str] = (SOURCE,),
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.start = start
        self.use = use
        self.readout = readout
        self.names = tuple(names)

    def levels(self) -> tuple[Level, ...]:
        """Those of the stack, which begin where the source ended; its summary may enter the lowest at each token."""
        first, *others = (replace(level, starts=self.start.starts) for level in self.stack.levels())
        return (replace(first, context=self.use is every_step), *others)

    def begin(self, memory: Memories | None) -> RecurrentState:
        """The state before the first token."""
        summary = _beside([each.summary for each in memories_of(memory, self.names).values()])
        return RecurrentState(self.start(summary), context=summary)

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Hidden vectors of the tokens and the state after them."""
        assert state.context is not None
        x = self.embedding(tokens)
        context = self.use(state.context, x.size(1))
        hidden, cells = self.stack(torch.cat((x, *context), -1), state.cells, positions=tokens.positions)
        outputs: Tensor = self.readout(hidden, x, *context)
        return outputs, RecurrentState(cells, context=state.context)


class RecurrentDecoder(Decoder):
    """A stack that looks at nothing but its own past: the vanilla recurrent language model (Mikolov et al. 2010).

    Dropout is on what comes out.
    """

    def __init__(self, embedding: TokenEmbedding, stack: RecurrentStack, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.dropout = Dropout(dropout)

    def begin(self, memory: Memories | None) -> RecurrentState:
        """The state before the first token, of as many rows as that has."""
        memories_of(memory, [])
        return RecurrentState(())

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Hidden vectors of the tokens and the state after them."""
        x = self.embedding(tokens)
        before = state.cells or self.stack.begin(len(x), x)
        hidden, cells = self.stack(x, before, positions=tokens.positions)
        outputs: Tensor = self.dropout(hidden)
        return outputs, RecurrentState(cells)


class Gate(nn.Module):
    """beta c with beta = sigmoid(w q + b): how much of what was found is read at all (Xu et al. 2015, 4.2.1)."""

    def __init__(self, d_query: int) -> None:
        super().__init__()
        self.map = xavier_linear(d_query, 1)

    def forward(
        self, query: Float[Tensor, "B Q d_query"], context: Float[Tensor, "B Q d_value"]
    ) -> Float[Tensor, "B Q d_value"]:
        """The contexts, each times a number of its query."""
        read: Tensor = torch.sigmoid(self.map(query)) * context
        return read


class Reading(nn.Module):
    """How a decoder with attention reads its source, or several.

    Of several memories the contexts stand side by side, and so do the summaries that the first state is made of. The
    attention to the memory `source` is called `across`, that to any other `across-NAME`.

    Args:
        across: attention to the only memory, or to several by name.
        start: the first state.
        visibility: which slots a step may see.
        gate: of the contexts.
    """

    def __init__(
        self,
        across: Attention | Mapping[str, Attention],
        *,
        start: Start,
        visibility: Visibility = everything,
        gate: Gate | None = None,
    ) -> None:
        super().__init__()
        self.paths = {name: "across" if name == SOURCE else f"across-{name}" for name in by_name(across)}
        for name, attention in by_name(across).items():
            declare(attention, replace(ACROSS, keys=name))
            self.add_module(self.paths[name], attention)
        self.start = start
        self.visibility = visibility
        self.gate = gate

    def above(self, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        """These levels, which begin where the source ended, and the attention on top of them."""
        begun = tuple(replace(level, starts=self.start.starts) for level in levels)
        return (*begun, Level("attention", across=tuple(self.paths)))

    def begin(self, memory: Memories | None) -> RecurrentState:
        """The state before the first token: keys are projected once."""
        memories = memories_of(memory, self.paths)
        attended = {name: Attended.of(self._across(name), each) for name, each in memories.items()}
        return RecurrentState(self.start(_beside([each.summary for each in memories.values()])), attended=attended)

    def forward(
        self, query: Float[Tensor, "B Q d"], attended: Mapping[str, Attended], *, positions: Int[Tensor, "B Q"]
    ) -> Float[Tensor, "B Q d_value"]:
        """What queries at these positions take from the memories."""
        contexts = [
            each.by(self._across(name), query, positions=positions, visibility=self.visibility)
            for name, each in attended.items()
        ]
        context = _beside(contexts)
        return context if self.gate is None else self.gate(query, context)

    def _across(self, name: str) -> Attention:
        attention: Attention = getattr(self, self.paths[name])
        return attention


def _beside(vectors: Sequence[Float[Tensor, "*B _"]]) -> Float[Tensor, "*B d"]:
    return vectors[0] if len(vectors) == 1 else torch.cat(list(vectors), -1)


class _ByStep(Decoder):
    """Cells that cannot read a token before they know what was found for the one before it."""

    def __init__(self, embedding: TokenEmbedding, column: Column, *, reading: Reading, readout: Readout) -> None:
        super().__init__()
        self.embedding = embedding
        self.column = column
        self.reading = reading
        self.readout = readout

    def begin(self, memory: Memories | None) -> RecurrentState:
        """The state before the first token."""
        return self.reading.begin(memory)


class BahdanauDecoder(_ByStep):
    """Attention first: c_t by the state before, then s_t = f(y, c_t, s_{t-1}) (Bahdanau et al. 2015, 3.1 and A.2.2).

    The lowest cell's output asks, and c_t enters its gates. The next word is read from s_t, y_{t-1} and c_t (eq. 4; the
    appendix has s_{t-1} in its place).
    """

    def levels(self) -> tuple[Level, ...]:
        """The cells; what attention found enters the lowest."""
        first, *others, attention = self.reading.above(self.column.levels())
        return (replace(first, across=attention.across), *others)

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Hidden vectors of the tokens and the state after them."""
        x = self.embedding(tokens)
        projected, real = self.column.project(x), (tokens.positions >= 0).unsqueeze(-1)
        cells = state.cells
        hidden = [cells[-1][0].new_empty(len(x), 0, cells[-1][0].size(1))]
        contexts = [x.new_empty(len(x), 0, self.column.more.in_features)]
        for t in range(x.size(1)):
            asking, at = cells[0][0].unsqueeze(1), tokens.positions[:, t : t + 1]
            contexts.append(self.reading(asking, state.attended, positions=at))
            cells = self.column.advance(projected[:, t], contexts[-1].squeeze(1), states=cells, real=real[:, t])
            hidden.append(cells[-1][0].unsqueeze(1))
        return self.readout(torch.cat(hidden, 1), x, torch.cat(contexts, 1)), replace(state, cells=cells)


class LuongDecoder(Decoder):
    """Attention last: h_t asks, and tanh(W [c_t; h_t]) is read, but not fed back (Luong et al. 2015, section 3.1).

    All tokens of a chunk go through the stack at once.
    """

    def __init__(self, embedding: TokenEmbedding, stack: RecurrentStack, *, reading: Reading, readout: Readout) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.reading = reading
        self.readout = readout

    def levels(self) -> tuple[Level, ...]:
        """The stack, and attention on top of it."""
        return self.reading.above(self.stack.levels())

    def begin(self, memory: Memories | None) -> RecurrentState:
        """The state before the first token."""
        return self.reading.begin(memory)

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Attentional vectors of the tokens and the state after them."""
        hidden, cells = self.stack(self.embedding(tokens), state.cells, positions=tokens.positions)
        context = self.reading(hidden, state.attended, positions=tokens.positions)
        return self.readout(hidden, context), replace(state, cells=cells)


class FeedingDecoder(_ByStep):
    """Luong's decoder whose attentional vector enters the next step (Luong et al. 2015, section 3.3).

    The highest cell's output asks. The attentional vector is what the readout makes of state and context, and enters
    the gates of the lowest cell.
    """

    def levels(self) -> tuple[Level, ...]:
        """The cells, and attention on top, which is fed to the lowest at the next token."""
        first, *others = self.reading.above(self.column.levels())
        return (replace(first, fed=True), *others)

    def begin(self, memory: Memories | None) -> RecurrentState:
        """The state before the first token, when nothing was fed yet."""
        state = super().begin(memory)
        output = state.cells[-1][0]
        return replace(state, fed=output.new_zeros(len(output), self.readout.d_output))

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Attentional vectors of the tokens and the state after them."""
        fed = state.fed
        assert fed is not None
        projected, real = self.column.project(self.embedding(tokens)), (tokens.positions >= 0).unsqueeze(-1)
        cells, read = state.cells, [fed.new_empty(len(fed), 0, self.readout.d_output)]
        for t in range(projected.size(1)):
            cells = self.column.advance(projected[:, t], fed, states=cells, real=real[:, t])
            hidden = cells[-1][0].unsqueeze(1)
            context = self.reading(hidden, state.attended, positions=tokens.positions[:, t : t + 1])
            attentional = self.readout(hidden, context)
            fed = torch.where(real[:, t], attentional.squeeze(1), fed)
            read.append(attentional)
        return torch.cat(read, 1), replace(state, cells=cells, fed=fed)
