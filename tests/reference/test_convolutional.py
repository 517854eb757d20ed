"""The equations of Gehring et al. 2017, token by token and number by number."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.architectures.build import DataSizes, build_convolutional_model
from heedful.architectures.model import ConvolutionalConfig
from heedful.inspection.capture import watch_attention
from heedful.models.convolutional import ConvolutionalEncoder
from heedful.tensors import Tokens

Vector = list[float]
VOCABULARY, D_MODEL, D_HIDDEN = 7, 3, 4
SOURCES, TARGETS = [[3, 5, 4, 6, 2], [5, 2], [6, 3, 2]], [[1, 4, 3, 6], [1, 5, 5, 3], [1, 3]]


def build(**given: Any) -> Any:
    table = {"d_model": D_MODEL, "d_hidden": D_HIDDEN, "layers": 2, "positions_length": 12, **given}
    return build_convolutional_model(ConvolutionalConfig.model_validate(table), DataSizes(VOCABULARY, VOCABULARY, 10))


def batch(sentences: list[list[int]]) -> Tokens:
    """Build rows with padding before, after and between tokens; the padding has the id of a word."""
    longest = max(map(len, sentences)) + 2
    ids = torch.full((len(sentences), longest), 4)
    positions = torch.full_like(ids, -1)
    for row, sentence in enumerate(sentences):
        columns = torch.randperm(longest)[: len(sentence)].sort().values
        ids[row, columns] = torch.tensor(sentence)
        positions[row, columns] = torch.arange(len(sentence))
    return Tokens(ids, positions)


def apply_linear(module: nn.Module, x: Vector) -> Vector:
    return [
        sum(w * e for w, e in zip(row, x, strict=True)) + b
        for row, b in zip(module.weight.tolist(), module.bias.tolist(), strict=True)
    ]


def apply_gate(module: nn.Module, entries: list[Vector]) -> Vector:
    both = apply_linear(module, [number for entry in entries for number in entry])
    half = len(both) // 2
    return [a / (1 + math.exp(-b)) for a, b in zip(both[:half], both[half:], strict=True)]


def add_vectors(x: Vector, y: Vector, factor: float = 1.0) -> Vector:
    return [(a + b) * factor for a, b in zip(x, y, strict=True)]


def embed_words(embedding: nn.Module, sentence: list[int]) -> list[Vector]:
    table, places = embedding.table.weight.tolist(), embedding.position.table.weight.tolist()
    return [add_vectors(table[word], places[at]) for at, word in enumerate(sentence)]


def take_window(line: list[Vector], at: int, *, offsets: list[int]) -> list[Vector]:
    return [line[at + o] if 0 <= at + o < len(line) else [0.0] * len(line[0]) for o in offsets]


def encode_sentence(encoder: Any, sentence: list[int], dilations: list[int]) -> tuple[list[Vector], list[Vector]]:
    """Return z, and z + e."""
    e = embed_words(encoder.embedding, sentence)
    line = [apply_linear(encoder.inward, x) for x in e]
    for layer, hole in zip(encoder.layers, dilations, strict=True):
        new = [
            apply_gate(layer.gated.linear, take_window(line, at, offsets=[-hole, 0, hole])) for at in range(len(line))
        ]
        line = [add_vectors(x, y, math.sqrt(0.5)) for x, y in zip(line, new, strict=True)]
    z = [apply_linear(encoder.outward, x) for x in line]
    return z, [add_vectors(a, b) for a, b in zip(z, e, strict=True)]


def decode_sentence(
    decoder: Any, sentence: list[int], memory: tuple[list[Vector], list[Vector]], dilations: list[int]
) -> tuple[list[Vector], list[list[Vector]]]:
    """Return hidden vectors, and the attention weights of each layer."""
    keys, values = memory
    g = embed_words(decoder.embedding, sentence)
    line, weights = [apply_linear(decoder.inward, x) for x in g], []
    for layer, hole in zip(decoder.layers, dilations, strict=True):
        taps = [-2 * hole, -hole, 0]
        convolved = [
            apply_gate(layer.convolution.gated.linear, take_window(line, at, offsets=taps)) for at in range(len(line))
        ]
        rows, result = [], []
        for at, h in enumerate(convolved):
            d = add_vectors(apply_linear(layer.query, h), g[at])
            scores = [math.exp(sum(a * b for a, b in zip(d, z, strict=True))) for z in keys]
            row = [score / sum(scores) for score in scores]
            m = len(keys)
            c = [m * math.sqrt(1 / m) * sum(a * v[i] for a, v in zip(row, values, strict=True)) for i in range(D_MODEL)]
            looked = add_vectors(h, apply_linear(layer.context, c), math.sqrt(0.5))
            result.append(add_vectors(line[at], looked, math.sqrt(0.5)))
            rows.append(row)
        line = result
        weights.append(rows)
    return [apply_linear(decoder.outward, x) for x in line], weights


def randomize_weights(model: Any) -> Any:
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize(
    ("given", "dilations"),
    [({}, [1, 1]), ({"dilation": 2}, [1, 2]), ({"weight_norm": False, "tie": "none"}, [1, 1])],
    ids=["paper", "dilated", "plain"],
)
def test_the_whole_model(given: dict[str, Any], dilations: list[int]) -> None:
    model = randomize_weights(build(**given))
    source, target = batch(SOURCES), batch(TARGETS)
    memory = model.encoder(source)
    with watch_attention(model) as seen:
        hidden, _ = model.decoder(target, model.decoder.init_state(memory))
    assert list(seen) == ["decoder.layers.0.across", "decoder.layers.1.across"]
    for row, (sentence, reply) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        read, written = source.positions[row] >= 0, target.positions[row] >= 0
        z, values = encode_sentence(model.encoder, sentence, dilations)
        torch.testing.assert_close(memory.keys[row, read], torch.tensor(z))
        torch.testing.assert_close(memory.values[row, read], torch.tensor(values))
        torch.testing.assert_close(memory.summary[row], torch.tensor(z).mean(0))
        expected, weights = decode_sentence(model.decoder, reply, (z, values), dilations)
        torch.testing.assert_close(hidden[row, written], torch.tensor(expected))
        for found, rows in zip(seen.values(), weights, strict=True):
            torch.testing.assert_close(found[0][row][written][:, read], torch.tensor(rows))
            assert not found[0][row][:, ~read].any()


@torch.no_grad()
def test_logits_are_the_output_of_the_hidden_vectors() -> None:
    model = randomize_weights(build(tie="two_way"))
    source, target = batch(SOURCES), batch(TARGETS)
    hidden = model(source, target)
    logits, _ = model.step(target, model.init_state(source))
    table = model.decoder.embedding.table.weight
    torch.testing.assert_close(logits, hidden @ table.T + model.output.bias)
    assert model.encoder.embedding.table is not model.decoder.embedding.table


def test_weights_start_as_in_the_paper() -> None:
    """Section 3.5: N(0, 0.1) for tables, N(0, sqrt(4 p / n)) before a gate, else N(0, sqrt(p / n)); p = 1 - dropout."""
    keep, d_model, d_hidden, k = 0.75, 60, 80, 5
    model = build(
        d_model=d_model, d_hidden=d_hidden, kernel_width=k, dropout=1 - keep, tie="none", positions_length=300
    )
    tables = (model.encoder.embedding, model.decoder.embedding)
    expected = {
        **{f"{i} table": (each.table.weight, 0.1) for i, each in enumerate(tables)},
        **{f"{i} positions": (each.position.table.weight, 0.1) for i, each in enumerate(tables)},
        "output": (model.output.weight, math.sqrt(keep / d_model)),
    }
    gates = [layer.gated for layer in model.encoder.layers]
    gates += [layer.convolution.gated for layer in model.decoder.layers]
    for i, gate in enumerate(gates):
        assert gate.linear.weight.shape == (2 * d_hidden, k * d_hidden)
        expected[f"gate {i}"] = (gate.linear.weight, math.sqrt(4 * keep / (k * d_hidden)))
    for i, part in enumerate((model.encoder, model.decoder)):
        expected[f"{i} inward"] = (part.inward.weight, math.sqrt(keep / d_model))
        expected[f"{i} outward"] = (part.outward.weight, math.sqrt(1 / d_hidden))
    for i, layer in enumerate(model.decoder.layers):
        expected[f"query {i}"] = (layer.query.weight, math.sqrt(1 / d_hidden))
        expected[f"context {i}"] = (layer.context.weight, math.sqrt(1 / d_model))
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(expected) == 4 + len(linears), "every map is checked"
    for name, (weight, std) in expected.items():
        values = weight.detach().flatten()
        assert float(values.mean()) == pytest.approx(0, abs=5 * std / math.sqrt(len(values))), name
        assert float(values.std()) == pytest.approx(std, abs=5 * std / math.sqrt(2 * len(values))), name
    assert not any(module.bias.any() for module in linears)


def test_a_gate_keeps_the_variance_of_its_input() -> None:
    """The reason for the factor 4 (3.5): the variance of small inputs does not change, with and without dropout."""
    for dropout in (0.0, 0.5):
        model = build(d_model=64, d_hidden=64, kernel_width=5, dropout=dropout)
        layer = model.encoder.layers[0].train()
        x = 0.1 * torch.randn(20, 30, 64)
        middle = layer.gated(layer.dropout(x))
        assert float(middle.detach().var() / x.var()) == pytest.approx(1, rel=0.15)


@torch.no_grad()
def test_weight_norm_splits_length_and_direction() -> None:
    """w = g v / |v| (Salimans and Kingma 2016, eq. 2) for all maps except the output; it starts as the plain weight."""
    torch.manual_seed(3)
    plain = build(weight_norm=False)
    torch.manual_seed(3)
    normed = build()
    paths = dict(normed.named_modules())
    for name, module in plain.named_modules():
        if isinstance(module, nn.Linear):
            torch.testing.assert_close(paths[name].weight, module.weight, msg=name)
            assert hasattr(paths[name], "parametrizations") == (name != "output"), name
    linear = normed.encoder.layers[0].gated.linear
    parts = dict(linear.parametrizations.weight.named_parameters())
    length, direction = parts["original0"], parts["original1"]
    nn.init.normal_(direction)
    nn.init.normal_(length)
    for row in range(len(direction)):
        v = direction[row].tolist()
        expected = [float(length[row]) * entry / math.sqrt(sum(e * e for e in v)) for entry in v]
        torch.testing.assert_close(linear.weight[row], torch.tensor(expected))


def test_the_convolutions_get_a_share_of_the_gradient_and_embeddings_all() -> None:
    """Section 3.4: gradients are scaled by 1 / (2 * attentions) above the convolutions, so e alone is not scaled."""
    model = randomize_weights(build(decoder_layers=3, embedding_dropout=0.0))
    assert model.encoder.gradient_scale == pytest.approx(1 / 6)
    layers = list(model.encoder.layers)
    whole = ConvolutionalEncoder(model.encoder.embedding, layers)
    whole.load_state_dict(model.encoder.state_dict(), strict=False)
    whole.inward, whole.outward = model.encoder.inward, model.encoder.outward
    source, upstream = batch(SOURCES), torch.randn(3, 7, D_MODEL)
    convolutions = [p for n, p in whole.named_parameters() if not n.startswith("embedding")]
    tables = list(whole.embedding.parameters())

    def compute_gradients(of: Tensor, parameters: list[Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad((of * upstream).sum(), parameters, retain_graph=True)

    model.encoder.training = True  # its layers do not change and drop nothing
    share, all_of_it = model.encoder(source), whole(source)
    for found, expected in zip(
        compute_gradients(share.values, convolutions), compute_gradients(all_of_it.values, convolutions), strict=True
    ):
        assert expected.abs().max() > 1e-6
        torch.testing.assert_close(found, expected / 6)
    through, around = (
        compute_gradients(all_of_it.keys, tables),
        compute_gradients(all_of_it.values - all_of_it.keys, tables),
    )
    for found, z, e in zip(compute_gradients(share.values, tables), through, around, strict=True):
        torch.testing.assert_close(found, z / 6 + e)


@pytest.mark.parametrize("given", [{}, {"dilation": 3, "kernel_width": 5, "weight_norm": False}])
def test_gradients_equal_finite_differences(given: dict[str, Any]) -> None:
    model = randomize_weights(build(**given))
    model.encoder.gradient_scale = 1.0
    source, target = batch(SOURCES), batch(TARGETS)
    upstream = torch.randn(3, 6, D_MODEL) * (target.positions >= 0).unsqueeze(-1)
    parameters = list(model.parameters())

    def compute_value() -> Tensor:
        return (model(source, target) * upstream).sum()

    found = torch.autograd.grad(compute_value(), parameters, allow_unused=True)
    assert [p is model.output.bias for p, g in zip(parameters, found, strict=True) if g is None] == [True]
    with torch.no_grad():
        for parameter, gradient in zip(parameters, found, strict=True):
            if gradient is None:
                continue
            assert gradient.isfinite().all()
            direction = torch.randn_like(parameter)
            parameter.add_(direction, alpha=1e-5)
            above = compute_value()
            parameter.add_(direction, alpha=-2e-5)
            below = compute_value()
            parameter.add_(direction, alpha=1e-5)
            torch.testing.assert_close((above - below) / 2e-5, (gradient * direction).sum(), rtol=1e-5, atol=1e-7)
