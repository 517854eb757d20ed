"""Recurrent cells, layers in one or two directions, and stacks; padding leaves the state unchanged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.blocks.feedforward import build_xavier_linear
from heedful.blocks.layer_info import LayerInfo

CellState: TypeAlias = tuple[Tensor, ...]
"""State of a cell: `RecurrentCell.num_parts` tensors, each [B, d]; the first is its output."""


class RecurrentCell(nn.Module, ABC):
    """The transition of one recurrent layer, with its parameters.

    The input map and the recurrent map are linear ones over all gates side by side. Recurrent matrices are initialised
    orthogonally gate by gate, which avoids vanishing or exploding gradients at first (Saxe et al. 2014); input maps use
    Xavier's rule.
    """

    num_gates: ClassVar[int]
    """Number of gate maps, side by side."""
    kernel: ClassVar[staticmethod[..., tuple[Tensor, ...]]]
    """torch's function for a whole sequence: returns the outputs and each part of the last state."""
    cudnn_mode: ClassVar[str]
    """cuDNN's name of the cell."""
    num_parts: ClassVar[int] = 1

    def __init__(self, d_input: int, d_state: int) -> None:
        super().__init__()
        self.d_state = d_state
        self.uses_kernel = True
        """Whether `run_kernel` reads whole sequences; without it they are advanced step by step, by the maps alone."""
        self.input = nn.Linear(d_input, self.num_gates * d_state)
        self.recurrent = nn.Linear(d_state, self.num_gates * d_state)
        for matrix in torch.split(self.input.weight, d_state):
            nn.init.xavier_uniform_(matrix)
        for matrix in torch.split(self.recurrent.weight, d_state):
            nn.init.orthogonal_(matrix)
        nn.init.zeros_(self.input.bias)
        nn.init.zeros_(self.recurrent.bias)

    @classmethod
    def init_state(cls, output: Float[Tensor, "B d"]) -> CellState:
        """Return the state with this output and zeros in all other parts."""
        return (output, *(torch.zeros_like(output) for _ in range(cls.num_parts - 1)))

    @abstractmethod
    def step(self, projected: Float[Tensor, "B gates"], state: CellState) -> CellState:
        """Advance one step; `projected` is the input map of the token plus other inputs of the gates."""

    def run_kernel(self, x: Float[Tensor, "B T d_input"], state: CellState) -> tuple[Float[Tensor, "B T d"], CellState]:
        """Run all steps of rows without padding with torch's kernel."""
        output, *last = self.kernel(x, *self._kernel_arguments(state), True)
        return output, tuple(part.squeeze(0) for part in last)

    def run_packed_kernel(
        self, x: nn.utils.rnn.PackedSequence, state: CellState
    ) -> tuple[nn.utils.rnn.PackedSequence, CellState]:
        """Run all steps of rows of different lengths, sorted, from `state` with torch's kernel; return the outputs and
        the final state.
        """
        output, *last = self.kernel(x.data, x.batch_sizes, *self._kernel_arguments(state))
        return nn.utils.rnn.PackedSequence(output, x.batch_sizes), tuple(part.squeeze(0) for part in last)

    def _kernel_arguments(self, state: CellState) -> tuple[Any, ...]:
        """Return the kernel's arguments: state, weights and options (one layer with biases, no dropout, whether cuDNN
        must keep what a gradient needs, left to right).
        """
        initial_state = [part.unsqueeze(0) for part in state]
        weights = [self.input.weight, self.recurrent.weight, self.input.bias, self.recurrent.bias]
        on_gpu = weights[0].device.type == "cuda"
        if on_gpu:
            _join_storage(weights, mode=self.cudnn_mode)
        needs_grad = on_gpu and torch.is_grad_enabled()
        return initial_state if self.num_parts > 1 else initial_state[0], weights, True, 1, 0.0, needs_grad, False


def _join_storage(weights: list[Tensor], *, mode: str) -> None:
    """Store the weights of one layer in one buffer, in place, in the order of cuDNN's `mode`; do nothing if they are
    there already or cuDNN does not compute this type.

    cuDNN would otherwise copy them in each call. Optimizers and `to` of a module may separate them again.
    """
    input_weight, recurrent_weight = weights[:2]
    storages = {weight.untyped_storage().data_ptr() for weight in weights}
    if len(storages) == 1 or not torch.backends.cudnn.is_acceptable(input_weight):  # type: ignore[no-untyped-call]  # torch's
        return
    number = torch.backends.cudnn.rnn.get_cudnn_mode(mode)  # type: ignore[no-untyped-call]  # torch's
    d_input, d_state = input_weight.size(1), recurrent_weight.size(1)
    with torch.no_grad():
        torch._cudnn_rnn_flatten_weight(weights, 4, d_input, number, d_state, 0, 1, True, False)


