"""Small random MarianMT models of transformers compute the same as heedful's models with their weights."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.attention import MultiHeadAttention
from heedful.models.generative import SequenceToSequence
from heedful.models.predictions import cross_entropy
from heedful.tensors import Tokens

transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra: dev)")

VOCABULARY, PAD = 13, 0


def map_dimensions(d_model: int) -> Tensor:
    """Map Marian's dimensions to heedful's: Marian has all sines first, heedful has each sine beside its cosine.

    Only the position table distinguishes the dimensions of the residual stream, so a model with all its dimensions
    permuted is the same model.
    """
    return torch.arange(d_model).view(2, -1).T.flatten()


def copy_marian(theirs: nn.Module, ours: SequenceToSequence[Tokens]) -> None:
    """Copy the weights of a `MarianMTModel` into heedful's model; the sizes must agree."""
    dims = map_dimensions(theirs.config.d_model)
    with torch.no_grad():
        ours.output.weight.copy_(theirs.model.shared.weight[:, dims])
        ours.output.bias.copy_(theirs.final_logits_bias[0])
        for ours_stack, their_stack in (
            (ours.encoder.stack, theirs.model.encoder),
            (ours.decoder.stack, theirs.model.decoder),
        ):
            for layer, other in zip(ours_stack.layers, their_stack.layers, strict=True):
                _copy_attention(layer.attention, other.self_attn, dims)
                _copy_norm(layer.around_attention.norm, other.self_attn_layer_norm, dims)
                if layer.across is not None:
                    _copy_attention(layer.across, other.encoder_attn, dims)
                    _copy_norm(layer.around_across.norm, other.encoder_attn_layer_norm, dims)
                _copy_linear(layer.feed_forward.inner, [other.fc1], columns=dims)
                _copy_linear(layer.feed_forward.outer, [other.fc2], rows=dims)
                _copy_norm(layer.around_feed_forward.norm, other.final_layer_norm, dims)


def _copy_attention(ours: MultiHeadAttention, theirs: Any, dims: Tensor) -> None:
    _copy_linear(ours.query, [theirs.q_proj], columns=dims)
    _copy_linear(ours.key_value, [theirs.k_proj, theirs.v_proj], columns=dims)
    _copy_linear(ours.aggregation.output, [theirs.out_proj], rows=dims)


def _copy_norm(ours: nn.LayerNorm, theirs: nn.LayerNorm, dims: Tensor) -> None:
    ours.weight.copy_(theirs.weight[dims])
    ours.bias.copy_(theirs.bias[dims])


def _copy_linear(
    ours: nn.Linear, theirs: list[nn.Linear], *, rows: Tensor | None = None, columns: Tensor | None = None
) -> None:
    weight, bias = torch.cat([each.weight for each in theirs]), torch.cat([each.bias for each in theirs])
    if rows is not None:
        weight, bias = weight[rows], bias[rows]
    ours.weight.copy_(weight if columns is None else weight[:, columns])
    ours.bias.copy_(bias)


def set_exact_positions(theirs: nn.Module) -> None:
    """Replace Marian's tables, which are rounded to fp32, by exact positions in the same layout."""
    for stack in (theirs.model.encoder, theirs.model.decoder):
        rounded = stack.embed_positions.weight.data
        length, d_model = rounded.shape
        half = d_model // 2
        angle = [[t / math.pow(10000, 2 * i / d_model) for i in range(half)] for t in range(length)]
        exact = torch.tensor([[*map(math.sin, row), *map(math.cos, row)] for row in angle])
        torch.testing.assert_close(rounded.to(exact), exact, atol=1e-6, rtol=0)
        stack.embed_positions.weight.data = exact


