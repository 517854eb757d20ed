"""Layers that attend to two memories, compared with plain loops."""

from __future__ import annotations

import torch
from torch import nn

from heedful.attention import Attention, AttentionMask, DotScore, MultiHeadAttention, bidirectional, causal
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.recurrent import GRU
from heedful.blocks.residual import PreNorm
from heedful.blocks.transformer import LayerState, TransformerLayer
from heedful.models.recurrent_decoder import LinearStateInit, SourceAttention
from heedful.tensors import Memory

D = 6


def draw_memory(slots: int) -> Memory:
    """Draw keys and values; the last slot of the second row is empty."""
    positions = torch.arange(slots).repeat(2, 1)
    positions[1, -1] = -1
    return Memory(torch.randn(2, slots, D), torch.randn(2, slots, D), positions, torch.randn(2, D))


def build_mask(memory: Memory, queries: int) -> AttentionMask:
    positions = torch.arange(queries).expand(2, -1)
    visible = bidirectional(positions.unsqueeze(2), memory.positions.unsqueeze(1))
    return AttentionMask.from_visible(positions, key_positions=memory.positions, visible=visible)


def test_a_layer_attends_to_one_memory_after_the_other() -> None:
    """h = x + S(LN x); h = h + A_facts(LN h); h = h + A_source(LN h); h + F(LN h)."""
    facts, source = MultiHeadAttention(D, 2), MultiHeadAttention(D, 3)
    layer = TransformerLayer(
        MultiHeadAttention(D, 2),
        FeedForward(D, 9, activation=nn.ReLU()),
        residual=lambda: PreNorm(D),
        across={"facts": facts, "source": source},
    ).eval()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    memories, x = {"facts": draw_memory(4), "source": draw_memory(3)}, torch.randn(2, 5, D)
    positions = torch.arange(5).expand(2, -1)
    own = AttentionMask.from_visible(
        positions, key_positions=positions, visible=causal(positions.unsqueeze(2), positions.unsqueeze(1))
    )
    sights = {name: build_mask(each, 5) for name, each in memories.items()}
    found, _ = layer(x, layer.init_state(memories), mask=own, cross_masks=sights)

    bare = TransformerLayer(layer.attention, ZeroFeedForward(), residual=lambda: PreNorm(D)).eval()
    bare.around_attention = layer.around_attention
    h, _ = bare(x, LayerState(), mask=own, cross_masks={})
    for name, attention in (("facts", facts), ("source", source)):
        each = memories[name]
        norm = layer.get_submodule("around_across" if name == "source" else "around_across-facts").get_submodule("norm")
        known = attention.project_memory(each.keys, each.values, each.positions)
        h = h + attention(norm(h), known, mask=sights[name])
    h = h + layer.feed_forward(layer.around_feed_forward.get_submodule("norm")(h))
    torch.testing.assert_close(found, h)
    assert {name.split(".")[0] for name, _ in layer.named_parameters()} == {
        *("attention", "across", "across-facts", "feed_forward"),
        *("around_attention", "around_across", "around_across-facts", "around_feed_forward"),
    }


class ZeroFeedForward(FeedForward):
    """Feed-forward network that adds nothing."""

    def __init__(self) -> None:
        super().__init__(D, 1, activation=nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)


def test_a_recurrent_decoder_concatenates_contexts_and_summaries() -> None:
    """c = [softmax(q K_1') V_1 ; softmax(q K_2') V_2], and s_0 = tanh(W [summary_1 ; summary_2] + b)."""
    start = LinearStateInit(2 * D, [GRU(D, D)])
    reading = SourceAttention({"source": Attention(DotScore()), "facts": Attention(DotScore())}, start=start)
    memories, query = {"facts": draw_memory(4), "source": draw_memory(3)}, torch.randn(2, 1, D)
    state = reading.init_state(memories)
    found = reading(query, state.memories, positions=torch.zeros(2, 1, dtype=torch.long))
    contexts = []
    for name in ("source", "facts"):
        each = memories[name]
        scores = (query @ each.keys.mT).masked_fill((each.positions < 0).unsqueeze(1), -torch.inf)
        contexts.append(scores.softmax(2) @ each.values)
    torch.testing.assert_close(found, torch.cat(contexts, 2))
    first = start.maps[0]
    summaries = torch.cat((memories["source"].summary, memories["facts"].summary), 1)
    torch.testing.assert_close(state.cells[0][0], torch.tanh(summaries @ first.weight.T + first.bias))
