"""Fused operators of training, compared with their formulas in double precision: values, gradients, random masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from heedful import fused_operators
from heedful.attention import Dropout, MultiHeadAttention, kernels
from heedful.attention.mask import AttentionMask
from heedful.blocks.feedforward import FeedForward

DTYPES = [torch.float32, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""Relative to the largest number: fp32 sums of a few hundred terms, and three roundings to bf16."""
Function = Callable[..., Tensor]


@pytest.fixture(autouse=True)
def small_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use native code for small tensors too."""
    monkeypatch.setattr(fused_operators, "_MIN_NUMBERS", 0)


def compare(found: Function, expected: Function, operands: Sequence[Tensor], *, dtype: torch.dtype) -> None:
    """Compare values and gradients of two functions; the second one gets the operands in double precision."""
    leaves = [x.to(dtype).detach().requires_grad_() for x in operands]
    exact_leaves = [x.detach().double().requires_grad_() for x in leaves]
    result, exact_result = found(*leaves), expected(*exact_leaves)
    assert result.dtype == dtype
    upstream = torch.randn(result.shape)
    gradients = torch.autograd.grad(result, leaves, upstream.to(dtype))
    exact_gradients = torch.autograd.grad(exact_result, exact_leaves, upstream.to(dtype).double())
    for mine, other in zip((result, *gradients), (exact_result, *exact_gradients), strict=True):
        largest = float(other.detach().abs().max().clamp(min=1))
        torch.testing.assert_close(mine.double(), other, rtol=0, atol=TOLERANCE[dtype] * largest)


def weigh(query: Tensor, key: Tensor, value: Tensor, *, hidden: Tensor | None, factors: Tensor | None) -> Tensor:
    """Compute attention by its formula; queries that see no key get zeros."""
    scores = 0.3 * query @ key.mT
    weights = scores.softmax(-1)
    if hidden is not None:
        weights = scores.masked_fill(hidden, -math.inf).softmax(-1).nan_to_num(0.0)
    return (weights if factors is None else weights * factors) @ value


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("hides", ["nothing", "padding", "a triangle", "at random"])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1, 1), (2, 5, 7, 12, 20), (3, 16, 16, 16, 16), (2, 17, 33, 33, 64), (1, 70, 65, 8, 8)]
)
def test_attention(library: Any, dtype: torch.dtype, dropped: bool, hides: str, sizes: Sequence[int]) -> None:
    rows, queries, keys, width, value_width = sizes
    heads = 3
    shapes = [(rows, queries, heads, width), (rows, keys, heads, width), (rows, keys, heads, value_width)]
    hidden = {
        "nothing": None,
        "padding": (torch.arange(keys) >= torch.randint(1, keys + 1, (rows, 1)))[:, None, None],
        "a triangle": torch.ones(queries, keys, dtype=torch.bool).triu(1)[None, None],
        "at random": torch.rand(rows, 1, queries, keys) < 0.5,
    }[hides]
    factors = 2.0 * (torch.rand(rows, heads, queries, keys) < 0.5) if dropped else None

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        own = None if factors is None else factors.to(dtype)
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        return fused_operators.native_attention(query, key, value=value, scale=0.3, hidden=hidden, factors=own)

    def attend_exactly(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        own = None if factors is None else factors.double()
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        return weigh(query, key, value, hidden=hidden, factors=own)

    compare(attend, attend_exactly, [torch.randn(shape) for shape in shapes], dtype=dtype)


def test_attention_reads_views_and_returns_heads_that_are_concatenated_without_a_copy(library: Any) -> None:
    joint = torch.randn(2, 6, 2 * 3 * 4, requires_grad=True)
    key, value = (part.view(2, 6, 3, 4).transpose(1, 2) for part in joint.split(12, -1))
    query = torch.randn(2, 3, 4, 5).mT.requires_grad_()  # whose vectors are not dense
    found = fused_operators.native_attention(query, key, value=value, scale=0.3, hidden=None, factors=None)
    torch.testing.assert_close(found, weigh(query, key, value, hidden=None, factors=None))
    assert found.transpose(1, 2).flatten(2).data_ptr() == found.data_ptr()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 3, 16), (300, 65)])
def test_layer_norm(library: Any, dtype: torch.dtype, bias: bool, shape: tuple[int, ...]) -> None:
    width = shape[-1]

    def norm(x: Tensor, weight: Tensor, *shift: Tensor) -> Tensor:
        module = fused_operators.LayerNorm(width, eps=1e-3, bias=bias)
        module._parameters.update(weight=weight, **({"bias": shift[0]} if bias else {}))  # type: ignore[arg-type]
        return module(x)

    def norm_exactly(x: Tensor, weight: Tensor, *shift: Tensor) -> Tensor:
        return functional.layer_norm(x, (width,), weight, shift[0] if bias else None, 1e-3)

    operands = [torch.randn(shape) * 3 + 2, torch.randn(width), *([torch.randn(width)] if bias else [])]
    compare(norm, norm_exactly, operands, dtype=dtype)


ACTIVATIONS = {
    "none": None,
    "relu": nn.ReLU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "silu": nn.SiLU(),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 3, 7), (260, 16, 33)])
def test_linear_maps_with_an_activation(
    library: Any, dtype: torch.dtype, bias: bool, name: str, sizes: Sequence[int]
) -> None:
    rows, d_in, d_out = sizes
    activation = ACTIVATIONS[name]

    def apply(x: Tensor, weight: Tensor, *shift: Tensor) -> Tensor:
        linear = nn.Linear(d_in, d_out, bias=bias)
        linear._parameters.update(weight=weight, **({"bias": shift[0]} if bias else {}))  # type: ignore[arg-type]
        return fused_operators.apply_linear(x, linear, activation)

    def apply_exactly(x: Tensor, weight: Tensor, *shift: Tensor) -> Tensor:
        inner = functional.linear(x, weight, *shift)
        return inner if activation is None else activation(inner)

    # numbers of few bits, so that no sum is rounded across the corner of a ReLU
    x, weight = torch.randint(-8, 9, (rows, d_in)) / 8, torch.randint(-8, 9, (d_out, d_in)) / 8
    compare(apply, apply_exactly, [x, weight, *([torch.randint(-8, 9, (d_out,)) / 8] if bias else [])], dtype=dtype)


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
def test_activations_of_large_numbers_and_nan(library: Any, name: str) -> None:
    linear, activation = nn.Linear(1, 1, bias=False), ACTIVATIONS[name]
    assert activation is not None
    nn.init.ones_(linear.weight)
    x = torch.tensor([[-1e4], [-90.0], [-20.0], [20.0], [90.0], [1e4], [math.nan]], requires_grad=True)
    found, expected = fused_operators.apply_linear(x, linear, activation), activation(linear(x))
    torch.testing.assert_close(found, expected, equal_nan=True)
    gradients = (torch.autograd.grad(each[:-1].sum(), x)[0][:-1] for each in (found, expected))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_errors_of_gelu(library: Any, name: str) -> None:
    """The polynomials are within 4e-7 of the factor and of the derivative; the factor multiplies x."""
    x = torch.cat((torch.linspace(-8, 8, 100_001), torch.logspace(-30, 0, 1000), -torch.logspace(-30, 0, 1000)))
    number, activation = library.ACTIVATIONS.index(name), ACTIVATIONS[name]
    assert activation is not None
    found, slopes, ones = torch.empty_like(x), torch.empty_like(x), torch.ones_like(x)
    library.bias_activation(x.data_ptr(), 1, len(x), None, number, found.data_ptr(), False, 1)
    library.bias_activation_backward(
        ones.data_ptr(), x.data_ptr(), 1, len(x), number, slopes.data_ptr(), None, False, 1
    )
    exact = x.double().requires_grad_()
    expected = activation(exact)
    (exact_slopes,) = torch.autograd.grad(expected.sum(), exact)
    assert ((found - expected).abs() <= 4e-7 * exact.abs()).all()
    torch.testing.assert_close(slopes.double(), exact_slopes, rtol=0, atol=5e-7)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_is_not_lost(library: Any, dtype: torch.dtype) -> None:
    heads = torch.ones(1, 1, 3, 4, dtype=dtype, requires_grad=True)
    spoiled = torch.ones(1, 1, 3, 4, dtype=dtype)
    spoiled[0, 0, 1] = math.nan
    spoiled.requires_grad_()
    for operands in ((spoiled, heads, heads), (heads, spoiled, heads), (heads, heads, spoiled)):
        query, key, value = operands
        found = fused_operators.native_attention(query, key, value=value, scale=1.0, hidden=None, factors=None)
        assert found.isnan().any()
    assert fused_operators.LayerNorm(4, dtype=dtype)(spoiled).isnan().any()
    assert fused_operators.drop(spoiled, 0.0).isnan().sum() == 4
    losses, _ = fused_operators.compute_cross_entropy_(
        spoiled.detach()[0, 0].clone(), torch.zeros(3, dtype=torch.int64), confidence=1.0, weights=None,
        overwrite=True,
    )  # fmt: skip
    assert losses.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 7, 16, 1000])
@pytest.mark.parametrize("weighted", [True, False])
def test_cross_entropy(library: Any, dtype: torch.dtype, columns: int, weighted: bool) -> None:
    logits, labels = (torch.randn(5, columns) * 4).to(dtype), torch.randint(columns, (5,))
    weights = torch.rand(5) if weighted else None
    exact = logits.double().log_softmax(-1)
    chosen = logits.gather(1, labels[:, None])[:, 0]
    gradient = exact.exp() - 0.9 * functional.one_hot(labels, columns)
    if weights is not None:
        gradient *= weights[:, None]
    untouched = logits.clone()
    for has_gradient in (False, True):
        log_probs, label_logits = fused_operators.compute_cross_entropy_(
            logits, labels, confidence=0.9, weights=weights, overwrite=has_gradient
        )
        torch.testing.assert_close(log_probs.double(), exact.gather(1, labels[:, None])[:, 0], rtol=1e-5, atol=1e-5)
        assert torch.equal(label_logits, chosen.float())
        torch.testing.assert_close(
            logits.double(), gradient if has_gradient else untouched.double(), rtol=0, atol=TOLERANCE[dtype] / 4
        )


@pytest.mark.parametrize("p", [0.004, 0.1, 0.5, 0.999])
def test_dropout_has_the_masks_of_pytorch(library: Any, p: float) -> None:
    """For all precisions and numbers of threads, so that a seed means the same draws without native code."""
    module = Dropout(p).train()
    torch.manual_seed(4)
    expected = module(torch.ones(100_003))
    for threads in (1, 3):
        torch.set_num_threads(threads)
        for dtype in DTYPES:
            torch.manual_seed(4)
            found = module(torch.ones(100_003, dtype=dtype, requires_grad=True))
            torch.testing.assert_close(found.detach(), expected.to(dtype))
    torch.set_num_threads(1)
    assert 0 < int((expected == 0).sum()) < 100_003


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dropped_residual_and_its_gradients_have_one_mask(library: Any, dtype: torch.dtype) -> None:
    module = Dropout(0.3).train()
    x, branch, weight = (torch.randn(3, 5, 7).to(dtype).requires_grad_() for _ in range(3))
    torch.manual_seed(8)
    fused = module.add_dropped(x, branch)
    torch.manual_seed(8)
    factors = module.draw_factors((3, 5, 7), reference=branch)
    torch.manual_seed(8)
    dropped = module(branch)
    assert factors is not None
    torch.testing.assert_close(dropped, branch * factors)
    torch.testing.assert_close(fused.float(), x + branch.float() * factors, rtol=0, atol=TOLERANCE[dtype])
    d_x, d_branch = torch.autograd.grad(fused, [x, branch], weight)
    assert torch.equal(d_x, weight)
    torch.testing.assert_close(d_branch, weight * factors)
    assert 0 < int((factors == 0).sum()) < factors.numel()
    assert not torch.equal(module(branch), dropped), "each call has a mask of its own"


def build_network(dtype: torch.dtype) -> nn.ModuleDict:
    torch.manual_seed(2)
    return nn.ModuleDict(
        {
            "attention": MultiHeadAttention(16, 2, dropout=0.2),
            "norm": fused_operators.LayerNorm(16),
            "feed_forward": FeedForward(16, 32, activation=nn.GELU(), dropout=0.2),
        }
    ).to(dtype)


def run_network(network: nn.ModuleDict, x: Tensor) -> Tensor:
    positions = torch.arange(x.size(1)).expand(x.size(0), -1)
    mask = AttentionMask(positions, positions, None, None, None)
    attended = network["attention"](x, network["attention"].project_memory(x, x, positions), mask=mask)
    return network["feed_forward"](network["norm"](x + attended))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_network_has_the_gradients_of_pytorch(
    library: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = build_network(dtype).eval()
    x = torch.randn(4, 9, 16).to(dtype).requires_grad_()
    results = []
    for native in (True, False):
        if not native:
            monkeypatch.setattr(fused_operators, "load_library", lambda: None)
        found = run_network(network, x)
        assert found.grad_fn is not None
        assert ("_NativeLinear" in repr(found.grad_fn.next_functions)) == native
        results.append((found, *torch.autograd.grad(found.float().square().sum(), [x, *network.parameters()])))
    for mine, other in zip(*results, strict=True):
        largest = float(other.detach().abs().max())
        torch.testing.assert_close(mine, other, rtol=0, atol=TOLERANCE[dtype] * largest)


def test_a_recomputed_block_draws_the_masks_again(library: Any) -> None:
    network = build_network(torch.float32).train()
    x = torch.randn(4, 9, 16, requires_grad=True)
    results = []
    for recomputes in (False, True):
        torch.manual_seed(6)
        found = checkpoint(run_network, network, x, use_reentrant=False) if recomputes else run_network(network, x)
        results.append((found, *torch.autograd.grad(found.square().sum(), [x, *network.parameters()])))
    for mine, other in zip(*results, strict=True):
        assert torch.equal(mine, other)


def test_results_do_not_depend_on_the_number_of_threads(library: Any) -> None:
    """With enough work to be split."""
    network = build_network(torch.float32).eval()
    x = torch.randn(300, 20, 16, requires_grad=True)
    results = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        heads = x.view(300, 20, 2, 8).transpose(1, 2)
        outputs = (
            network["norm"](x),
            fused_operators.native_attention(heads, heads, value=heads, scale=1.0, hidden=None, factors=None),
            fused_operators._apply(fused_operators._NativeDropout, x, None, 0.0),
        )
        leaves = [x, *network["norm"].parameters()]
        results.append((*outputs, *torch.autograd.grad(sum(out.square().sum() for out in outputs), leaves)))  # type: ignore[arg-type]
        bias = torch.empty(16)
        library.bias_activation_backward(x.data_ptr(), None, 6000, 16, 4, None, bias.data_ptr(), False, threads)
        results[-1] += (bias,)
    torch.set_num_threads(1)
    for mine, other in zip(*results, strict=True):
        assert torch.equal(mine, other)


def test_where_native_code_is_not_used(library: Any) -> None:
    """Without gradients, in double precision, for large bf16 attention, for hooked maps, and while torch traces."""
    x = torch.randn(1, 2, 3, 4, requires_grad=True)
    assert fused_operators.find_training_library(x) is library
    for other in (x.detach(), x.double(), x.to("meta"), torch.empty(0, 4, requires_grad=True)):
        assert fused_operators.find_training_library(other) is None
    with torch.no_grad():
        assert fused_operators.find_training_library(x) is None
    long = torch.zeros(1, 1, 200, 4, requires_grad=True)
    assert kernels.prefer_fused(long, long, 0.0)
    assert not kernels.prefer_fused(x, x, 0.0)
    calls: list[int] = []
    for register in ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"):
        linear = nn.Linear(4, 4)
        getattr(linear, register)(lambda *_: calls.append(1))
        fused_operators.apply_linear(x, linear, nn.ReLU()).sum().backward()
    assert calls == [1, 1, 1]
    torch.testing.assert_close(fused_operators.LayerNorm([3, 4])(x), functional.layer_norm(x, [3, 4]))
    with pytest.raises(RuntimeError):
        fused_operators.LayerNorm(8)(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert fused_operators.find_training_library(x) is None

    class Traced(nn.Module):
        def forward(self, y: Tensor) -> Tensor:
            return fused_operators.drop(y, 0.5) if fused_operators.find_training_library(y) is not None else y * 2

    program = torch.export.export(Traced(), (torch.ones(3, requires_grad=True),))
    assert torch.equal(program.module()(torch.ones(3)), torch.full((3,), 2.0))


def test_a_gradient_of_a_gradient_is_an_error_and_not_zero(library: Any) -> None:
    x = torch.randn(3, 8, requires_grad=True)
    (gradient,) = torch.autograd.grad(fused_operators.LayerNorm(8)(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_labels_of_any_kind_and_labels_without_a_column(library: Any) -> None:
    logits = torch.randn(3, 5)
    table = torch.tensor([[4, 0], [1, 0], [2, 0]], dtype=torch.int32)
    expected = logits.log_softmax(-1).gather(1, table[:, :1].long())[:, 0]
    for labels in (table[:, 0], table[:, 0].long(), table.long()[:, 0]):
        found, _ = fused_operators.compute_cross_entropy_(logits, labels, confidence=1.0, weights=None, overwrite=False)
        torch.testing.assert_close(found, expected)
    for label in (-1, 5):
        with pytest.raises(IndexError, match="logits have 5 columns"):
            fused_operators.compute_cross_entropy_(
                logits, torch.tensor([0, label, 0]), confidence=1.0, weights=None, overwrite=False
            )


def test_results_may_be_changed_in_place(library: Any) -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    heads = x.view(2, 3, 2, 2).transpose(1, 2)
    for found in (
        fused_operators.apply_linear(x, nn.Linear(4, 4)),
        fused_operators.native_attention(heads, heads, value=heads, scale=1.0, hidden=None, factors=None),
        fused_operators.drop(x, 0.5),
    ):
        found.mul_(2).sum().backward(retain_graph=True)
    assert x.grad is not None
