"""GPT and BERT from their configs: parts, shared tables, positions, and what both refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from heedful.architectures.build import build_encoder, build_language_model, build_tagger, build_text_classifier
from heedful.architectures.classifiers import EncoderClassifierConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.attention import LearnedPosition, RotaryPosition, bidirectional, causal
from heedful.attention.positions import BucketBias
from heedful.blocks.residual import PostNorm, PreNorm, ResidualConnection
from heedful.errors import RecipeError
from heedful.recipes.load import build_recipe
from heedful.tasks.pretraining.task import build_masked_language_model
from heedful.tensors import Tokens

VOCABULARY = 11
SMALL: dict[str, Any] = {"d_model": 16, "heads": 4, "layers": 2}


def gpt(**given: Any) -> Any:
    return build_language_model(DecoderConfig.model_validate({**SMALL, **given}), vocabulary=VOCABULARY)


def bert(**given: Any) -> Any:
    return build_encoder(EncoderConfig.model_validate({**SMALL, **given}), vocabulary=VOCABULARY)


def of(model: nn.Module, kind: type[nn.Module]) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, kind)]


def test_a_decoder_is_a_gpt_unless_told_otherwise() -> None:
    model = gpt()
    stack = model.decoder.stack
    assert stack.visibility is causal
    assert isinstance(stack.embedding.position, LearnedPosition)
    assert stack.embedding.scale == 1
    assert (stack.embedding.segments, stack.embedding.norm) == (None, None)
    assert [type(each) for each in of(model, ResidualConnection)] == [PreNorm] * 4
    assert isinstance(stack.final_norm, nn.LayerNorm)
    assert all(layer.across is None for layer in stack.layers)
    assert [each.approximate for each in of(model, nn.GELU)] == ["none"] * 2
    assert model.output.weight is stack.embedding.table.weight
    assert model.output.bias is None


def test_a_decoder_told_otherwise() -> None:
    model = gpt(
        activation="gelu_tanh",
        bias=False,
        tie=False,
        output_bias=True,
        norm_epsilon=1e-3,
        residual="post_norm",
        positions={"kind": "rotary"},
    )
    stack = model.decoder.stack
    assert [each.approximate for each in of(model, nn.GELU)] == ["tanh"] * 2
    assert [name for name, _ in model.named_parameters() if name.endswith("bias")] == ["output.bias"]
    assert model.output.weight is not stack.embedding.table.weight
    assert {norm.eps for norm in of(model, nn.LayerNorm)} == {1e-3}
    assert [type(each) for each in of(model, ResidualConnection)] == [PostNorm] * 4
    assert stack.final_norm is None
    assert stack.embedding.position is None
    assert all(isinstance(layer.attention.relative, RotaryPosition) for layer in stack.layers)


def test_an_encoder_is_a_bert_unless_told_otherwise() -> None:
    model = bert()
    assert model.stack.visibility is bidirectional
    assert model.stack.embedding.segments.num_embeddings == 2
    assert [type(each) for each in of(model, ResidualConnection)] == [PostNorm] * 4
    assert model.stack.final_norm is None
    assert {norm.eps for norm in of(model, nn.LayerNorm)} == {1e-12}
    plain = bert(segments=1, embedding_norm=False).stack.embedding
    assert (plain.segments, plain.norm) == (None, None)


def test_layers_may_share_their_weights() -> None:
    """They compute what separate layers with equal weights do, and their gradient is the sum of those layers'."""
    shared, plain = bert(share_layers=True, layers=3, dropout=0.0), bert(layers=3, dropout=0.0)
    for parameter in shared.parameters():
        nn.init.normal_(parameter, std=0.4)
    plain.load_state_dict(shared.state_dict())
    assert {name.split(".")[2] for name, _ in shared.named_parameters() if "layers" in name} == {"0"}
    assert len({id(layer.attention.probe) for layer in shared.stack.layers}) == 3
    tokens = Tokens(torch.arange(10).view(2, 5), torch.arange(5).expand(2, 5))
    outputs = [model.double()(tokens).values for model in (shared, plain)]
    torch.testing.assert_close(*outputs)
    for output in outputs:
        output.square().sum().backward()
    first, *others = (dict(layer.named_parameters()) for layer in plain.stack.layers)
    for name, parameter in shared.stack.layers[0].named_parameters():
        torch.testing.assert_close(parameter.grad, sum(each[name].grad for each in (first, *others)))


