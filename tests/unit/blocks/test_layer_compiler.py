"""Compiled layers compute what plain ones do, as one graph for batches of any shape, and only in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from heedful.adapters.adapter import BottleneckAdapter, LoraAdapter
from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.attention.hooks import HookPoint, intercept_weights
from heedful.attention.mask_functions import SlidingWindow
from heedful.blocks.layer_compiler import LayerCompiler, supports_isolated_recompiles
from heedful.blocks.transformer import TransformerStack
from heedful.tensors import Memory, Tokens

# Warnings of PyTorch about its own compiler, which users do not see.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
needs_compiler = pytest.mark.skipif(not supports_isolated_recompiles(), reason="needs PyTorch 2.13")
CPU = torch.device("cpu")
SIZES = {"d_model": 16, "heads": 4, "d_ff": 24, "layers": 2, "dropout": 0.0}
MODERN = {
    "residual": "pre_norm",
    "norm": "rms",
    "gated": True,
    "activation": "silu",
    "bias": False,
    "key_value_heads": 2,
    "positions": {"kind": "rotary"},
}
SHAPES = ((4, 4, 4), (3, 5, 7), (5, 6, 3), (2, 3, 9))
"""Rows, slots of the memory, and tokens; all equal first, which must not be taken for a rule."""


class CountingBackend:
    """A backend that keeps the graphs, and runs them with a backend of PyTorch, or as they are."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.graphs: list[GraphModule] = []

    def __call__(self, graph: GraphModule, inputs: Sequence[Tensor]) -> Any:
        self.graphs.append(graph)
        if self.name is None:
            return graph.forward
        from torch._dynamo.backends.registry import lookup_backend

        return lookup_backend(self.name)(graph, list(inputs))


@dataclass(frozen=True)
class Batch:
    """What a decoder reads, and the weights of its loss."""

    tokens: Tokens
    memory: Memory
    factors: Tensor


def build_decoder(more: Mapping[str, Any] | None = None) -> nn.Module:
    config = TransformerConfig.model_validate({**SIZES, **(more or {})})
    return build_sequence_to_sequence(config, DataSizes(9, 9, 400)).decoder


def build_positions(rows: int, length: int) -> Tensor:
    """Build positions of texts of which each but the last is one token longer than the next; some have none."""
    positions = torch.arange(length).repeat(rows, 1)
    return positions.where(positions + torch.arange(rows).unsqueeze(1) < length, -1)


def build_batch(rows: int, slots: int, length: int) -> Batch:
    memory = torch.randn(rows, slots, SIZES["d_model"])
    tokens = Tokens(torch.randint(9, (rows, length)), build_positions(rows, length))
    factors = torch.randn(rows, length, SIZES["d_model"]) * (tokens.positions >= 0).unsqueeze(-1)
    return Batch(tokens, Memory(memory, memory, build_positions(rows, slots), memory[:, 0]), factors)


