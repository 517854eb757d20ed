"""What the output reads."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from heedful.blocks.feedforward import DeepOutput, Maxout, Readout, StateReadout


def test_the_state_alone_is_the_state_whatever_stands_beside_it() -> None:
    state, other = torch.randn(2, 3, 4), torch.randn(2, 3, 5)
    readout = StateReadout(4, dropout=0.5)
    assert torch.equal(readout.eval()(state, other), state)
    assert not list(readout.parameters())
    dropped = readout.train()(state, other)
    kept = dropped != 0
    assert kept.any()
    assert not kept.all()
    torch.testing.assert_close(dropped[kept], 2 * state[kept], rtol=0.01, atol=0.0)


@pytest.mark.parametrize("activation", [nn.Tanh(), Maxout()])
def test_a_deep_output_is_an_activation_of_a_sum_of_maps(activation: nn.Module) -> None:
    """Bahdanau et al. 2015, A.2.2; Luong et al. 2015, eq. 5."""
    readout = DeepOutput((4, 5), 3, activation=activation).double()
    nn.init.normal_(readout.maps[0].bias)
    state, other = torch.randn(2, 6, 4, dtype=torch.float64), torch.randn(2, 6, 5, dtype=torch.float64)
    u, v = readout.maps
    for b in range(2):
        for t in range(6):
            summed = (u.weight @ state[b, t] + u.bias + v.weight @ other[b, t]).tolist()
            if isinstance(activation, Maxout):
                expected = torch.tensor([max(summed[2 * n], summed[2 * n + 1]) for n in range(3)])
            else:
                expected = torch.tensor(summed).tanh()
            torch.testing.assert_close(readout(state, other)[b, t], expected.double(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="shorter"):
        readout(state)


def test_both_say_how_wide_they_are() -> None:
    readouts: list[Readout] = [StateReadout(4), DeepOutput((4, 5), 3, activation=Maxout())]
    assert [each.d_output for each in readouts] == [4, 3]
    assert [each(torch.zeros(1, 1, 4), torch.zeros(1, 1, 5)).size(-1) for each in readouts] == [4, 3]
