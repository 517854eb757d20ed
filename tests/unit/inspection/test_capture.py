"""Attentions are found by what they are and say, wherever they stand and whatever they are called."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from heedful.attention import Attention, Dot, Hops, MultiHeadAttention
from heedful.attention.explained import declare
from heedful.attention.positions import Learned
from heedful.attention.probe import ACROSS, READING, SOURCE, SUMMING, WRITING, Look, Probe
from heedful.blocks.embedding import TokenEmbedding
from heedful.inspection.capture import Place, Side, capture, encodings, places
from heedful.inspection.watch import watch
from heedful.values import Tokens

PICTURE = Look("cross", "written", "picture")


class Strange(nn.Module):
    """Names that mean nothing, `across` and `encoder` where no memory and no encoder is."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleDict({"b": Attention(Dot()), "a": MultiHeadAttention(6, 3)})
        self.across = Hops(2)
        self.words = TokenEmbedding(nn.Embedding(5, 4))
        self.spare = Attention(Dot())

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        visible = torch.ones(1, x.size(1), x.size(1), dtype=torch.bool)
        self.words(Tokens.of(ids, pad=0))
        once: Tensor = self.encoder["b"](x, x, value=x, visible=visible)
        return once + self.encoder["b"](2 * x, x, value=x, visible=visible)


def test_places_are_what_attentions_declare() -> None:
    model = Strange()
    assert places(model) == {}, "nobody has said anything"
    declare(model.encoder["a"], PICTURE)
    declare(model.across, SUMMING)
    declare(model.encoder, ACROSS)
    assert places(model) == {
        "encoder.b": Place(ACROSS, 0, 1),
        "encoder.a": Place(PICTURE, 1, 3),  # of the same role, so that it is the next layer
        "across": Place(SUMMING, 0, 2),
    }
    declare(model, WRITING)
    assert places(model)["spare"] == Place(WRITING, 0, 1)
    assert places(model)["across"].look == SUMMING, "what was said first holds"


def test_what_is_no_attention_has_no_place() -> None:
    """The choice of hard attention has a probe too, for what it draws from."""
    model = nn.ModuleDict({"probe": Probe(), "one": Attention(Dot())})
    declare(model, READING)
    assert list(places(model)) == ["one"]


def test_a_probe_may_have_any_name() -> None:
    model = nn.ModuleDict({"x": nn.Sequential(Probe())})
    with watch(model) as seen:
        model["x"](torch.eye(2))
    assert list(seen) == ["x"]


def test_every_call_is_captured_with_its_weights() -> None:
    model, x = Strange(), torch.randn(1, 3, 4)
    declare(model, WRITING)
    with capture(model, sides={model: Side("decoder", SOURCE)}) as captured:
        model(x, torch.tensor([[2, 3]]))
    assert list(captured.explained) == list(captured.weights) == ["encoder.b"]
    first, second = captured.explained["encoder.b"]
    torch.testing.assert_close(second.scores, 2 * first.scores)
    (found,) = captured.maps()
    assert (found.role, found.queries, found.keys, found.heads) == ("decoder", "written", "read", (0,))
    assert found.weights.shape == (1, 6, 3)
    (embedded,) = captured.sides()
    assert (embedded.side, embedded.axis) == ("decoder", SOURCE)
    torch.testing.assert_close(torch.from_numpy(embedded.words), 2 * model.words.table.weight[[2, 3]].detach())


def test_positions_that_a_table_has_and_nobody_reads_are_not_shown() -> None:
    """BART's first two rows."""
    table = Learned(6, 4, offset=2)
    (found,) = encodings(table)
    np.testing.assert_array_equal(found.vectors, table.table.weight.detach().numpy()[2:])
    assert list(found.places) == list(range(6))