@pytest.fixture(params=[(12, 3, "relu", True), (16, 2, "gelu", False)], ids=["relu-scaled", "gelu"])
def pair(request: pytest.FixtureRequest) -> tuple[nn.Module, SequenceToSequence[Tokens]]:
    d_model, heads, activation, scaled = request.param
    sizes = {"d_model": d_model, "encoder_layers": 2, "decoder_layers": 3}
    config = transformers.MarianConfig(
        **sizes,
        vocab_size=VOCABULARY,
        decoder_vocab_size=VOCABULARY,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=20,
        decoder_ffn_dim=20,
        activation_function=activation,
        scale_embedding=scaled,
        max_position_embeddings=24,
        pad_token_id=PAD,
        decoder_start_token_id=PAD,
        dropout=0.0,
        attn_implementation="eager",
    )
    theirs = transformers.MarianMTModel(config).double().eval()
    for parameter in theirs.parameters():
        if parameter.requires_grad:  # the positions are not parameters
            nn.init.normal_(parameter, std=0.4)
    nn.init.normal_(theirs.final_logits_bias)
    set_exact_positions(theirs)
    recipe = {"heads": heads, "d_ff": 20, "activation": activation, "scale_embedding": scaled, "output_bias": True}
    ours = build_sequence_to_sequence(
        TransformerConfig.model_validate({**sizes, **recipe, "dropout": 0.0}), DataSizes(VOCABULARY, VOCABULARY, 20)
    ).eval()
    copy_marian(theirs, ours)
    return theirs, ours


def build_tokens() -> tuple[Tensor, Tensor, Tokens, Tokens]:
    source = torch.tensor([[3, 4, 5, 6, 7, 2], [8, 9, 2, PAD, PAD, PAD], [5, 3, 12, 4, 2, PAD]])
    target = torch.tensor([[PAD, 8, 7, 3, 11], [PAD, 5, 6, 6, 4], [PAD, 3, 4, 9, 10]])
    # Marian starts with its padding token: positions, not ids, say that it is a token
    return source, target, Tokens.from_ids(source, pad=PAD), Tokens(target, torch.arange(5).repeat(3, 1))


def test_logits(pair: tuple[nn.Module, SequenceToSequence[Tokens]]) -> None:
    theirs, ours = pair
    source, target, *tokens = build_tokens()
    expected = theirs(input_ids=source, attention_mask=source != PAD, decoder_input_ids=target).logits
    found, _ = ours.step(tokens[1], ours.init_state(tokens[0]))
    torch.testing.assert_close(found, expected)


def test_logits_token_by_token(pair: tuple[nn.Module, SequenceToSequence[Tokens]]) -> None:
    """Both with their caches: Marian's grows by concatenation, heedful's in place."""
    theirs, ours = pair
    source, target, *tokens = build_tokens()
    with torch.no_grad():
        encoded = theirs.model.encoder(input_ids=source, attention_mask=source != PAD)
        state, cache = ours.init_state(tokens[0]), None
        for column in range(5):
            after = theirs(
                encoder_outputs=encoded,
                attention_mask=source != PAD,
                decoder_input_ids=target[:, column : column + 1],
                past_key_values=cache,
                use_cache=True,
            )
            cache = after.past_key_values
            found, state = ours.step(tokens[1].slice_columns(column, column + 1), state)
            torch.testing.assert_close(found, after.logits)


def test_gradients(pair: tuple[nn.Module, SequenceToSequence[Tokens]]) -> None:
    theirs, ours = pair
    source, target, *tokens = build_tokens()
    labels = torch.randint(1, VOCABULARY, (3, 5))
    logits = theirs(input_ids=source, attention_mask=source != PAD, decoder_input_ids=target).logits
    functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum").backward()
    loss, _ = cross_entropy(ours(*tokens).flatten(0, 1), labels.flatten(), output=ours.output)
    loss.backward()
    dims = map_dimensions(theirs.config.d_model)
    expected, found = theirs.model.decoder.layers[0], ours.decoder.stack.layers[0]
    for ours_grad, their_grad in (
        # no gradient reaches Marian's embedding of the padding token, although the decoder reads it first
        (ours.output.weight.grad[PAD + 1 :], theirs.model.shared.weight.grad[PAD + 1 :, dims]),
        (found.across.query.weight.grad, expected.encoder_attn.q_proj.weight.grad[:, dims]),
        (found.feed_forward.outer.weight.grad, expected.fc2.weight.grad[dims]),
        (
            ours.encoder.stack.layers[0].around_attention.norm.weight.grad,
            theirs.model.encoder.layers[0].self_attn_layer_norm.weight.grad[dims],
        ),
    ):
        torch.testing.assert_close(ours_grad, their_grad)
