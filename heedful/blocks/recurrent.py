"""Recurrent layers: cells, both directions, stacks; tokens that are not there leave the state as it was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.blocks.levels import Level
from heedful.blocks.linear import xavier_linear

CellState: TypeAlias = tuple[Tensor, ...]
"""What a cell remembers, `Cell.parts` tensors, each [B, d]; the first is its output."""


class Cell(nn.Module, ABC):
    """The transition of one recurrent layer, and its parameters.

    Input and recurrent map are linear ones over all gates side by side. Recurrent matrices start orthogonal gate by
    gate, which keeps gradients from vanishing or exploding at first (Saxe et al. 2014); input maps start by Xavier.
    """

    gates: ClassVar[int]
    """Maps side by side."""
    kernel: ClassVar[staticmethod[..., tuple[Tensor, ...]]]
    """torch's function of a whole sequence: outputs, and each part of the last state."""
    parts: ClassVar[int] = 1

    def __init__(self, d_input: int, d_state: int) -> None:
        super().__init__()
        self.d_state = d_state
        self.by_kernel = True
        """Whether `run` reads whole sequences; without it they are advanced step by step, by the maps alone."""
        self.input = nn.Linear(d_input, self.gates * d_state)
        self.recurrent = nn.Linear(d_state, self.gates * d_state)
        for matrix in torch.split(self.input.weight, d_state):
            nn.init.xavier_uniform_(matrix)
        for matrix in torch.split(self.recurrent.weight, d_state):
            nn.init.orthogonal_(matrix)
        nn.init.zeros_(self.input.bias)
        nn.init.zeros_(self.recurrent.bias)

    @classmethod
    def begin(cls, output: Float[Tensor, "B d"]) -> CellState:
        """The state whose output is this, with nothing else in it."""
        return (output, *(torch.zeros_like(output) for _ in range(cls.parts - 1)))

    @abstractmethod
    def advance(self, projected: Float[Tensor, "B gates"], state: CellState) -> CellState:
        """One step; `projected` is what `input` made of the token, plus whatever else enters the gates."""

    def run(self, x: Float[Tensor, "B T d_input"], state: CellState) -> tuple[Float[Tensor, "B T d"], CellState]:
        """All steps of rows without padding, by torch's own kernel."""
        output, *last = self.kernel(x, *self._arguments(state), True)
        return output, tuple(part.squeeze(0) for part in last)

    def run_packed(
        self, x: nn.utils.rnn.PackedSequence, state: CellState
    ) -> tuple[nn.utils.rnn.PackedSequence, CellState]:
        """All steps of rows of different length, sorted."""
        output, *last = self.kernel(x.data, x.batch_sizes, *self._arguments(state))
        return nn.utils.rnn.PackedSequence(output, x.batch_sizes), tuple(part.squeeze(0) for part in last)

    def _arguments(self, state: CellState) -> tuple[Any, ...]:
        """State and weights; one layer with biases, without dropout, not in training, from left to right."""
        before = [part.unsqueeze(0) for part in state]
        weights = [self.input.weight, self.recurrent.weight, self.input.bias, self.recurrent.bias]
        return before if self.parts > 1 else before[0], weights, True, 1, 0.0, False, False


class Elman(Cell):
    """h = tanh(W x + U h + b) (Elman 1990): the lecture's vanilla network."""

    gates = 1
    kernel = staticmethod(torch.rnn_tanh)

    def advance(self, projected: Float[Tensor, "B d"], state: CellState) -> CellState:
        """tanh of both maps."""
        return (torch.tanh(projected + self.recurrent(state[0])),)


class Rectified(Cell):
    """h = relu(W x + U h + b), the core of Mnih et al. 2014, section 3.1."""

    gates = 1
    kernel = staticmethod(torch.rnn_relu)

    def advance(self, projected: Float[Tensor, "B d"], state: CellState) -> CellState:
        """The positive part of both maps."""
        return (torch.relu(projected + self.recurrent(state[0])),)


