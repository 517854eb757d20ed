"""From a config to modules: each key arrives where it belongs, and tied tables are one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from heedful.architectures.build import DataSizes, build_language_model, build_sequence_to_sequence
from heedful.architectures.model import ModelConfig, TransformerConfig
from heedful.architectures.stack import DecoderConfig
from heedful.attention import (
    AdditiveScore,
    ConcatAggregation,
    Dropout,
    IntegerPosition,
    LearnedPosition,
    MeanAggregation,
    MultiHeadAttention,
    NoPosition,
    ProjectionAggregation,
    RotaryPosition,
    ShawPosition,
    SinusoidalPosition,
    UnitIntervalPosition,
)
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.residual import PostNorm, PreNorm, ResidualConnection
from heedful.models.predictions import cross_entropy
from heedful.tensors import Tokens

VOCABULARY = 11


def build(**given: Any) -> nn.Module:
    config = {"d_model": 16, "heads": 4, "d_ff": 24, "layers": 2, "dropout": 0.0, **given}
    return build_sequence_to_sequence(TransformerConfig.model_validate(config), DataSizes(VOCABULARY, VOCABULARY, 20))


def tables(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    stacks = model.encoder.stack, model.decoder.stack
    return stacks[0].embedding.table.weight, stacks[1].embedding.table.weight, model.output.weight


def of(model: nn.Module, kind: type[nn.Module]) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, kind)]


@pytest.mark.parametrize(
    ("tie", "groups"), [("three_way", [[0, 1, 2]]), ("two_way", [[0], [1, 2]]), ("none", [[0], [1], [2]])]
)
def test_tied_tables_are_one_tensor_and_their_gradients_add_up(tie: str, groups: list[list[int]]) -> None:
    """The gradient of a shared table is the sum of those that its copies would have."""
    tied, untied = build(tie=tie, output_bias=True).double(), build(tie="none", output_bias=True).double()
    with torch.no_grad():
        rest = dict(untied.named_parameters())
        for name, parameter in tied.named_parameters(remove_duplicate=False):
            rest[name].copy_(parameter)
    for group in groups:
        assert len({tables(tied)[i].data_ptr() for i in group}) == 1
    assert len({table.data_ptr() for table in tables(tied)}) == len(groups)
    source = Tokens.from_ids(torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]]), pad=0)
    target = Tokens.from_ids(torch.tensor([[1, 7, 8], [1, 9, 3]]), pad=0)
    labels = torch.tensor([7, 8, 2, 9, 3, 2])

    def gradients(model: nn.Module) -> tuple[Tensor, ...]:
        hidden = model(source, target).flatten(0, 1)
        loss, _ = cross_entropy(hidden, labels, output=model.output, smoothing=0.1)
        return torch.autograd.grad(loss, tables(model))

    shared, copies = gradients(tied), gradients(untied)
    for group in groups:
        expected = sum(copies[i] for i in group)
        for i in group:
            torch.testing.assert_close(shared[i], expected)


def test_tied_tables_stay_one_when_they_are_moved_trained_and_cast() -> None:
    model = build(tie="three_way").double()
    with torch.no_grad():
        model.output.weight += 1
    first, *others = tables(model)
    assert all(torch.equal(first, other) for other in others)
    assert len(dict(model.named_parameters())) == len(dict(model.named_parameters(remove_duplicate=False))) - 2


POSITIONS = {
    "sinusoidal": (SinusoidalPosition, NoPosition),
    "learned": (LearnedPosition, NoPosition),
    "unit_interval": (UnitIntervalPosition, NoPosition),
    "integer": (IntegerPosition, NoPosition),
    "rotary": (type(None), RotaryPosition),
    "shaw": (type(None), ShawPosition),
    "none": (type(None), NoPosition),
}


@pytest.mark.parametrize("kind", POSITIONS)
def test_positions_stand_on_both_sides_and_never_between_them(kind: str) -> None:
    """Relative positions are those of one sentence; between two sentences distances mean nothing."""
    model = build(positions={"kind": kind})
    absolute, relative = POSITIONS[kind]
    for stack in (model.encoder.stack, model.decoder.stack):
        assert type(stack.embedding.position) is absolute
        for layer in stack.layers:
            assert type(layer.attention.relative) is relative
            assert layer.across is None or type(layer.across.relative) is NoPosition
    vectors = [attention.relative for attention in of(model, MultiHeadAttention) if kind == "shaw"]
    assert len({id(each) for each in vectors}) == len(vectors), "each layer learns its own"


def test_who_cannot_know_the_end_counts_to_the_longest_sentence() -> None:
    """A decoder must say the same of a token whatever follows; an encoder sees where its sentence ends."""
    model = build(positions={"kind": "unit_interval"})
    encoder, decoder = (stack.embedding.position for stack in (model.encoder.stack, model.decoder.stack))
    assert (encoder.length, decoder.length) == (None, 21)
    model = build(positions={"kind": "unit_interval", "of": "longest"})
    assert model.encoder.stack.embedding.position.length == 21
    config = DecoderConfig.model_validate({"d_model": 8, "heads": 2, "positions": {"kind": "unit_interval"}})
    model = build_language_model(config, vocabulary=7, longest=30)
    assert model.decoder.stack.embedding.position.length == 30
    assert build(positions={"kind": "integer"}).encoder.stack.embedding.position.first == 1
    assert build(positions={"kind": "integer", "first": 0}).decoder.stack.embedding.position.first == 0


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("attention_dropout", lambda model: [each.dropout for each in of(model, MultiHeadAttention)]),
        ("activation_dropout", lambda model: [each.dropout for each in of(model, FeedForward)]),
        ("dropout", lambda model: [each.dropout for each in of(model, ResidualConnection)]),
        (
            "embedding_dropout",
            lambda model: [model.encoder.stack.embedding.dropout, model.decoder.stack.embedding.dropout],
        ),
    ],
)
def test_each_dropout_is_set_at_its_place_and_nowhere_else(key: str, place: Any) -> None:
    model = build(**{"embedding_dropout": 0.0, key: 0.25})
    here = {id(dropout) for dropout in place(model)}
    assert here
    for dropout in of(model, Dropout):
        assert dropout.p == (0.25 if id(dropout) in here else 0.0)


@pytest.mark.parametrize(
    ("given", "kind", "count"),
    [
        ({"residual": "post_norm"}, PostNorm, 2 * 2 + 2 * 3),
        ({"residual": "pre_norm"}, PreNorm, 2 * 2 + 2 * 3),
        ({"activation": "relu"}, nn.ReLU, 4),
        ({"activation": "gelu"}, nn.GELU, 4),
        ({"aggregation": "mean"}, MeanAggregation, 6),
        ({"aggregation": "concat"}, ConcatAggregation, 6),
        ({"aggregation": "project"}, ProjectionAggregation, 6),
    ],
)
def test_parts_are_those_that_were_named(given: dict[str, Any], kind: type[nn.Module], count: int) -> None:
    assert len(of(build(**given), kind)) == count


def test_numbers_arrive() -> None:
    model = build(encoder_layers=3, decoder_layers=1, heads=2, scale_embedding=False, shared_key_value=True)
    assert (len(model.encoder.stack.layers), len(model.decoder.stack.layers)) == (3, 1)
    assert {attention.heads for attention in of(model, MultiHeadAttention)} == {2}
    assert all(attention.shared_key_value for attention in of(model, MultiHeadAttention))
    assert {network.inner.out_features for network in of(model, FeedForward)} == {24}
    assert model.encoder.stack.embedding.scale == model.decoder.stack.embedding.scale == 1
    assert build().encoder.stack.embedding.scale == 4
    assert model.output.bias is None
    assert build(output_bias=True).output.bias is not None
    assert (model.encoder.stack.final_norm, model.decoder.stack.final_norm) == (None, None)
    assert all(
        isinstance(s.final_norm, nn.LayerNorm) for s in of(build(residual="pre_norm"), type(model.encoder.stack))
    )


def test_one_matrix_for_keys_and_values_makes_keys_as_wide_as_the_mean_of_heads() -> None:
    """The lecture's c = (1/J) sum_j c_j with W_k = W_v: every projection has J d_model rows."""
    model = build(aggregation="mean", shared_key_value=True, positions={"kind": "rotary"})
    for attention in of(model, MultiHeadAttention):
        assert (attention.d_k, attention.d_v) == (16, 16)
        assert attention.query.weight.shape == attention.key_value.weight.shape == (4 * 16, 16)
    assert build(aggregation="mean").encoder.stack.layers[0].attention.d_k == 4
    # pairs are turned, and what a head turns is as wide as the model here
    odd = {"d_model": 12, "heads": 4, "aggregation": "mean", "positions": {"kind": "rotary"}}
    TransformerConfig.model_validate({**odd, "shared_key_value": True})


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        {"self_attention": {"score": "additive"}, "cross_attention": {"score": "additive"}},
        {"kind": "recurrent", "reading": {"kind": "bahdanau"}},
        {"kind": "recurrent", "reading": {"kind": "luong", "score": "additive"}},
        {"kind": "convolutional", "score": "additive"},
    ],
    ids=["heads", "bahdanau", "luong", "convolutional"],
)
def test_additive_scores_have_a_bias_where_it_is_asked_for(given: dict[str, Any], bias: bool) -> None:
    def biased(table: dict[str, Any]) -> dict[str, Any]:
        inner = {key: biased(part) if isinstance(part, dict) else part for key, part in table.items()}
        additive = table.get("score") == "additive" or table.get("kind") == "bahdanau"
        return inner | ({"alignment_bias": True} if additive else {})

    config = TypeAdapter(ModelConfig).validate_python(biased(given) if bias else given)
    scores = of(build_sequence_to_sequence(config, DataSizes(7, 7, 20)), AdditiveScore)
    assert scores
    assert all((score.query.bias is not None) == bias for score in scores)


