"""Initial weights: Xavier's bounds for matrices, zeros for biases, ones for gains, length 1 for embeddings."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from heedful.architectures.build import DataSizes, build_encoder, build_language_model, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.attention import MultiHeadAttention
from heedful.blocks.feedforward import FeedForward

D_MODEL, D_FF = 48, 160


def build(**given: object) -> nn.Module:
    config = {"d_model": D_MODEL, "heads": 4, "d_ff": D_FF, "layers": 2, "output_bias": True, **given}
    return build_sequence_to_sequence(TransformerConfig.model_validate(config), DataSizes(300, 300, 20))


def find_matrices(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield each matrix of the equations; keys and values share one tensor but are two matrices."""
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            yield f"{name} W_q", module.query.weight
            cut = module.heads * module.d_k
            yield f"{name} W_k", module.key_value.weight[:cut]
            if not module.shared_key_value:
                yield f"{name} W_v", module.key_value.weight[cut:]
            if hasattr(module.aggregation, "output"):
                yield f"{name} W_O", module.aggregation.output.weight
        elif isinstance(module, FeedForward):
            yield f"{name} W_1", module.inner.weight
            yield f"{name} W_2", module.outer.weight


@pytest.mark.parametrize(
    "given",
    [{}, {"aggregation": "mean"}, {"shared_key_value": True}, {"aggregation": "mean", "shared_key_value": True}],
    ids=["project", "mean", "W_k = W_v", "mean with W_k = W_v"],
)
def test_matrices_are_uniform_within_xaviers_bounds(given: dict[str, object]) -> None:
    """U(-a, a) with a = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, eq. 16)."""
    found = dict(find_matrices(build(**given)))
    each = 4 - ("aggregation" in given) - ("shared_key_value" in given)
    assert len(found) == 6 * each + 4 * 2, "two layers on each side have six attentions and four networks"
    for name, matrix in found.items():
        bound = math.sqrt(6 / sum(matrix.shape))
        assert 0.98 * bound < float(matrix.detach().abs().max()) <= bound, name
        assert float(matrix.detach().mean()) == pytest.approx(0, abs=5 * bound / math.sqrt(3 * matrix.numel())), name
        assert float(matrix.detach().var()) == pytest.approx(bound**2 / 3, rel=0.1), name


def test_biases_are_zeros_and_gains_ones() -> None:
    model = build(residual="pre_norm")
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 2 * 3 + 2
    for norm in norms:
        assert torch.equal(norm.weight, torch.ones(D_MODEL))
        assert torch.equal(norm.bias, torch.zeros(D_MODEL))
    biases = {n: p for n, p in model.named_parameters() if n.endswith("bias")}
    assert len(biases) == 2 * (3 + 2 + 2) + 2 * (3 + 3 + 2 + 3) + 2 + 1
    for name, bias in biases.items():
        assert not bias.any(), name


@pytest.mark.parametrize("tie", ["three_way", "two_way", "none"])
def test_tables_have_rows_of_length_one(tie: str) -> None:
    """So logits of normalised hidden vectors have variance 1, with and without tied embeddings."""
    model = build(tie=tie)
    for table in (model.encoder.stack.embedding.table, model.decoder.stack.embedding.table, model.output):
        lengths = table.weight.detach().norm(dim=1)
        assert float(lengths.mean()) == pytest.approx(1, abs=0.03)
    hidden = nn.functional.layer_norm(torch.randn(400, D_MODEL), (D_MODEL,))
    assert float(model.output(hidden).detach().var()) == pytest.approx(1, abs=0.1)


def test_layers_start_with_different_weights_that_depend_on_the_seed() -> None:
    torch.manual_seed(5)
    first = build()
    again = build()
    torch.manual_seed(5)
    same = build()
    values = [p.detach().flatten()[:20] for n, p in first.named_parameters() if n.endswith("weight") and p.dim() > 1]
    for i, one in enumerate(values):
        assert all(not torch.equal(one, other) for other in values[:i])
    for (name, one), other, third in zip(first.named_parameters(), same.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other), name
        assert one.dim() < 2 or not torch.equal(one, third), name


def _build_gpt(layers: int, **given: object) -> nn.Module:
    config = DecoderConfig.model_validate({"d_model": 64, "heads": 4, "layers": layers, **given})
    return build_language_model(config, vocabulary=300)


@pytest.mark.parametrize("layers", [2, 8])
def test_gpt2_starts_small_and_its_sublayers_sum_to_one(layers: int) -> None:
    """N(0, 0.02), and W_O and W_2 with 0.02 / sqrt(2 L) (Radford et al. 2019, 2.3)."""
    found = dict(_build_gpt(layers, output_bias=True).named_parameters())
    joining = [name for name in found if name.endswith(("aggregation.output.weight", "feed_forward.outer.weight"))]
    assert len(joining) == 2 * layers
    for name, parameter in found.items():
        values = parameter.detach()
        if name.endswith("bias"):
            assert not values.any(), name
        elif values.dim() == 1:
            assert (values == 1).all(), name
        else:
            deviation = 0.02 / math.sqrt(2 * layers) if name in joining else 0.02
            assert float(values.std()) == pytest.approx(deviation, rel=0.05), name
            assert float(values.mean()) == pytest.approx(0, abs=5 * deviation / math.sqrt(values.numel())), name
            assert float(values.abs().max()) > 2.5 * deviation, f"{name} is truncated"


def test_bert_starts_with_numbers_within_two_deviations() -> None:
    config = EncoderConfig.model_validate({"d_model": 64, "heads": 4, "layers": 2})
    encoder = build_encoder(config, vocabulary=300)
    names = {name for name, parameter in encoder.named_parameters() if parameter.dim() > 1}
    assert {f"stack.embedding.{name}.weight" for name in ("table", "position.table", "segments")} <= names
    for name, parameter in encoder.named_parameters():
        values = parameter.detach()
        if values.dim() > 1:
            assert float(values.abs().max()) <= 0.04, name
            # a normal distribution truncated at two deviations has 0.88 of its deviation
            assert float(values.std()) == pytest.approx(0.02 * 0.8796, rel=0.15 if values.numel() < 1000 else 0.05), (
                name
            )
        else:
            assert (values == (0 if name.endswith("bias") else 1)).all(), name


def test_xavier_does_not_change_special_modules() -> None:
    found = dict(find_matrices(_build_gpt(2, initialisation="xavier")))
    assert len(found) == 2 * 6
    for name, matrix in found.items():
        assert float(matrix.detach().abs().max()) > 0.9 * math.sqrt(6 / sum(matrix.shape)), name
