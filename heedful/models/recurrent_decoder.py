"""Recurrent decoders: a fixed context, attention before each step, or attention after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.attention import Attention, PreparedMemory
from heedful.attention.dropout import Dropout
from heedful.attention.hooks import CROSS, assign_roles
from heedful.attention.mask_functions import MaskFunction, bidirectional
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.feedforward import Readout, build_xavier_linear
from heedful.blocks.layer_info import LayerInfo
from heedful.blocks.recurrent import CellState, RecurrentCell, RecurrentCellStack, RecurrentStack
from heedful.models.interface import Decoder
from heedful.tensors import SOURCE, Memories, Tokens, as_mapping, select_memories


@dataclass(frozen=True)
class RecurrentState:
    """Decoding state of a recurrent decoder.

    Attributes:
        cells: state of each layer.
        summary: the summary of the source, if it is used at every step.
        memories: the prepared memories, if there is attention.
        fed_vector: the last attentional vector, if it is fed back (input feeding).
    """

    cells: tuple[CellState, ...]
    summary: Float[Tensor, "B d_summary"] | None = None
    memories: Mapping[str, PreparedMemory] = field(default_factory=dict)
    fed_vector: Float[Tensor, "B d_fed"] | None = None


class StateInit(nn.Module, ABC):
    """Base class: turns the encoder's summary into the initial states of a decoder."""

    source: ClassVar[Literal["summary", "layer"]] = "summary"

    @abstractmethod
    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """Return a state for each layer."""


