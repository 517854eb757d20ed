"""torch's own attention and Transformer compute the same numbers and gradients with the same weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.attention import AttentionMask, MultiHeadAttention, ProjectionAggregation, bidirectional, causal
from heedful.blocks.residual import ResidualConnection
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.models.predictions import cross_entropy
from heedful.tensors import Tokens

D_MODEL, HEADS, D_FF, VOCABULARY, PAD = 16, 4, 24, 11, 0


def randomize_weights(module: nn.Module) -> None:
    """Gains of 1 and biases of 0 would hide errors."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)


def build_mask(query: Tensor, key: Tensor, visibility: Any = bidirectional) -> AttentionMask:
    return AttentionMask.from_visible(
        query, key_positions=key, visible=visibility(query.unsqueeze(2), key.unsqueeze(1))
    )


def iter_packed_weights(attention: MultiHeadAttention, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Yield weights with the names of torch's attention: queries, keys and values in one matrix."""
    yield prefix + "in_proj_weight", torch.cat((attention.query.weight, attention.key_value.weight))
    yield from iter_biases_and_output(attention, prefix)


def iter_biases_and_output(attention: MultiHeadAttention, prefix: str) -> Iterator[tuple[str, Tensor]]:
    assert isinstance(attention.aggregation, ProjectionAggregation)
    yield prefix + "in_proj_bias", torch.cat((attention.query.bias, attention.key_value.bias))
    yield from iter_named_parameters(attention.aggregation.output, prefix + "out_proj.")


def iter_named_parameters(module: nn.Module, prefix: str) -> Iterator[tuple[str, Tensor]]:
    return ((prefix + name, parameter) for name, parameter in module.named_parameters())


def iter_torch_weights(layer: TransformerLayer, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of a layer with torch's names; gradients flow back to heedful's parameters."""
    residuals: list[ResidualConnection] = [layer.around_attention, layer.around_feed_forward]
    yield from iter_packed_weights(layer.attention, prefix + "self_attn.")
    if layer.across is not None and layer.around_across is not None:
        residuals.insert(1, layer.around_across)
        yield from iter_packed_weights(layer.across, prefix + "multihead_attn.")
    for number, residual in enumerate(residuals, 1):
        yield from iter_named_parameters(residual.norm, f"{prefix}norm{number}.")  # type: ignore[arg-type]
    yield from iter_named_parameters(layer.feed_forward.inner, prefix + "linear1.")
    yield from iter_named_parameters(layer.feed_forward.outer, prefix + "linear2.")


def build_torch_transformer(model: nn.Module, *, post_norm: bool) -> tuple[nn.Transformer, dict[str, Tensor]]:
    """Build torch's Transformer of the same size, and heedful's weights with its names."""
    stacks: dict[str, TransformerStack] = {"encoder": model.encoder.stack, "decoder": model.decoder.stack}
    settings: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": not post_norm}
    theirs = nn.Transformer(
        D_MODEL,
        HEADS,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, **settings),
            len(stacks["encoder"].layers),
            norm=None if post_norm else nn.LayerNorm(D_MODEL),
            enable_nested_tensor=False,
        ),
        custom_decoder=nn.TransformerDecoder(
            nn.TransformerDecoderLayer(D_MODEL, HEADS, D_FF, **settings),
            len(stacks["decoder"].layers),
            norm=None if post_norm else nn.LayerNorm(D_MODEL),
        ),
        batch_first=True,
    )
    weights: dict[str, Tensor] = {}
    for side, stack in stacks.items():
        for number, layer in enumerate(stack.layers):
            weights.update(iter_torch_weights(layer, f"{side}.layers.{number}."))  # type: ignore[arg-type]
        if stack.final_norm is not None:
            weights.update(iter_named_parameters(stack.final_norm, f"{side}.norm."))
    assert weights.keys() == dict(theirs.named_parameters()).keys()
    return theirs, weights


def compute_sinusoids(length: int) -> Tensor:
    table = torch.zeros(length, D_MODEL)
    for t in range(length):
        for i in range(0, D_MODEL, 2):
            table[t, i] = math.sin(t / 10000 ** (i / D_MODEL))
            table[t, i + 1] = math.cos(t / 10000 ** (i / D_MODEL))
    return table


def compute_torch_logits(model: nn.Module, source: Tokens, target: Tokens, *, post_norm: bool) -> Tensor:
    theirs, weights = build_torch_transformer(model, post_norm=post_norm)
    table = model.output.weight

    def embed_tokens(tokens: Tokens) -> Tensor:
        return functional.embedding(tokens.ids, table) * math.sqrt(D_MODEL) + compute_sinusoids(tokens.ids.size(1))

    length = target.ids.size(1)
    hidden = functional_call(
        theirs.train(model.training),
        weights,
        (embed_tokens(source), embed_tokens(target)),
        {
            "tgt_mask": torch.ones(length, length, dtype=torch.bool).triu(1),
            "src_key_padding_mask": source.ids == PAD,
            "memory_key_padding_mask": source.ids == PAD,
            "tgt_key_padding_mask": target.ids == PAD,
        },
    )
    return hidden @ table.T + model.output.bias


def build(residual: str) -> nn.Module:
    config = {
        "d_model": D_MODEL,
        "heads": HEADS,
        "d_ff": D_FF,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "dropout": 0.0,
        "residual": residual,
        "output_bias": True,
    }
    model = build_sequence_to_sequence(TransformerConfig.model_validate(config), DataSizes(VOCABULARY, VOCABULARY, 20))
    randomize_weights(model)
    return model


def batch() -> tuple[Tokens, Tokens, Tensor]:
    source = torch.tensor([[3, 4, 5, 6, 7, 2], [8, 9, 2, PAD, PAD, PAD], [5, 3, 4, 4, 2, PAD]])
    target = torch.tensor([[1, 8, 7, 3, 3], [1, 5, PAD, PAD, PAD], [1, 3, 4, 9, PAD]])
    labels = torch.tensor([[8, 7, 3, 3, 2], [5, 2, PAD, PAD, PAD], [3, 4, 9, 2, PAD]])
    return Tokens.from_ids(source, pad=PAD), Tokens.from_ids(target, pad=PAD), labels


@pytest.mark.parametrize("self_attention", [True, False], ids=["self", "cross"])
@pytest.mark.parametrize("padded", [True, False], ids=["padded", "full"])
def test_multi_head_attention(self_attention: bool, padded: bool) -> None:
    ours = MultiHeadAttention(D_MODEL, HEADS)
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    randomize_weights(ours)
    theirs.load_state_dict(dict(iter_packed_weights(ours, "")))
    x = torch.randn(2, 5, D_MODEL)
    memory = x if self_attention else torch.randn(2, 7, D_MODEL)
    positions, at = torch.arange(5).repeat(2, 1), torch.arange(memory.size(1)).repeat(2, 1)
    if padded:
        at[1, 3:] = -1
    future = torch.ones(5, 5, dtype=torch.bool).triu(1) if self_attention else None
    expected, weights = theirs(
        x, memory, memory, attn_mask=future, key_padding_mask=at == -1, average_attn_weights=False
    )
    seen = []
    ours.probe.register_forward_hook(lambda _module, _inputs, each: seen.append(each))
    sight = build_mask(positions, at, causal if self_attention else bidirectional)
    torch.testing.assert_close(ours(x, ours.project_memory(memory, memory, at), mask=sight), expected)
    torch.testing.assert_close(seen[0], weights)


def test_multi_head_attention_over_another_width_with_separate_values() -> None:
    ours = MultiHeadAttention(D_MODEL, HEADS, d_memory=6)
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, kdim=6, vdim=6, batch_first=True)
    randomize_weights(ours)
    key, value = ours.key_value.weight.chunk(2)
    theirs.load_state_dict(
        {
            "q_proj_weight": ours.query.weight,
            "k_proj_weight": key,
            "v_proj_weight": value,
            **dict(iter_biases_and_output(ours, "")),
        }
    )
    x, keys, values = torch.randn(2, 3, D_MODEL), torch.randn(2, 4, 6), torch.randn(2, 4, 6)
    positions, at = torch.arange(3).expand(2, -1), torch.arange(4).expand(2, -1)
    for each in (values, keys):
        found = ours(x, ours.project_memory(keys, each, at), mask=build_mask(positions, at))
        torch.testing.assert_close(found, theirs(x, keys, each)[0])


@pytest.mark.parametrize("residual", ["post_norm", "pre_norm"])
@pytest.mark.parametrize("recorded", [True, False], ids=["gradients", "inference"])
def test_encoder_decoder(residual: str, recorded: bool) -> None:
    model = build(residual).eval()
    source, target, labels = batch()
    with torch.set_grad_enabled(recorded):
        found = model.output(model(source, target))
        expected = compute_torch_logits(model, source, target, post_norm=residual == "post_norm")
    real = labels != PAD
    torch.testing.assert_close(found[real], expected[real])


@pytest.mark.parametrize("residual", ["post_norm", "pre_norm"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradients_of_a_training_step(residual: str, smoothing: float) -> None:
    model = build(residual).train()
    source, target, labels = batch()
    real = labels != PAD
    found, plain = cross_entropy(model(source, target)[real], labels[real], output=model.output, smoothing=smoothing)
    logits = compute_torch_logits(model, source, target, post_norm=residual == "post_norm").flatten(0, 1)
    expected = functional.cross_entropy(
        logits, labels.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        plain, functional.cross_entropy(logits, labels.flatten(), ignore_index=PAD, reduction="sum").detach()
    )
    parameters = dict(model.named_parameters())
    ours = torch.autograd.grad(found, list(parameters.values()))
    theirs = torch.autograd.grad(expected, list(parameters.values()))
    for name, mine, other in zip(parameters, ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, msg=lambda text, name=name: f"{name}: {text}")
        assert other.abs().max() > 0, name
