"""The memory that an encoder makes of a source."""

from __future__ import annotations

import pytest
import torch

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.blocks.recurrent import LSTM, BidirectionalLayer, RecurrentStack
from heedful.models.recurrent_encoder import (
    RecurrentEncoder,
    StateSummary,
    take_all_layers,
    take_both_ends,
    take_first_backward,
    take_last_state,
)
from heedful.models.transformer import FirstTokenPooler, MeanPooler, Pooler, SelfAttentivePooler
from heedful.tensors import Tokens


def test_the_memory_is_the_tokens_and_its_summary_their_mean() -> None:
    config = TransformerConfig.model_validate({"d_model": 8, "heads": 2, "layers": 1})
    encoder = build_sequence_to_sequence(config, DataSizes(9, 9, 9)).encoder.eval()
    source = Tokens.from_ids(torch.tensor([[3, 4, 5, 6], [7, 3, 0, 0], [0, 0, 0, 0]]), pad=0)
    memory = encoder(source)
    assert memory.keys is memory.values
    assert torch.equal(memory.positions, source.positions)
    torch.testing.assert_close(memory.summary[0], memory.keys[0].mean(0))
    torch.testing.assert_close(memory.summary[1], memory.keys[1, :2].mean(0))
    assert not memory.summary[2].any(), "an empty source has no mean"
    assert memory.keys.isfinite().all()


def test_the_first_token_is_found_by_its_position() -> None:
    """tanh(W_s z_0 + b_s), with padding on either side."""
    pooler = FirstTokenPooler(4)
    hidden = torch.randn(2, 3, 4)
    for positions in ([[0, 1, 2], [0, 1, -1]], [[-1, 0, 1], [2, 1, 0]]):
        found = pooler(hidden, torch.tensor(positions))
        for row, places in enumerate(positions):
            expected = torch.tanh(pooler.dense.weight @ hidden[row, places.index(0)] + pooler.dense.bias)
            torch.testing.assert_close(found[row], expected)


D = 4
SUMMARIES = {
    "last state": (take_last_state, D),
    "first backward": (take_first_backward, D),
    "both ends": (take_both_ends, 2 * D),
    "every layer": (take_all_layers, 8 * D),
}


@pytest.mark.parametrize(("summary", "width"), SUMMARIES.values(), ids=[*SUMMARIES])
def test_a_recurrent_encoder_takes_any_summary(summary: StateSummary, width: int) -> None:
    """Nothing in them depends on padding or on neighbours."""
    stack = RecurrentStack([BidirectionalLayer(LSTM(d, D), LSTM(d, D)) for d in (3, 2 * D)])
    encoder = RecurrentEncoder(TokenEmbedding(build_embedding(9, 3)), stack, summary=summary).eval()
    found = encoder(Tokens.from_ids(torch.tensor([[3, 4, 5, 6], [7, 3, 0, 0]]), pad=0)).summary
    assert found.shape == (2, width)
    alone = encoder(Tokens.from_ids(torch.tensor([[7, 3]]), pad=0)).summary
    torch.testing.assert_close(found[1:], alone)
    padded = encoder(Tokens.from_ids(torch.tensor([[0, 0, 7, 3, 0]]), pad=0)).summary
    torch.testing.assert_close(padded, alone)


def test_summaries_of_ends_are_those_of_both_cells() -> None:
    there, back = torch.randn(2, 3, D), torch.randn(2, 3, D)
    ends = (tuple(torch.randn(4, 3, D)), (*there, *back))
    assert torch.equal(take_last_state(ends), there[0])
    assert torch.equal(take_first_backward(ends), back[0])
    assert torch.equal(take_both_ends(ends), torch.cat((there[0], back[0]), 1))
    assert torch.equal(take_all_layers(ends), torch.cat([part for state in ends for part in state], 1))


POOLERS = {
    "mean": (MeanPooler(), 2 * D),
    "first token": (FirstTokenPooler(2 * D), 2 * D),
    "self-attentive": (SelfAttentivePooler(2 * D, hops=3, d_alignment=5), 6 * D),
}


@pytest.mark.parametrize(("pooler", "width"), POOLERS.values(), ids=[*POOLERS])
def test_poolers_depend_on_no_padding_and_no_neighbour(pooler: Pooler, width: int) -> None:
    hidden, positions = torch.randn(2, 4, 2 * D), torch.tensor([[0, 1, 2, 3], [0, 1, -1, -1]])
    found = pooler(hidden, positions)
    assert found.shape == (2, width)
    torch.testing.assert_close(found[1:], pooler(hidden[1:, :2], positions[1:, :2]))
    shifted = pooler(hidden[1:].roll(1, 1), positions[1:].roll(1, 1))
    torch.testing.assert_close(found[1:], shifted)