class LinearStateInit(StateInit):
    """Initial state s_0 = tanh(W summary + b), with its own W for each layer (Bahdanau et al. 2015, A.2.2)."""

    def __init__(self, d_summary: int, cells: Sequence[RecurrentCell]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(build_xavier_linear(d_summary, cell.d_state) for cell in cells)
        self.init_functions = tuple(type(cell).init_state for cell in cells)

    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """Return the initial state of each layer: a linear map of the summary, with tanh."""
        return tuple(
            init_state(torch.tanh(linear(summary)))
            for init_state, linear in zip(self.init_functions, self.maps, strict=True)
        )


class CopyEncoderState(StateInit):
    """Initial state copied from the same layer of the encoder, without a map (Sutskever et al. 2014).

    The summary is the concatenation of all cell states, as `recurrent_encoder.take_all_layers` returns it.
    """

    source = "layer"

    def __init__(self, cells: Sequence[RecurrentCell]) -> None:
        super().__init__()
        self.widths = [[cell.d_state] * cell.num_parts for cell in cells]

    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """Split the summary into the state of each layer."""
        parts = iter(torch.split(summary, [width for widths in self.widths for width in widths], -1))
        return tuple(tuple(next(parts) for _ in widths) for widths in self.widths)


class MLPStateInit(StateInit):
    """Initial state tanh(V tanh(U summary)), with a network for each part of each layer's state (Xu et al. 2015,
    3.1.2).
    """

    def __init__(self, d_summary: int, cells: Sequence[RecurrentCell]) -> None:
        super().__init__()
        self.parts = [cell.num_parts for cell in cells]
        widths = [cell.d_state for cell in cells for _ in range(cell.num_parts)]
        self.hidden = nn.ModuleList(build_xavier_linear(d_summary, width) for width in widths)
        self.maps = nn.ModuleList(build_xavier_linear(width, width) for width in widths)

    def forward(self, summary: Float[Tensor, "B d_summary"]) -> tuple[CellState, ...]:
        """Return the initial state of each layer: a network of two layers on the summary for each part of it."""
        maps = zip(self.hidden, self.maps, strict=True)
        state_parts = iter([torch.tanh(outer(torch.tanh(inner(summary)))) for inner, outer in maps])
        return tuple(tuple(next(state_parts) for _ in range(count)) for count in self.parts)


ContextUse: TypeAlias = Callable[[Float[Tensor, "B d_summary"], int], tuple[Float[Tensor, "B T d_summary"], ...]]
"""Maps the source's summary and a number of steps to further inputs of the gates and the readout."""


def use_at_start(_summary: Float[Tensor, "B d_summary"], _steps: int) -> tuple[()]:
    """Return no step inputs: the summary only makes the initial state (Sutskever et al. 2014)."""
    return ()


def use_at_every_step(summary: Float[Tensor, "B d_summary"], steps: int) -> tuple[Float[Tensor, "B T d_summary"]]:
    """Return the summary as an input of each step (Cho et al. 2014, section 2.2)."""
    return (summary.unsqueeze(1).expand(-1, steps, -1),)


class ContextDecoder(Decoder):
    """Decoder with one vector for the source, without attention (Sutskever et al. 2014; Cho et al. 2014).

    The readout reads state, embedding and the used summary; the summaries of several memories are concatenated.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        stack: RecurrentStack,
        *,
        start: StateInit,
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
        self.memory_names = tuple(names)

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Describe the stack, which starts from the summary; the summary may also enter the lowest layer at each
        token.
        """
        first, *others = (replace(level, starts=self.start.source) for level in self.stack.describe_layers())
        return (replace(first, context=self.use is use_at_every_step), *others)

    def init_state(self, memory: Memories | None) -> RecurrentState:
        """Return the state before the first token."""
        summary = _concat_features([item.summary for item in select_memories(memory, self.memory_names).values()])
        return RecurrentState(self.start(summary), summary=summary)

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Return the hidden vectors of the tokens and the state after them."""
        assert state.summary is not None
        x = self.embedding(tokens)
        context = self.use(state.summary, x.size(1))
        hidden, cells = self.stack(torch.cat((x, *context), -1), state.cells, positions=tokens.positions)
        outputs: Tensor = self.readout(hidden, x, *context)
        return outputs, RecurrentState(cells, summary=state.summary)


class RecurrentDecoder(Decoder):
    """Recurrent decoder without a memory, the vanilla recurrent language model (Mikolov et al. 2010).

    Dropout is applied to the output.
    """

    def __init__(self, embedding: TokenEmbedding, stack: RecurrentStack, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.dropout = Dropout(dropout)

    def init_state(self, memory: Memories | None) -> RecurrentState:
        """Return an empty state; the number of rows follows from the first tokens."""
        select_memories(memory, [])
        return RecurrentState(())

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Return the hidden vectors of the tokens and the state after them."""
        x = self.embedding(tokens)
        old_state = state.cells or self.stack.init_state(len(x), x)
        hidden, cells = self.stack(x, old_state, positions=tokens.positions)
        outputs: Tensor = self.dropout(hidden)
        return outputs, RecurrentState(cells)


class ContextGate(nn.Module):
    """Gated context beta c with beta = sigmoid(w q + b) (Xu et al. 2015, 4.2.1)."""

    def __init__(self, d_query: int) -> None:
        super().__init__()
        self.map = build_xavier_linear(d_query, 1)

    def forward(
        self, query: Float[Tensor, "B Q d_query"], context: Float[Tensor, "B Q d_value"]
    ) -> Float[Tensor, "B Q d_value"]:
        """Multiply each context by the gate of its query."""
        gated: Tensor = torch.sigmoid(self.map(query)) * context
        return gated


class SourceAttention(nn.Module):
    """Attention of a recurrent decoder to one or several memories, with the initial state.

    The contexts of several memories are concatenated, and so are the summaries that make the initial state. The
    attention to the memory `source` is called `across`, that to any other `across-NAME`.

    Args:
        across: attention to the only memory, or to several by name.
        start: makes the initial state.
        visibility: mask function of the attention.
        gate: gate of the contexts.
    """

    def __init__(
        self,
        across: Attention | Mapping[str, Attention],
        *,
        start: StateInit,
        visibility: MaskFunction = bidirectional,
        gate: ContextGate | None = None,
    ) -> None:
        super().__init__()
        self.module_names = {name: "across" if name == SOURCE else f"across-{name}" for name in as_mapping(across)}
        for name, attention in as_mapping(across).items():
            assign_roles(attention, replace(CROSS, keys=name))
            self.add_module(self.module_names[name], attention)
        self.start = start
        self.visibility = visibility
        self.gate = gate

    def add_attention_layer(self, layers: tuple[LayerInfo, ...]) -> tuple[LayerInfo, ...]:
        """Append the description of the attention to those of the layers below, which start from the summary."""
        initialized = tuple(replace(layer, starts=self.start.source) for layer in layers)
        return (*initialized, LayerInfo("attention", across=tuple(self.module_names)))

    def init_state(self, memory: Memories | None) -> RecurrentState:
        """Return the state before the first token, with the projected keys of one or several memories."""
        memories = select_memories(memory, self.module_names)
        prepared = {
            name: PreparedMemory.from_memory(self._get_attention(name), item) for name, item in memories.items()
        }
        return RecurrentState(
            self.start(_concat_features([item.summary for item in memories.values()])), memories=prepared
        )

    def forward(
        self, query: Float[Tensor, "B Q d"], memories: Mapping[str, PreparedMemory], *, positions: Int[Tensor, "B Q"]
    ) -> Float[Tensor, "B Q d_value"]:
        """Return the contexts of queries at these positions, those of all memories concatenated and multiplied by the
        gate if there is one.
        """
        contexts = [
            memory.attend(self._get_attention(name), query, positions=positions, mask_function=self.visibility)
            for name, memory in memories.items()
        ]
        context = _concat_features(contexts)
        return context if self.gate is None else self.gate(query, context)

    def _get_attention(self, name: str) -> Attention:
        attention: Attention = getattr(self, self.module_names[name])
        return attention


def _concat_features(vectors: Sequence[Float[Tensor, "*B _"]]) -> Float[Tensor, "*B d"]:
    """Concatenate along the last axis."""
    return vectors[0] if len(vectors) == 1 else torch.cat(list(vectors), -1)


class _StepwiseDecoder(Decoder):
    """Base class of decoders that need the context of each step before the next one."""

    def __init__(
        self, embedding: TokenEmbedding, column: RecurrentCellStack, *, reading: SourceAttention, readout: Readout
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.column = column
        self.reading = reading
        self.readout = readout

    def init_state(self, memory: Memories | None) -> RecurrentState:
        """Return the state before the first token."""
        return self.reading.init_state(memory)


class BahdanauDecoder(_StepwiseDecoder):
    """Decoder with attention before each step: c_t from s_{t-1}, then s_t = f(y, c_t, s_{t-1}) (Bahdanau et al. 2015,
    3.1 and A.2.2).

    The query is the lowest cell's output, and c_t enters its gates. The next word is read from s_t, y_{t-1} and c_t
    (eq. 4; the appendix has s_{t-1} in its place).
    """

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Describe the cells, with attention entering the lowest one."""
        first, *others, attention = self.reading.add_attention_layer(self.column.describe_layers())
        return (replace(first, across=attention.across), *others)

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Return the hidden vectors of the tokens and the state after them."""
        x = self.embedding(tokens)
        projected, token_mask = self.column.project_inputs(x), (tokens.positions >= 0).unsqueeze(-1)
        cells = state.cells
        hidden = [cells[-1][0].new_empty(len(x), 0, cells[-1][0].size(1))]
        contexts = [x.new_empty(len(x), 0, self.column.more.in_features)]
        for t in range(x.size(1)):
            query, step_positions = cells[0][0].unsqueeze(1), tokens.positions[:, t : t + 1]
            contexts.append(self.reading(query, state.memories, positions=step_positions))
            cells = self.column.step(
                projected[:, t], contexts[-1].squeeze(1), states=cells, token_mask=token_mask[:, t]
            )
            hidden.append(cells[-1][0].unsqueeze(1))
        return self.readout(torch.cat(hidden, 1), x, torch.cat(contexts, 1)), replace(state, cells=cells)


class LuongDecoder(Decoder):
    """Decoder with attention after each step: h_t is the query and tanh(W [c_t; h_t]) the output, without input
    feeding (Luong et al. 2015, section 3.1).

    All tokens of a chunk go through the stack at once.
    """

    def __init__(
        self, embedding: TokenEmbedding, stack: RecurrentStack, *, reading: SourceAttention, readout: Readout
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.reading = reading
        self.readout = readout

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Describe the stack, and attention on top of it."""
        return self.reading.add_attention_layer(self.stack.describe_layers())

    def init_state(self, memory: Memories | None) -> RecurrentState:
        """Return the state before the first token."""
        return self.reading.init_state(memory)

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Return the attentional vectors of the tokens and the state after them."""
        hidden, cells = self.stack(self.embedding(tokens), state.cells, positions=tokens.positions)
        context = self.reading(hidden, state.memories, positions=tokens.positions)
        return self.readout(hidden, context), replace(state, cells=cells)


class InputFeedingDecoder(_StepwiseDecoder):
    """Luong's decoder with input feeding: the attentional vector enters the next step (Luong et al. 2015, section 3.3).

    The query is the highest cell's output. The attentional vector is the readout of state and context, and enters the
    gates of the lowest cell.
    """

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Describe the cells, and attention on top, fed to the lowest cell at the next token."""
        first, *others = self.reading.add_attention_layer(self.column.describe_layers())
        return (replace(first, fed=True), *others)

    def init_state(self, memory: Memories | None) -> RecurrentState:
        """Return the state before the first token, for one or several memories, with an attentional vector of zeros."""
        state = super().init_state(memory)
        output = state.cells[-1][0]
        return replace(state, fed_vector=output.new_zeros(len(output), self.readout.d_output))

    def forward(self, tokens: Tokens, state: RecurrentState) -> tuple[Float[Tensor, "B T d_output"], RecurrentState]:
        """Return the attentional vectors of the tokens and the state after them."""
        fed_vector = state.fed_vector
        assert fed_vector is not None
        projected, token_mask = (
            self.column.project_inputs(self.embedding(tokens)),
            (tokens.positions >= 0).unsqueeze(-1),
        )
        cells, outputs = state.cells, [fed_vector.new_empty(len(fed_vector), 0, self.readout.d_output)]
        for t in range(projected.size(1)):
            cells = self.column.step(projected[:, t], fed_vector, states=cells, token_mask=token_mask[:, t])
            hidden = cells[-1][0].unsqueeze(1)
            context = self.reading(hidden, state.memories, positions=tokens.positions[:, t : t + 1])
            attentional = self.readout(hidden, context)
            fed_vector = torch.where(token_mask[:, t], attentional.squeeze(1), fed_vector)
            outputs.append(attentional)
        return torch.cat(outputs, 1), replace(state, cells=cells, fed_vector=fed_vector)
