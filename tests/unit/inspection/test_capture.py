"""Attentions are found by what they are and say, wherever they stand and whatever they are called."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from heedful.attention import Attention, DotScore, MultiHeadAttention, MultiHopAttention
from heedful.attention.hooks import (
    CROSS,
    DECODER_SELF,
    ENCODER_SELF,
    SOURCE_AXIS,
    SUMMARY,
    AttentionRole,
    HookPoint,
    assign_roles,
)
from heedful.attention.positions import LearnedPosition
from heedful.blocks.embedding import TokenEmbedding
from heedful.inspection.capture import (
    AttentionSite,
    ModelSide,
    capture_attention,
    find_attention_sites,
    find_position_encodings,
    watch_attention,
)
from heedful.tensors import Tokens

PICTURE = AttentionRole("cross", "written", "picture")


class Strange(nn.Module):
    """Names that mean nothing, `across` and `encoder` where no memory and no encoder is."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleDict({"b": Attention(DotScore()), "a": MultiHeadAttention(6, 3)})
        self.across = MultiHopAttention(2)
        self.words = TokenEmbedding(nn.Embedding(5, 4))
        self.spare = Attention(DotScore())

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        visible = torch.ones(1, x.size(1), x.size(1), dtype=torch.bool)
        self.words(Tokens.from_ids(ids, pad=0))
        once: Tensor = self.encoder["b"](x, x, value=x, visible=visible)
        return once + self.encoder["b"](2 * x, x, value=x, visible=visible)


def test_places_are_what_attentions_declare() -> None:
    model = Strange()
    assert find_attention_sites(model) == {}, "nobody has said anything"
    assign_roles(model.encoder["a"], PICTURE)
    assign_roles(model.across, SUMMARY)
    assign_roles(model.encoder, CROSS)
    assert find_attention_sites(model) == {
        "encoder.b": AttentionSite(CROSS, 0, 1),
        "encoder.a": AttentionSite(PICTURE, 1, 3),  # of the same role, so that it is the next layer
        "across": AttentionSite(SUMMARY, 0, 2),
    }
    assign_roles(model, DECODER_SELF)
    assert find_attention_sites(model)["spare"] == AttentionSite(DECODER_SELF, 0, 1)
    assert find_attention_sites(model)["across"].declaration == SUMMARY, "what was said first holds"


def test_what_is_no_attention_has_no_place() -> None:
    """The choice of hard attention has a probe too, for what it draws from."""
    model = nn.ModuleDict({"probe": HookPoint(), "one": Attention(DotScore())})
    assign_roles(model, ENCODER_SELF)
    assert list(find_attention_sites(model)) == ["one"]


def test_a_probe_may_have_any_name() -> None:
    model = nn.ModuleDict({"x": nn.Sequential(HookPoint())})
    with watch_attention(model) as seen:
        model["x"](torch.eye(2))
    assert list(seen) == ["x"]


def test_every_call_is_captured_with_its_weights() -> None:
    model, x = Strange(), torch.randn(1, 3, 4)
    assign_roles(model, DECODER_SELF)
    with capture_attention(model, sides={model: ModelSide("decoder", SOURCE_AXIS)}) as captured:
        model(x, torch.tensor([[2, 3]]))
    assert list(captured.explained) == list(captured.weights) == ["encoder.b"]
    first, second = captured.explained["encoder.b"]
    torch.testing.assert_close(second.scores, 2 * first.scores)
    (found,) = captured.build_maps()
    assert (found.role, found.queries, found.keys, found.heads) == ("decoder", "written", "read", (0,))
    assert found.weights.shape == (1, 6, 3)
    (embedded,) = captured.build_embedded_tokens()
    assert (embedded.side, embedded.axis) == ("decoder", SOURCE_AXIS)
    torch.testing.assert_close(torch.from_numpy(embedded.words), 2 * model.words.table.weight[[2, 3]].detach())


def test_positions_that_a_table_has_and_nobody_reads_are_not_shown() -> None:
    """BART's first two rows."""
    table = LearnedPosition(6, 4, offset=2)
    (found,) = find_position_encodings(table)
    np.testing.assert_array_equal(found.vectors, table.table.weight.detach().numpy()[2:])
    assert list(found.places) == list(range(6))
