"""Recurrent layers: torch's kernels and the formulas agree, and tokens that are not there change nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from heedful.blocks.recurrent import (
    GRU,
    LSTM,
    BidirectionalLayer,
    Elman,
    RecurrentCell,
    RecurrentStack,
    UnidirectionalLayer,
)

ROWS, LENGTH, D_INPUT, D_STATE = 4, 6, 3, 5
CELLS: dict[str, type[Elman | GRU | LSTM]] = {"elman": Elman, "gru": GRU, "lstm": LSTM}
TORCH = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def random(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.double()


@pytest.fixture(params=CELLS)
def cell(request: pytest.FixtureRequest) -> RecurrentCell:
    return random(CELLS[request.param](D_INPUT, D_STATE))  # type: ignore[return-value]


def inputs() -> tuple[Tensor, Tensor]:
    """Tokens with holes anywhere, and one row that has none at all."""
    x = torch.randn(ROWS, LENGTH, D_INPUT, dtype=torch.float64)
    real = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 0], [1, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0]]).bool()
    return x, torch.where(real, real.cumsum(1) - 1, -1)


def begun(cell: RecurrentCell) -> tuple[Tensor, ...]:
    return tuple(torch.randn_like(part) for part in cell.init_state(torch.zeros(ROWS, D_STATE, dtype=torch.float64)))


@pytest.mark.parametrize("name", CELLS)
def test_cells_are_those_of_torch(name: str) -> None:
    """Same formulas, same order of gates: weights can be exchanged."""
    ours, theirs = CELLS[name](D_INPUT, D_STATE), TORCH[name](D_INPUT, D_STATE, batch_first=True)
    weights = [ours.input.weight, ours.recurrent.weight, ours.input.bias, ours.recurrent.bias]
    with torch.no_grad():
        for mine, other in zip(weights, theirs.parameters(), strict=True):
            mine.copy_(other)
    x = torch.randn(ROWS, LENGTH, D_INPUT)
    found, _ = UnidirectionalLayer(ours)(
        x, ours.init_state(torch.zeros(ROWS, D_STATE)), positions=torch.zeros(ROWS, LENGTH).long()
    )
    torch.testing.assert_close(found, theirs(x)[0])


def test_step_by_step_is_all_at_once(cell: RecurrentCell) -> None:
    x, positions = inputs()
    state = before = begun(cell)
    outputs = []
    for t in range(LENGTH):
        after = cell.step(cell.input(x[:, t]), state)
        real = (positions[:, t] >= 0).unsqueeze(1)
        state = tuple(torch.where(real, new, old) for new, old in zip(after, state, strict=True))
        outputs.append(after[0] * real)
    found, last = UnidirectionalLayer(cell)(x, before, positions=positions)
    torch.testing.assert_close(found, torch.stack(outputs, 1))
    for mine, other in zip(last, state, strict=True):
        torch.testing.assert_close(mine, other)


def test_gradients_of_both_ways_agree(cell: RecurrentCell) -> None:
    x, positions = inputs()
    x.requires_grad_()
    state, parts = begun(cell), []
    whole, _ = UnidirectionalLayer(cell)(x, state, positions=positions)
    for cut in (slice(0, 2), slice(2, 3), slice(3, 6)):
        part, state = UnidirectionalLayer(cell)(x[:, cut], state, positions=positions[:, cut])
        parts.append(part)
    wanted = torch.autograd.grad(whole.square().sum(), (x, *cell.parameters()))
    found = torch.autograd.grad(torch.cat(parts, 1).square().sum(), (x, *cell.parameters()))
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other)


def test_both_directions_are_one_cell_and_another_that_reads_backwards() -> None:
    there, back = (random(GRU(D_INPUT, D_STATE)) for _ in range(2))
    layer = BidirectionalLayer(there, back)  # type: ignore[arg-type]
    x, positions = inputs()
    found, state = layer(x, layer.init_state(ROWS, x), positions=positions)
    for row in range(ROWS):
        own = x[row, positions[row] >= 0].unsqueeze(0)
        if not own.size(1):
            assert not found[row].any()
            continue
        zeros = torch.zeros(1, D_STATE, dtype=torch.float64)
        left, left_end = there.run_kernel(own, (zeros,))  # type: ignore[operator]
        right, right_end = back.run_kernel(own.flip(1), (zeros,))  # type: ignore[operator]
        torch.testing.assert_close(found[row, positions[row] >= 0], torch.cat((left, right.flip(1)), -1)[0])
        torch.testing.assert_close(torch.stack([part[row] for part in state]), torch.cat((left_end[0], right_end[0])))


def test_a_stack_hands_outputs_upwards() -> None:
    layers = [UnidirectionalLayer(random(LSTM(D_INPUT, D_STATE))), UnidirectionalLayer(random(LSTM(D_STATE, 2)))]  # type: ignore[arg-type]
    stack = RecurrentStack(layers, dropout=0.5).eval()
    x, positions = inputs()
    found, states = stack(x, stack.init_state(ROWS, x), positions=positions)
    lower, first = layers[0](x, layers[0].init_state(ROWS, x), positions=positions)
    upper, second = layers[1](lower, layers[1].init_state(ROWS, x), positions=positions)
    torch.testing.assert_close(found, upper)
    for mine, other in zip(states[0] + states[1], first + second, strict=True):
        torch.testing.assert_close(mine, other)
    assert stack.d_output == 2


def test_recurrent_maps_begin_orthogonal_gate_by_gate() -> None:
    cell = LSTM(D_INPUT, D_STATE)
    for matrix in cell.recurrent.weight.split(D_STATE):
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(D_STATE))
    assert cell.input.bias.view(4, D_STATE).sum(1).tolist() == [0, D_STATE, 0, 0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("training", [True, False])
def test_outputs_and_gradients_of_a_gpu_are_those_of_the_processor(cell: RecurrentCell, *, training: bool) -> None:
    layer = UnidirectionalLayer(cell).train(training)
    x, positions = inputs()
    results = []
    for device in ("cpu", "cuda", "cuda"):
        moved = layer.to(device)
        moved.zero_grad()
        output, _ = moved(
            x.to(device),
            cell.init_state(torch.zeros_like(x[:, 0, :1]).expand(-1, D_STATE).to(device)),
            positions=positions.to(device),
        )
        output.square().sum().backward()
        results.append([output.detach().cpu(), *(p.grad.cpu() for p in layer.parameters() if p.grad is not None)])
    assert len({p.untyped_storage().data_ptr() for p in layer.parameters()}) == 1, "cuDNN copies them in each call"
    for found in results[1:]:
        torch.testing.assert_close(found, results[0], rtol=1e-9, atol=1e-9)  # double precision
