"""Where training starts: Xavier's bounds for matrices, zeros for biases, ones for gains, length 1 for embeddings."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from heedful.attention import MultiHeadAttention
from heedful.blocks.feedforward import FeedForward
from heedful.configs.build import Sizes, build_sequence_to_sequence
from heedful.configs.model import TransformerConfig

D_MODEL, D_FF = 48, 160


def build(**given: object) -> nn.Module:
    config = {"d_model": D_MODEL, "heads": 4, "d_ff": D_FF, "layers": 2, "output_bias": True, **given}
    return build_sequence_to_sequence(TransformerConfig.model_validate(config), Sizes(300, 300, 20))


def matrices(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every matrix that the equations name; keys and values share one tensor but are matrices of their own."""
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
    "given", [{}, {"aggregation": "mean"}, {"shared_key_value": True}], ids=["project", "mean", "W_k = W_v"]
)
def test_matrices_are_uniform_within_xaviers_bounds(given: dict[str, object]) -> None:
    """U(-a, a) with a = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, eq. 16)."""
    found = dict(matrices(build(**given)))
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
    """Then logits of hidden vectors after a norm have a variance of 1, tied or not."""
    model = build(tie=tie)
    for table in (model.encoder.stack.embedding.table, model.decoder.stack.embedding.table, model.output):
        lengths = table.weight.detach().norm(dim=1)
        assert float(lengths.mean()) == pytest.approx(1, abs=0.03)
    hidden = nn.functional.layer_norm(torch.randn(400, D_MODEL), (D_MODEL,))
    assert float(model.output(hidden).detach().var()) == pytest.approx(1, abs=0.1)


def test_layers_start_apart_and_seeds_decide() -> None:
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
