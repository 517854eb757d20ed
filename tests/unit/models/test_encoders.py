"""The memory that an encoder makes of a source."""

from __future__ import annotations

import torch

from heedful.architectures.build import Sizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.models.encoders import FirstToken
from heedful.values import Tokens


def test_the_memory_is_the_tokens_and_its_summary_their_mean() -> None:
    config = TransformerConfig.model_validate({"d_model": 8, "heads": 2, "layers": 1})
    encoder = build_sequence_to_sequence(config, Sizes(9, 9, 9)).encoder.eval()
    source = Tokens.of(torch.tensor([[3, 4, 5, 6], [7, 3, 0, 0], [0, 0, 0, 0]]), pad=0)
    memory = encoder(source)
    assert memory.keys is memory.values
    assert torch.equal(memory.positions, source.positions)
    torch.testing.assert_close(memory.summary[0], memory.keys[0].mean(0))
    torch.testing.assert_close(memory.summary[1], memory.keys[1, :2].mean(0))
    assert not memory.summary[2].any(), "an empty source has no mean"
    assert memory.keys.isfinite().all()


def test_the_first_token_is_found_by_its_position() -> None:
    """tanh(W_s z_0 + b_s), with padding on either side."""
    pooler = FirstToken(4)
    hidden = torch.randn(2, 3, 4)
    for positions in ([[0, 1, 2], [0, 1, -1]], [[-1, 0, 1], [2, 1, 0]]):
        found = pooler(hidden, torch.tensor(positions))
        for row, places in enumerate(positions):
            expected = torch.tanh(pooler.dense.weight @ hidden[row, places.index(0)] + pooler.dense.bias)
            torch.testing.assert_close(found[row], expected)