def test_vocabularies_of_two_sizes() -> None:
    config = TransformerConfig.model_validate({"d_model": 8, "heads": 2, "layers": 1, "tie": "two_way"})
    model = build_sequence_to_sequence(config, DataSizes(7, 13, 20))
    assert [table.size(0) for table in tables(model)] == [7, 13, 13]


def test_visibility_is_what_was_named() -> None:
    given = {
        "encoder_visibility": {"kind": "window", "before": 2, "after": 1},
        "decoder_visibility": {"kind": "window", "before": 3},
    }
    model, at = build(**given), torch.arange(6)[None]
    seen = [s.visibility(at.unsqueeze(2), at.unsqueeze(1))[0] for s in (model.encoder.stack, model.decoder.stack)]
    for i in range(6):
        for j in range(6):
            assert bool(seen[0][i, j]) == (i - 2 <= j <= i + 1)
            assert bool(seen[1][i, j]) == (i - 3 <= j <= i)


@pytest.mark.parametrize("kind", ["classifier", "tagger", "spans"])
def test_a_head_is_built_on_the_encoder_that_is_given(kind: str) -> None:
    """Nothing of the encoder is made anew, and parameters are called as in a model that was built whole."""
    from heedful.architectures.build import build_tagger, build_text_classifier
    from heedful.architectures.build_classifiers import build_span_classifier
    from heedful.architectures.classifiers import EncoderClassifierConfig
    from heedful.architectures.stack import EncoderConfig

    shape = {"d_model": 8, "heads": 2, "layers": 1}
    config = EncoderClassifierConfig.model_validate(shape)
    plain = EncoderConfig.model_validate(shape)
    first = build_text_classifier(config, vocabulary=9, outputs=2, longest=12)
    kept = {name: each.clone() for name, each in first.encoder.named_parameters()}

    def build(**given: Any) -> torch.nn.Module:
        if kind == "classifier":
            return build_text_classifier(config, vocabulary=9, outputs=3, longest=12, **given)
        if kind == "tagger":
            return build_tagger(plain, vocabulary=9, tags=3, longest=12, **given)
        return build_span_classifier(plain, vocabulary=9, longest=12, **given)

    whole, head = build(), build(encoder=first.encoder)
    assert head.encoder is first.encoder
    names = {name for name, _ in head.named_parameters() if not name.startswith("encoder.summary.")}
    assert names == {name for name, _ in whole.named_parameters() if not name.startswith("encoder.summary.")}
    assert all(torch.equal(kept[name], each) for name, each in first.encoder.named_parameters())