class GRU(Cell):
    """h = (1 - z) n + z h with n = tanh(W x + r (U h)) (Cho et al. 2014, eq. 5-8).

    The reset gate r stands behind the product with U, as in torch and cuDNN, where the paper resets h before it.
    """

    gates = 3
    kernel = staticmethod(torch.gru)

    def advance(self, projected: Float[Tensor, "B gates"], state: CellState) -> CellState:
        """Reset gate, update gate, candidate: in torch's order."""
        (h,) = state
        widths = [2 * self.d_state, self.d_state]
        gates, candidate = torch.split(projected, widths, -1)
        recurrent_gates, recurrent_candidate = torch.split(self.recurrent(h), widths, -1)
        reset, update = torch.sigmoid(gates + recurrent_gates).chunk(2, -1)
        candidate = torch.tanh(torch.addcmul(candidate, reset, recurrent_candidate))
        return (torch.lerp(candidate, h, update),)


class LSTM(Cell):
    """c = f c + i tanh(...), h = o tanh(c) (Hochreiter and Schmidhuber 1997; forget gate of Gers et al. 2000).

    The forget gate's bias starts at 1, so that the cell remembers at first (Jozefowicz et al. 2015, section 3.2).
    """

    gates = 4
    kernel = staticmethod(torch.lstm)
    parts = 2

    def __init__(self, d_input: int, d_state: int) -> None:
        super().__init__(d_input, d_state)
        with torch.no_grad():
            self.input.bias[d_state : 2 * d_state] = 1.0

    def advance(self, projected: Float[Tensor, "B gates"], state: CellState) -> CellState:
        """Input gate, forget gate, candidate, output gate: in torch's order."""
        h, cell = state
        i, f, candidate, o = (projected + self.recurrent(h)).chunk(4, -1)
        cell = torch.addcmul(torch.sigmoid(f) * cell, torch.sigmoid(i), torch.tanh(candidate))
        return (torch.sigmoid(o) * torch.tanh(cell), cell)


class Layer(nn.Module, ABC):
    """What stacks of recurrent layers are made of."""

    d_output: int

    @property
    @abstractmethod
    def level(self) -> Level:
        """How it is drawn."""

    @abstractmethod
    def begin(self, rows: int, like: Tensor) -> CellState:
        """The state before the first token: zeros."""

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "B T d_input"], state: CellState, *, positions: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T d_output"], CellState]:
        """Outputs of the tokens in the order in which they stand, and the state after them; zeros where none is."""


