"""Each dropout of a model acts in training, and none acts afterwards; layers that are computed again drop the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from heedful.adapters.adapter import LoraAdapter
from heedful.architectures.build import (
    build_language_model,
    build_sequence_to_sequence,
    build_tagger,
    build_text_classifier,
)
from heedful.architectures.build_classifiers import build_span_classifier
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import ClassifierConfig, LanguageModelConfig, ModelConfig, TaggerConfig
from heedful.architectures.stack import EncoderConfig
from heedful.attention.dropout import Dropout
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.inspection.capture import watch_attention
from heedful.tensors import Tokens

VOCABULARY = 11
DEEP = {"d_model": 16, "layers": 2, "dropout": 0.25}
STACK = {"kind": "transformer", "heads": 2, "attention_dropout": 0.25, "activation_dropout": 0.25, **DEEP}
RECURRENT = {"kind": "recurrent", **DEEP}

SEQUENCES: dict[str, dict[str, Any]] = {
    "transformer": STACK,
    "transformer-pre_norm": {**STACK, "residual": "pre_norm", "embedding_norm": True},
    "transformer-shaw": {**STACK, "positions": {"kind": "shaw", "clip": 3}},
    "transformer-additive": {**STACK, "self_attention": {"score": "additive"}, "cross_attention": {"score": "general"}},
    "bahdanau": {**RECURRENT, "reading": {"kind": "bahdanau"}},
    "bahdanau-state": {**RECURRENT, "cell": "lstm", "readout": "state"},
    "context": {**RECURRENT, "reading": {"kind": "context"}},
    "luong": {**RECURRENT, "reading": {"kind": "luong"}},
    "luong-without-feeding": {**RECURRENT, "reading": {"kind": "luong", "input_feeding": False}},
    "convolutional": {"kind": "convolutional", **DEEP},
}
LANGUAGE: dict[str, dict[str, Any]] = {
    "gpt": STACK,
    "recurrent-language": RECURRENT,
    "memory-language": {"kind": "memory_network", "d_model": 16, "hops": 2, "dropout": 0.25},
}
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "bert": {**STACK, "d_hidden": 16},
    "recurrent-classifier": {**RECURRENT, "summary": {"kind": "mean"}},
    "hops": {**RECURRENT, "summary": {"kind": "self_attentive", "hops": 3, "d_alignment": 5}, "d_hidden": 16},
    "windows": {"kind": "windows", "d_model": 16, "dropout": 0.25, "d_hidden": 16},
    "conditional": {"kind": "conditional", **DEEP},
    "siamese": {"kind": "siamese", "d_model": 16, "dropout": 0.25, "embedding_dropout": 0.25},
}
TAGGERS: dict[str, dict[str, Any]] = {"tagger": STACK, "recurrent-tagger": RECURRENT}
IDLE = {"context": ["encoder.dropout"]}
"""Dropouts whose output is not read: if the source is one vector, its slots are not attended to."""
NAMES = (*SEQUENCES, *LANGUAGE, *CLASSIFIERS, *TAGGERS, "spans")

Read = Callable[[], Tensor]


def build_model(name: str) -> tuple[nn.Module, Read]:
    """Build a model, and a function that computes its output for a few tokens."""
    ids = torch.randint(1, VOCABULARY, (3, 6))
    halves = (torch.arange(6) >= 3).expand(3, -1).long()
    tokens, parts = Tokens.from_ids(ids, pad=0), Tokens(ids, torch.arange(6).expand(3, -1), halves)
    if name in SEQUENCES:
        config = TypeAdapter(ModelConfig).validate_python(SEQUENCES[name])
        pair = build_sequence_to_sequence(config, DataSizes(VOCABULARY, VOCABULARY, 20))
        return pair, lambda: pair.step(tokens, pair.init_state(tokens))[0]
    if name in LANGUAGE:
        decoder = build_language_model(
            TypeAdapter(LanguageModelConfig).validate_python(LANGUAGE[name]), vocabulary=VOCABULARY, longest=20
        )
        return decoder, lambda: decoder.step(tokens, decoder.init_state())[0]
    if name in CLASSIFIERS:
        classifier = build_text_classifier(
            TypeAdapter(ClassifierConfig).validate_python(CLASSIFIERS[name]),
            vocabulary=VOCABULARY,
            outputs=4,
            longest=20,
        )
        return classifier, lambda: classifier.output(classifier(parts))
    if name in TAGGERS:
        tagger = build_tagger(
            TypeAdapter(TaggerConfig).validate_python(TAGGERS[name]), vocabulary=VOCABULARY, tags=4, longest=20
        )
        return tagger, lambda: tagger.output(tagger(tokens))
    finder = build_span_classifier(EncoderConfig.model_validate(STACK), vocabulary=VOCABULARY, longest=20)
    return finder, lambda: finder.output(finder(parts))


def find_dropouts(model: nn.Module) -> dict[str, Dropout]:
    return {name: each for name, each in model.named_modules() if isinstance(each, Dropout)}


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_each_dropout_alone_changes_the_training_output(name: str) -> None:
    model, read = build_model(name)
    found = find_dropouts(model)
    assert found
    for each in found.values():
        assert each.p == 0.25, "a recipe's dropout is applied everywhere"
        each.p = 0.0
    calm = read()
    torch.testing.assert_close(read(), calm)
    idle = []
    for path, each in found.items():
        each.p = 0.5  # of a hundred entries and more, at least one is dropped
        if torch.allclose(read(), calm):
            idle.append(path)
        each.p = 0.0
    assert idle == IDLE.get(name, [])


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_a_model_in_evaluation_drops_nothing(name: str) -> None:
    model, read = build_model(name)
    for each in find_dropouts(model).values():
        each.p = 0.5
    model.eval()
    used = read()
    for each in find_dropouts(model).values():
        each.p = 0.0
    model.train()
    torch.testing.assert_close(used, read())


STACKED = ("transformer", "transformer-pre_norm", "transformer-shaw", "transformer-additive", "gpt", "bert", "tagger")


def compute_gradients(model: nn.Module, read: Read) -> tuple[dict[str, Tensor], int, int]:
    """Return the gradients of a step, how often layers were called, and the stored numbers outside of checkpoints."""
    calls: list[nn.Module] = []
    stored: list[int] = []
    hooks = [
        layer.register_forward_pre_hook(lambda module, _: calls.append(module))
        for layer in model.modules()
        if isinstance(layer, TransformerLayer)
    ]

    def pack(tensor: Tensor) -> Tensor:
        stored.append(tensor.numel())
        return tensor

    torch.manual_seed(5)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = read()
        sum_stored = sum(stored)
        output.square().sum().backward()
    for hook in hooks:
        hook.remove()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return gradients, len(calls), sum_stored


def set_checkpointing(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, TransformerStack):
            module.gradient_checkpointing = True


@pytest.mark.parametrize("adapter", [None, LoraAdapter(rank=2, alpha=4.0, dropout=0.3)], ids=["all", "lora"])
@pytest.mark.parametrize("name", STACKED)
def test_layers_that_are_computed_again_have_the_same_gradients(name: str, adapter: LoraAdapter | None) -> None:
    """With dropout, and with inputs of layers that need no gradient, as those of a frozen model."""
    model, read = build_model(name)
    if adapter is not None:
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        adapter.attach(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.1 if parameter.requires_grad else 0.0)
    expected, calls, stored = compute_gradients(model, read)
    assert expected
    set_checkpointing(model)
    found, more_calls, less_stored = compute_gradients(model, read)
    assert found.keys() == expected.keys()
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key], rtol=1e-6, atol=1e-7)
    assert more_calls == 2 * calls
    assert less_stored < stored / 2


def test_only_training_computes_layers_again_and_never_watched_ones() -> None:
    model, read = build_model("transformer")
    expected, calls, _ = compute_gradients(model, read)
    set_checkpointing(model)
    with watch_attention(model, detach=False) as weights:
        found, watched_calls, _ = compute_gradients(model, read)
    assert watched_calls == calls
    assert all(len(recorded) == 1 for recorded in weights.values())
    for key, gradient in found.items():
        # fp32 sums in the order of another kernel, whose terms are as large as the largest gradient
        largest = max(1.0, float(expected[key].abs().max()))
        torch.testing.assert_close(gradient, expected[key], rtol=1e-4, atol=1e-5 * largest)
    assert compute_gradients(model.eval(), read)[1] == calls