def test_embeddings_may_be_narrower_than_layers() -> None:
    model = build_masked_language_model(
        EncoderConfig.model_validate({**SMALL, "d_embedding": 6}), vocabulary=VOCABULARY, longest=9, paired=False
    )
    embedding = model.encoder.stack.embedding
    assert {table.weight.size(1) for table in (embedding.table, embedding.position.table, embedding.segments)} == {6}
    assert embedding.norm.normalized_shape == model.masked.norm.normalized_shape == (6,)
    assert (embedding.projection.in_features, embedding.projection.out_features) == (6, 16)
    assert model.masked.output.weight is embedding.table.weight
    assert (bert().stack.embedding.projection, bert(d_embedding=16).stack.embedding.projection is None) == (None, False)
    tokens = Tokens(torch.zeros(1, 3, dtype=torch.long), torch.arange(3).unsqueeze(0))
    sinusoidal = bert(d_embedding=6, positions={"kind": "sinusoidal"})
    assert sinusoidal.stack.embedding.embed_parts(tokens).positions.shape == (1, 3, 6)
    assert sinusoidal(tokens).values.shape == (1, 3, 16)
    with pytest.raises(ValueError, match="must be even: sinusoidal positions"):
        EncoderConfig.model_validate({**SMALL, "d_embedding": 5, "positions": {"kind": "sinusoidal"}})


def test_biases_of_distances_come_beside_positions() -> None:
    model = bert(distance_bias={"count": 8})
    (bias,) = of(model, BucketBias)
    assert all(layer.attention.relative is bias for layer in model.stack.layers)
    assert (bias.table.num_embeddings, bias.causal) == (8, False)
    assert isinstance(model.stack.embedding.position, LearnedPosition)
    with pytest.raises(ValueError, match=r'model\.positions\.kind = "rotary" is one of the attention'):
        EncoderConfig.model_validate({**SMALL, "distance_bias": {}, "positions": {"kind": "rotary"}})


@pytest.mark.parametrize(("name", "function"), [("tanh", torch.tanh), ("relu", torch.relu), ("gelu", functional.gelu)])
def test_the_summary_of_a_text_has_an_activation(name: str, function: Any) -> None:
    config = EncoderClassifierConfig.model_validate({**SMALL, "dropout": 0.0, "summary": {"activation": name}})
    model: Any = build_text_classifier(config, vocabulary=VOCABULARY, outputs=3, longest=9)
    nn.init.normal_(model.encoder.summary.dense.bias)
    tokens = Tokens(torch.arange(10).view(2, 5), torch.arange(5).expand(2, 5))
    first = model.encoder.summary.dense(model.encoder(tokens).values[:, 0])
    torch.testing.assert_close(model.embed_text(tokens), function(first))


@torch.no_grad()
def test_a_tagger_says_of_each_token_what_it_would_say_without_padding() -> None:
    config = EncoderConfig.model_validate({**SMALL, "dropout": 0.0})
    model = build_tagger(config, vocabulary=VOCABULARY, tags=5).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    ids, positions = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0]]), torch.tensor([[0, 1, 2, 3], [0, 1, -1, -1]])
    segments = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0]])
    together = model.output(model(Tokens(ids, positions, segments)))
    assert together.shape == (2, 4, 5)
    alone = model.output(model(Tokens(ids[1:, :2], positions[1:, :2], segments[1:, :2])))
    torch.testing.assert_close(alone[0], together[1, :2])
    left = Tokens(ids[1:, [2, 3, 0, 1]], positions[1:, [2, 3, 0, 1]], segments[1:, [2, 3, 0, 1]])
    torch.testing.assert_close(model.output(model(left))[0, 2:], alone[0])
    other = model.output(model(Tokens(ids, positions, 1 - segments)))
    assert (other - together)[positions >= 0].abs().amax(-1).min() > 1e-6, "segments change what is said"
    silent = model.output(model(Tokens(ids, positions)))
    torch.testing.assert_close(silent, model.output(model(Tokens(ids, positions, torch.zeros_like(ids)))))


TABLE: dict[str, Any] = {
    "output": "runs/x",
    "training": {"steps": 1},
    "data": {"train": {"path": "t", "kind": "text"}, "validation": {"path": "t", "kind": "text"}},
}


@pytest.mark.parametrize(
    ("task", "key"), [("language_modelling", "length"), ("tagging", "max_length")], ids=["decoder", "encoder"]
)
def test_there_are_as_many_positions_as_a_text_may_have_tokens(task: str, key: str) -> None:
    table = {**TABLE, "task": task}
    if task == "tagging":
        table["data"] = {part: {"path": "t", "kind": "columns"} for part in ("train", "validation")}

    def made(longest: int) -> Any:
        content = {**table, "data": {**table["data"], key: 64}, "model": {"positions": {"length": longest}}}
        return build_recipe(content, source="here").model

    assert made(64).positions.length == 64
    assert made(64).kind == "transformer"
    with pytest.raises(RecipeError, match=rf"model.positions.length = 63 must be at least data.{key} = 64"):
        made(63)