class Forward(Layer):
    """A cell from left to right."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell
        self.d_output = cell.d_state

    @property
    def level(self) -> Level:
        """One state, from left to right."""
        return Level(type(self.cell).__name__, carries=("forward",), width=self.d_output)

    def begin(self, rows: int, like: Tensor) -> CellState:
        """Zeros."""
        return self.cell.begin(like.new_zeros(rows, self.cell.d_state))

    def forward(
        self, x: Float[Tensor, "B T d_input"], state: CellState, *, positions: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T d_output"], CellState]:
        """From the first token to the last."""
        return _run(self.cell, x, state, real=positions >= 0, backward=False)


class Bidirectional(Layer):
    """Two cells, one from each end, their outputs side by side (Schuster and Paliwal 1997); for encoders only.

    The state is the forward cell's, then the backward cell's.
    """

    def __init__(self, left_to_right: Cell, right_to_left: Cell) -> None:
        super().__init__()
        self.left_to_right = left_to_right
        self.right_to_left = right_to_left
        self.d_output = left_to_right.d_state + right_to_left.d_state

    @property
    def level(self) -> Level:
        """Two states, one from each end."""
        return Level(type(self.left_to_right).__name__, carries=("forward", "backward"), width=self.d_output)

    def begin(self, rows: int, like: Tensor) -> CellState:
        """Zeros."""
        there = self.left_to_right.begin(like.new_zeros(rows, self.left_to_right.d_state))
        return there + self.right_to_left.begin(like.new_zeros(rows, self.right_to_left.d_state))

    def forward(
        self, x: Float[Tensor, "B T d_input"], state: CellState, *, positions: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T d_output"], CellState]:
        """From both ends."""
        real, half = positions >= 0, len(state) // 2
        there, after = _run(self.left_to_right, x, state[:half], real=real, backward=False)
        back, before = _run(self.right_to_left, x, state[half:], real=real, backward=True)
        return torch.cat((there, back), -1), after + before


class RecurrentStack(nn.Module):
    """Layers on top of each other, with dropout between them (Zaremba et al. 2014)."""

    def __init__(self, layers: Iterable[Layer], *, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = Dropout(dropout)

    @property
    def d_output(self) -> int:
        """Width of what comes out."""
        return self._layers()[-1].d_output

    def levels(self) -> tuple[Level, ...]:
        """A level for each layer."""
        return tuple(layer.level for layer in self._layers())

    def begin(self, rows: int, like: Tensor) -> tuple[CellState, ...]:
        """The state before the first token."""
        return tuple(layer.begin(rows, like) for layer in self._layers())

    def forward(
        self, x: Float[Tensor, "B T d_input"], state: tuple[CellState, ...], *, positions: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T d_output"], tuple[CellState, ...]]:
        """Through all layers."""
        states = []
        for number, (layer, before) in enumerate(zip(self._layers(), state, strict=True)):
            x, after = layer(self.dropout(x) if number else x, before, positions=positions)
            states.append(after)
        return x, tuple(states)

    def _layers(self) -> list[Layer]:
        return [layer for layer in self.layers if isinstance(layer, Layer)]


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
        self.more = xavier_linear(d_more, lowest.input.out_features, bias=False, parts=lowest.gates)
        self.dropout = Dropout(dropout)

    def levels(self) -> tuple[Level, ...]:
        """A level for each cell."""
        return tuple(Level(type(cell).__name__, carries=("forward",), width=cell.d_state) for cell in self._cells())

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


def keep_where(real: Bool[Tensor, "B 1"], newer: CellState, older: CellState) -> CellState:
    """The newer state in rows that read a token, the older one elsewhere."""
    return tuple(torch.where(real, new, old) for new, old in zip(newer, older, strict=True))


def _run(
    cell: Cell, x: Tensor, state: CellState, *, real: Bool[Tensor, "B T"], backward: bool
) -> tuple[Tensor, CellState]:
    if not bool(real.any()):  # torch's kernels refuse an empty sequence
        return x.new_zeros(*real.shape, cell.d_state), state
    if not cell.by_kernel:
        return _advance(cell, x, state, real=real, backward=backward)
    if bool(real.all()):
        output, state = cell.run(x.flip(1) if backward else x, state)
        return output.flip(1) if backward else output, state
    return _run_some(cell, x, state, real=real, backward=backward)


def _advance(
    cell: Cell, x: Tensor, state: CellState, *, real: Bool[Tensor, "B T"], backward: bool
) -> tuple[Tensor, CellState]:
    """The same step by step."""
    projected: Tensor = cell.input(x)
    outputs: list[Tensor] = []
    for t in range(real.size(1))[:: -1 if backward else 1]:
        there = real[:, t : t + 1]
        state = keep_where(there, cell.advance(projected[:, t], state), state)
        outputs.append(state[0] * there)
    return torch.stack(outputs[::-1] if backward else outputs, 1), state


def _run_some(
    cell: Cell, x: Tensor, state: CellState, *, real: Bool[Tensor, "B T"], backward: bool
) -> tuple[Tensor, CellState]:
    """Rows with padding: real tokens are moved to the left, longest rows first, and what comes out is moved back."""
    rows, length = real.shape
    place = torch.arange(length, device=x.device).expand(rows, -1)
    order = torch.where(real, -place if backward else place, length).argsort(dim=1, stable=True)
    counts, by_length = real.sum(1).sort(descending=True, stable=True)
    wide = order.unsqueeze(-1)
    packed = nn.utils.rnn.pack_padded_sequence(
        x.gather(1, wide.expand_as(x))[by_length], counts.clamp(min=1).cpu(), batch_first=True
    )
    found, after = cell.run_packed(packed, tuple(part[by_length] for part in state))
    output, _ = nn.utils.rnn.pad_packed_sequence(found, batch_first=True, total_length=length)
    original = by_length.argsort()
    output = output[original] * real.gather(1, order).unsqueeze(-1)
    back = torch.zeros_like(output).scatter(1, wide.expand_as(output), output)
    after = tuple(part[original] for part in after)
    return back, keep_where(real.any(1, keepdim=True), after, state)
