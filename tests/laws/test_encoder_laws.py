"""Laws of all encoder-only Transformers, tested with all variants that a recipe can build."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from heedful.architectures.stack import EncoderConfig
from heedful.attention.hooks import ENCODER_SELF, SOURCE_AXIS
from heedful.inspection.capture import ModelSide, capture_attention
from heedful.models.interface import Encoder
from heedful.tasks.pretraining.task import build_masked_language_model
from heedful.tensors import Tokens

POSITIONS: dict[str, dict[str, Any]] = {
    "learned": {"kind": "learned", "length": 16},
    "sinusoidal": {"kind": "sinusoidal"},
    "rotary": {"kind": "rotary"},
    "shaw": {"kind": "shaw", "clip": 3},
    "alibi": {"kind": "alibi"},
    "buckets": {"kind": "buckets", "count": 8, "max_distance": 6},
    "unit_interval": {"kind": "unit_interval"},
    "integer": {"kind": "integer"},
}
VARIANTS: dict[str, dict[str, Any]] = {name: {"positions": positions} for name, positions in POSITIONS.items()} | {
    "pre-norm": {"residual": "pre_norm"},
    "bare": {"segments": 1, "embedding_norm": False, "bias": False},
    "window": {"visibility": {"kind": "window", "before": 1, "after": 2}},
    "concat": {"aggregation": "concat"},
    "mean": {"aggregation": "mean"},
    "shared layers": {"share_layers": True},
    "narrow embeddings": {"d_embedding": 6},
    "biases of distances": {"distance_bias": {"count": 8, "max_distance": 6}},
}


def build_encoder(options: dict[str, Any]) -> Encoder[Tokens]:
    torch.manual_seed(3)
    shape = {"d_model": 12, "heads": 3, "layers": 2, "dropout": 0.0}
    config = EncoderConfig.model_validate({**shape, "positions": POSITIONS["learned"], **options})
    encoder = build_masked_language_model(config, vocabulary=11, longest=16, paired=True).double().eval().encoder
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.5)
    return encoder


def build_tokens(rows: list[list[int]], second: int) -> Tokens:
    """Pad rows with 0; from column `second` on, tokens belong to the second part."""
    width = max(map(len, rows))
    tokens = Tokens.from_ids(torch.tensor([row + [0] * (width - len(row)) for row in rows]), pad=0)
    segments = (torch.arange(width) >= second).expand_as(tokens.ids).long()
    return Tokens(tokens.ids, tokens.positions, segments)


@pytest.mark.parametrize("name", VARIANTS)
def test_capture_law(name: str) -> None:
    """The captured weights are the weights that the attention uses, and capturing changes nothing."""
    model, tokens = (
        nn.ModuleDict({"encoder": build_encoder(VARIANTS[name])}),
        build_tokens([[1, 4, 5, 2, 6, 7, 2], [1, 8, 2, 9]], 4),
    )
    plain = model["encoder"](tokens).values
    with capture_attention(model, sides={model["encoder"]: ModelSide("encoder", SOURCE_AXIS)}) as captured:
        torch.testing.assert_close(model["encoder"](tokens).values, plain)
    assert [(each.declaration, each.layer) for each in captured.sites.values()] == [
        (ENCODER_SELF, 0),
        (ENCODER_SELF, 1),
    ]
    assert set(captured.explained) == set(captured.weights) == set(captured.sites)
    real = tokens.positions >= 0
    for path, (told,) in captured.explained.items():
        (weights,), (output,) = captured.weights[path], captured.outputs[path]
        torch.testing.assert_close(told.weights, weights)
        assert (told.weights.masked_select(~told.visible.unsqueeze(1)) == 0).all()
        assert not told.visible[1, :, ~real[1]].any(), "padding gets no attention"
        torch.testing.assert_close(told.weights.sum(-1).transpose(1, 2)[real], torch.ones(11, 3).double())
        module: Any = model.get_submodule(path)
        torch.testing.assert_close(module.aggregation(told.context.transpose(1, 2)), output)
    (summands,) = captured.embedded.values()
    embedding: Any = model.get_submodule("encoder.stack.embedding")
    expected = summands.compute_sum()
    for step in (embedding.norm, embedding.projection):
        expected = expected if step is None else step(expected)
    torch.testing.assert_close(embedding(tokens), expected)
    assert (embedding.projection is not None) == (name == "narrow embeddings")
    assert (summands.segments is None) == (name == "bare")


@pytest.mark.parametrize("name", VARIANTS)
def test_padding_law(name: str) -> None:
    """The encoding of a text does not depend on the other texts of the batch or on its padding."""
    encoder, long, short = build_encoder(VARIANTS[name]), [1, 4, 5, 2, 6, 7, 2], [1, 8, 2, 9]
    alone = encoder(build_tokens([short], 3))
    beside = encoder(build_tokens([long, short], 3))
    torch.testing.assert_close(beside.values[1, :4], alone.values[0])
    torch.testing.assert_close(beside.summary[1], alone.summary[0])
    left = build_tokens([short], 3)
    shifted = Tokens(*(nn.functional.pad(each, (3, 0), value=fill) for each, fill in (
        (left.ids, 0), (left.positions, -1), (left.segments, 0))))  # fmt: skip
    torch.testing.assert_close(encoder(shifted).values[:, 3:], alone.values)
    assert beside.values.isfinite().all()