def compute_losses(decoder: nn.Module, batches: Sequence[Batch]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of each batch and the gradients of all together."""
    decoder.zero_grad()
    losses = []
    for batch in batches:
        torch.default_generator.manual_seed(3)
        hidden, _ = decoder(batch.tokens, decoder.init_state(batch.memory))
        loss = (hidden * batch.factors).sum()
        loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses), {
        name: parameter.grad.clone() for name, parameter in decoder.named_parameters() if parameter.grad is not None
    }


def find_stack(decoder: nn.Module) -> TransformerStack:
    (stack,) = (module for module in decoder.modules() if isinstance(module, TransformerStack))
    return stack


def require_same(found: tuple[Tensor, dict[str, Tensor]], expected: tuple[Tensor, dict[str, Tensor]]) -> None:
    """Compare losses and gradients in fp32, whose sums have another order in compiled code."""
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-4)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in found[1].items():
        torch.testing.assert_close(gradient, expected[1][name], rtol=1e-4, atol=1e-4, msg=lambda text, n=name: n + text)


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"residual": "pre_norm"},
    "batch norm": {"norm": "batch"},
    "normalised heads": {"query_key_norm": True},
    "alibi": {"positions": {"kind": "alibi"}},
    "buckets": {"positions": {"kind": "buckets"}},
    "shaw": {"positions": {"kind": "shaw"}},
    "additive scores": {"self_attention": {"score": "additive"}, "cross_attention": {"score": "additive"}},
    "one way": {"self_attention": {"weights": "straight_through"}},
}
SLOW_VARIANTS = [pytest.param(more, marks=pytest.mark.slow, id=name) for name, more in VARIANTS.items()]


@needs_compiler
@pytest.mark.parametrize("more", [pytest.param(MODERN, id="modern"), *SLOW_VARIANTS])
def test_one_graph_computes_all_layers_and_batches(unchecked: None, more: Mapping[str, Any]) -> None:
    """Causal self-attention and cross-attention, with padding, and rows without tokens."""
    decoder, batches = build_decoder(more), [build_batch(*shape) for shape in SHAPES]
    expected, backend = compute_losses(decoder, batches), CountingBackend()
    names = list(decoder.state_dict())
    find_stack(decoder).compiler = LayerCompiler(backend, device=CPU)
    require_same(compute_losses(decoder, batches), expected)
    assert len(backend.graphs) == 1
    assert list(decoder.state_dict()) == names


@needs_compiler
@pytest.mark.slow
def test_one_row_has_a_graph_of_its_own(unchecked: None) -> None:
    decoder, backend = build_decoder(), CountingBackend()
    find_stack(decoder).compiler = LayerCompiler(backend, device=CPU)
    for shape in ((3, 4, 5), (1, 4, 5), (1, 6, 3), (2, 2, 2)):
        compute_losses(decoder, [build_batch(*shape)])
    assert len(backend.graphs) == 2


@needs_compiler
@pytest.mark.slow
def test_long_texts_stay_in_bands(unchecked: None) -> None:
    decoder = build_decoder()
    find_stack(decoder).visibility = SlidingWindow(3, 0)
    batches, backend = [build_batch(2, 3, length) for length in (260, 300, 5)], CountingBackend()
    expected = compute_losses(decoder, batches)
    find_stack(decoder).compiler = LayerCompiler(backend, device=CPU)
    require_same(compute_losses(decoder, batches), expected)
    assert len(backend.graphs) == 2, "one for bands, one for short texts"


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("adapter", [LoraAdapter(rank=2, alpha=4.0, targets=("query", "value")), BottleneckAdapter(4)])
def test_adapted_layers_are_compiled(unchecked: None, adapter: LoraAdapter | BottleneckAdapter) -> None:
    """The first layer reads what needs no gradient, so it has a graph of its own."""
    decoder, batches = build_decoder(), [build_batch(*shape) for shape in SHAPES]
    decoder.requires_grad_(False)
    adapter.attach(decoder)
    expected, backend = compute_losses(decoder, batches), CountingBackend()
    find_stack(decoder).compiler = LayerCompiler(backend, device=CPU)
    require_same(compute_losses(decoder, batches), expected)
    assert len(backend.graphs) == 2


@needs_compiler
@pytest.mark.slow
def test_layers_that_are_computed_again_drop_the_same(unchecked: None) -> None:
    """Also in compiled code, whose random numbers are drawn by PyTorch's own dropout."""
    decoder, batches = build_decoder({"dropout": 0.3, "attention_dropout": 0.2}), [build_batch(3, 4, 5)]
    find_stack(decoder).compiler = LayerCompiler(CountingBackend("aot_eager"), device=CPU)
    expected = compute_losses(decoder, batches)
    find_stack(decoder).gradient_checkpointing = True
    require_same(compute_losses(decoder, batches), expected)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_inductor_computes_the_same(unchecked: None, dropout: float) -> None:
    """With dropout other numbers than without a compiler, but the same ones each time."""
    decoder = build_decoder({**MODERN, "dropout": dropout, "attention_dropout": dropout})
    batches = [build_batch(*shape) for shape in SHAPES]
    expected = compute_losses(decoder, batches)
    find_stack(decoder).compiler = LayerCompiler(device=CPU)
    found = compute_losses(decoder, batches)
    require_same(compute_losses(decoder, batches), found)
    if dropout:
        assert all(map(torch.isfinite, found[0]))
        assert not torch.allclose(found[0], expected[0])
    else:
        require_same(found, expected)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """The layers that a compiler was asked to compute; it computes them as they are."""
    layers: list[nn.Module] = []

    def run(_compiler: LayerCompiler, layer: Any, *arguments: Any, **more: Any) -> Any:
        layers.append(layer)
        return layer.compute(*arguments, **more)

    monkeypatch.setattr(LayerCompiler, "run", run)
    return layers


@pytest.fixture
def decoder(calls: list[nn.Module]) -> nn.Module:
    decoder = build_decoder()
    find_stack(decoder).compiler = LayerCompiler.__new__(LayerCompiler)
    return decoder


def test_training_is_compiled(decoder: nn.Module, calls: list[nn.Module]) -> None:
    compute_losses(decoder, [build_batch(2, 3, 4)])
    assert len(calls) == SIZES["layers"]


def test_evaluation_is_not_compiled(decoder: nn.Module, calls: list[nn.Module]) -> None:
    batch = build_batch(2, 3, 4)
    with torch.no_grad():
        decoder(batch.tokens, decoder.init_state(batch.memory))
    decoder.eval()
    decoder(batch.tokens, decoder.init_state(batch.memory))
    assert not calls


@pytest.mark.parametrize("shape", [(2, 1, 4), (2, 3, 1)])
def test_single_tokens_are_not_compiled(
    decoder: nn.Module, calls: list[nn.Module], shape: tuple[int, int, int]
) -> None:
    compute_losses(decoder, [build_batch(*shape)])
    assert not calls


def test_hooks_see_what_they_would_see_without_a_compiler(decoder: nn.Module, calls: list[nn.Module]) -> None:
    batches = [build_batch(2, 3, 4)]
    probe = next(module for module in decoder.modules() if isinstance(module, HookPoint))
    seen: list[Tensor] = []
    with intercept_weights({probe: seen.append}):
        compute_losses(decoder, batches)
    handle = probe.register_forward_hook(lambda _module, _inputs, weights: seen.append(weights))
    compute_losses(decoder, batches)
    assert not calls
    assert len(seen) == 2
    handle.remove()
    compute_losses(decoder, batches)
    assert len(calls) == SIZES["layers"]


def test_hooks_of_a_whole_layer_do_not_matter(decoder: nn.Module, calls: list[nn.Module]) -> None:
    """They are called outside of compiled code, like those that gather the parts of parameters."""
    stack, seen = find_stack(decoder), list[nn.Module]()
    stack.layers[0].register_forward_hook(lambda module, _inputs, _output: seen.append(module))
    compute_losses(decoder, [build_batch(2, 3, 4)])
    assert seen == [stack.layers[0]]
    assert len(calls) == SIZES["layers"]