class Elman(RecurrentCell):
    """Vanilla recurrent cell h = tanh(W x + U h + b) (Elman 1990)."""

    num_gates = 1
    kernel = staticmethod(torch.rnn_tanh)
    cudnn_mode = "RNN_TANH"

    def step(self, projected: Float[Tensor, "B d"], state: CellState) -> CellState:
        """Apply tanh to the sum of both maps."""
        return (torch.tanh(projected + self.recurrent(state[0])),)


class ReLUCell(RecurrentCell):
    """Recurrent cell h = relu(W x + U h + b), the core of Mnih et al. 2014, section 3.1."""

    num_gates = 1
    kernel = staticmethod(torch.rnn_relu)
    cudnn_mode = "RNN_RELU"

    def step(self, projected: Float[Tensor, "B d"], state: CellState) -> CellState:
        """Apply ReLU to the sum of both maps."""
        return (torch.relu(projected + self.recurrent(state[0])),)


class GRU(RecurrentCell):
    """Gated recurrent unit h = (1 - z) n + z h with n = tanh(W x + r (U h)) (Cho et al. 2014, eq. 5-8).

    The reset gate r is applied after the product with U, as in torch and cuDNN, while the paper resets h before it.
    """

    num_gates = 3
    kernel = staticmethod(torch.gru)
    cudnn_mode = "GRU"

    def step(self, projected: Float[Tensor, "B gates"], state: CellState) -> CellState:
        """Return the state after one step from `state`, with reset gate, update gate and candidate in torch's order;
        `projected` is the input times W.
        """
        (h,) = state
        widths = [2 * self.d_state, self.d_state]
        gates, candidate = torch.split(projected, widths, -1)
        recurrent_gates, recurrent_candidate = torch.split(self.recurrent(h), widths, -1)
        reset, update = torch.sigmoid(gates + recurrent_gates).chunk(2, -1)
        candidate = torch.tanh(torch.addcmul(candidate, reset, recurrent_candidate))
        return (torch.lerp(candidate, h, update),)


class LSTM(RecurrentCell):
    """Long short-term memory c = f c + i tanh(...), h = o tanh(c) (Hochreiter and Schmidhuber 1997; forget gate of
    Gers et al. 2000).

    The forget gate's bias starts at 1, so that the cell remembers at first (Jozefowicz et al. 2015, section 3.2).
    """

    num_gates = 4
    kernel = staticmethod(torch.lstm)
    cudnn_mode = "LSTM"
    num_parts = 2

    def __init__(self, d_input: int, d_state: int) -> None:
        super().__init__(d_input, d_state)
        with torch.no_grad():
            self.input.bias[d_state : 2 * d_state] = 1.0

    def step(self, projected: Float[Tensor, "B gates"], state: CellState) -> CellState:
        """Return the state after one step from `state`, with input gate, forget gate, candidate and output gate in
        torch's order; `projected` is the input times W.
        """
        h, cell = state
        i, f, candidate, o = (projected + self.recurrent(h)).chunk(4, -1)
        cell = torch.addcmul(torch.sigmoid(f) * cell, torch.sigmoid(i), torch.tanh(candidate))
        return (torch.sigmoid(o) * torch.tanh(cell), cell)


class RecurrentLayer(nn.Module, ABC):
    """Base class of the layers of a recurrent stack."""

    d_output: int

    @property
    @abstractmethod
    def layer_info(self) -> LayerInfo:
        """Description of the layer, for diagrams."""

    @abstractmethod
    def init_state(self, rows: int, reference: Tensor) -> CellState:
        """Return the state before the first token: zeros."""

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "B T d_input"], state: CellState, *, positions: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T d_output"], CellState]:
        """Return the outputs of the tokens in column order, zeros at padding, and the state after them."""


class UnidirectionalLayer(RecurrentLayer):
    """A recurrent layer from left to right."""

    def __init__(self, cell: RecurrentCell) -> None:
        super().__init__()
        self.cell = cell
        self.d_output = cell.d_state

    @property
    def layer_info(self) -> LayerInfo:
        """Description of a layer with one state, from left to right."""
        return LayerInfo(type(self.cell).__name__, carries=("forward",), width=self.d_output)

    def init_state(self, rows: int, reference: Tensor) -> CellState:
        """Return a state of zeros."""
        return self.cell.init_state(reference.new_zeros(rows, self.cell.d_state))

    def forward(
        self, x: Float[Tensor, "B T d_input"], state: CellState, *, positions: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T d_output"], CellState]:
        """Read the tokens from the first to the last, starting from `state`; return an output for each token and the
        final state.
        """
        return _run_cell(self.cell, x, state, token_mask=positions >= 0, backward=False)


class BidirectionalLayer(RecurrentLayer):
    """A recurrent layer in both directions with concatenated outputs (Schuster and Paliwal 1997); for encoders only.

    The state is the forward cell's, then the backward cell's.
    """

    def __init__(self, left_to_right: RecurrentCell, right_to_left: RecurrentCell) -> None:
        super().__init__()
        self.left_to_right = left_to_right
        self.right_to_left = right_to_left
        self.d_output = left_to_right.d_state + right_to_left.d_state

    @property
    def layer_info(self) -> LayerInfo:
        """Description of a layer with two states, one from each end."""
        return LayerInfo(type(self.left_to_right).__name__, carries=("forward", "backward"), width=self.d_output)

    def init_state(self, rows: int, reference: Tensor) -> CellState:
        """Return states of zeros for both cells."""
        forward_state = self.left_to_right.init_state(reference.new_zeros(rows, self.left_to_right.d_state))
        return forward_state + self.right_to_left.init_state(reference.new_zeros(rows, self.right_to_left.d_state))

    def forward(
        self, x: Float[Tensor, "B T d_input"], state: CellState, *, positions: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T d_output"], CellState]:
        """Read the tokens from both ends, starting from `state`; return both outputs for each token, concatenated, and
        the final states of both directions.
        """
        real, half = positions >= 0, len(state) // 2
        forward_outputs, forward_state = _run_cell(self.left_to_right, x, state[:half], token_mask=real, backward=False)
        backward_outputs, backward_state = _run_cell(
            self.right_to_left, x, state[half:], token_mask=real, backward=True
        )
        return torch.cat((forward_outputs, backward_outputs), -1), forward_state + backward_state


class RecurrentStack(nn.Module):
    """A stack of recurrent layers with dropout between them (Zaremba et al. 2014)."""

    def __init__(self, layers: Iterable[RecurrentLayer], *, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = Dropout(dropout)

    @property
    def d_output(self) -> int:
        """Width of the output."""
        return self._get_layers()[-1].d_output

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Return a description of each layer."""
        return tuple(layer.layer_info for layer in self._get_layers())

    def init_state(self, rows: int, reference: Tensor) -> tuple[CellState, ...]:
        """Return the states before the first token."""
        return tuple(layer.init_state(rows, reference) for layer in self._get_layers())

    def forward(
        self, x: Float[Tensor, "B T d_input"], state: tuple[CellState, ...], *, positions: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T d_output"], tuple[CellState, ...]]:
        """Apply all layers to the tokens of a chunk, starting from their states; return the outputs of the last layer
        and the new states.
        """
        states = []
        for number, (layer, old_state) in enumerate(zip(self._get_layers(), state, strict=True)):
            x, new_state = layer(self.dropout(x) if number else x, old_state, positions=positions)
            states.append(new_state)
        return x, tuple(states)

    def _get_layers(self) -> list[RecurrentLayer]:
        return [layer for layer in self.layers if isinstance(layer, RecurrentLayer)]


class RecurrentCellStack(nn.Module):
    """A stack of cells, advanced step by step, with an extra input to the gates of the lowest cell.

    Args:
        cells: from the lowest to the highest.
        d_extra: width of the extra input.
        dropout: dropout between layers.
    """

    def __init__(self, cells: Iterable[RecurrentCell], *, d_extra: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        lowest = self._get_cells()[0]
        self.more = build_xavier_linear(d_extra, lowest.input.out_features, bias=False, parts=lowest.num_gates)
        self.dropout = Dropout(dropout)

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Return a description of each cell."""
        return tuple(
            LayerInfo(type(cell).__name__, carries=("forward",), width=cell.d_state) for cell in self._get_cells()
        )

    def project_inputs(self, x: Float[Tensor, "B T d_input"]) -> Float[Tensor, "B T gates"]:
        """Apply the input map of the lowest cell to all steps at once."""
        projected: Tensor = self._get_cells()[0].input(x)
        return projected

    def step(
        self,
        projected: Float[Tensor, "B gates"],
        extra: Float[Tensor, "B d_more"],
        *,
        states: tuple[CellState, ...],
        token_mask: Tensor,
    ) -> tuple[CellState, ...]:
        """Advance all cells one step; states of rows without a token stay unchanged. `projected` is the lowest cell's
        input times W, and `extra` its extra input.
        """
        gates = projected + self.more(extra)
        new_states: list[CellState] = []
        for cell, state in zip(self._get_cells(), states, strict=True):
            if new_states:
                gates = cell.input(self.dropout(new_states[-1][0]))
            new_states.append(masked_update(token_mask, cell.step(gates, state), state))
        return tuple(new_states)

    def _get_cells(self) -> list[RecurrentCell]:
        return [cell for cell in self.cells if isinstance(cell, RecurrentCell)]


def masked_update(token_mask: Bool[Tensor, "B 1"], new_state: CellState, old_state: CellState) -> CellState:
    """Return the newer state in rows that read a token, the older one elsewhere."""
    return tuple(torch.where(token_mask, new, old) for new, old in zip(new_state, old_state, strict=True))


def _run_cell(
    cell: RecurrentCell, x: Tensor, state: CellState, *, token_mask: Bool[Tensor, "B T"], backward: bool
) -> tuple[Tensor, CellState]:
    """Run a cell from `state` over the tokens of a sequence, from the end if `backward`, with the fastest method for
    this padding; return the outputs and the final state.
    """
    if not bool(token_mask.any()):  # torch's kernels refuse an empty sequence
        return x.new_zeros(*token_mask.shape, cell.d_state), state
    if not cell.uses_kernel:
        return _run_stepwise(cell, x, state, token_mask=token_mask, backward=backward)
    if bool(token_mask.all()):
        output, state = cell.run_kernel(x.flip(1) if backward else x, state)
        return output.flip(1) if backward else output, state
    return _run_with_padding(cell, x, state, token_mask=token_mask, backward=backward)


def _run_stepwise(
    cell: RecurrentCell, x: Tensor, state: CellState, *, token_mask: Bool[Tensor, "B T"], backward: bool
) -> tuple[Tensor, CellState]:
    """Run a cell from `state` step by step, from the end if `backward`; steps without a token keep the state and give
    zeros. Return the outputs and the final state.
    """
    projected: Tensor = cell.input(x)
    outputs: list[Tensor] = []
    for t in range(token_mask.size(1))[:: -1 if backward else 1]:
        step_mask = token_mask[:, t : t + 1]
        state = masked_update(step_mask, cell.step(projected[:, t], state), state)
        outputs.append(state[0] * step_mask)
    return torch.stack(outputs[::-1] if backward else outputs, 1), state


def _run_with_padding(
    cell: RecurrentCell, x: Tensor, state: CellState, *, token_mask: Bool[Tensor, "B T"], backward: bool
) -> tuple[Tensor, CellState]:
    """Run a cell from `state` over padded rows, from the end if `backward`, by torch's packed kernel: pack real tokens
    to the left, longest rows first, then unpack the outputs. Also return the final state.
    """
    rows, length = token_mask.shape
    columns = torch.arange(length, device=x.device).expand(rows, -1)
    order = torch.where(token_mask, -columns if backward else columns, length).argsort(dim=1, stable=True)
    counts, by_length = token_mask.sum(1).sort(descending=True, stable=True)
    token_order = order.unsqueeze(-1)
    packed = nn.utils.rnn.pack_padded_sequence(
        x.gather(1, token_order.expand_as(x))[by_length], counts.clamp(min=1).cpu(), batch_first=True
    )
    packed_output, final_state = cell.run_packed_kernel(packed, tuple(part[by_length] for part in state))
    output, _ = nn.utils.rnn.pad_packed_sequence(packed_output, batch_first=True, total_length=length)
    original = by_length.argsort()
    output = output[original] * token_mask.gather(1, order).unsqueeze(-1)
    result = torch.zeros_like(output).scatter(1, token_order.expand_as(output), output)
    final_state = tuple(part[original] for part in final_state)
    return result, masked_update(token_mask.any(1, keepdim=True), final_state, state)
