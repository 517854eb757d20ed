"""The layers of Vaswani et al. 2017, table 1, built from heedful's modules, and the dependencies of their outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import torch
from torch import Tensor, nn

from heedful.attention import (
    CacheLayout,
    ConcatAggregation,
    MaskFunction,
    MultiHeadAttention,
    bidirectional,
    sliding_window,
)
from heedful.blocks.convolution import CausalConvolution, CentredConvolution, PackedTokens
from heedful.blocks.recurrent import CellState, Elman, UnidirectionalLayer

HEAD = 64
"""d_k; wider layers have more heads, as in the paper."""


@dataclass(frozen=True)
class Theory:
    """The theoretical costs of a layer in the table.

    Attributes:
        time: exponents of n and d.
        memory: exponents of n and d.
        sequential: exponent of n in the number of sequential operations.
        path: exponent of n in the path length; None if the path length is logarithmic in n.
        notation: complexity, sequential operations and path length as the table writes them.
    """

    time: tuple[float, float]
    memory: tuple[float, float]
    sequential: float
    path: float | None
    notation: tuple[str, str, str]


class Layer(ABC):
    """One row of the table."""

    theory: Theory

    @abstractmethod
    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """Build a layer that maps [B, n, d] to [B, n, d]."""

    def iter_hops(self, n: int, d: int) -> Iterator[Tensor]:
        """Yield for each layer of a stack, from the first, which outputs depend on which inputs, [n, n]."""
        return repeat(find_dependencies(self.build(d), n, d))

    def find_required_pairs(self, n: int, d: int) -> Tensor:
        """Return the pairs of positions that a path must connect; by default all."""
        return torch.ones(n, n, dtype=torch.bool)


class _AttentionWithoutMaps(nn.Module):
    """Attention without the position-wise maps W_q, W_k, W_v and W_o, which the table does not count either."""

    def __init__(self, d: int, visibility: MaskFunction, *, form_weights: bool) -> None:
        super().__init__()
        heads = max(1, d // HEAD)
        self.attention = MultiHeadAttention(d, heads, shared_key_value=True, aggregation=ConcatAggregation())
        self.attention.query = self.attention.key_value = nn.Identity()  # type: ignore[assignment]  # no maps at all
        self.visibility = visibility
        if form_weights:
            self.attention.probe.register_forward_hook(lambda *_: None)  # a hook makes the module compute the weights

    def forward(self, x: Tensor) -> Tensor:
        indices = build_positions(x)
        mask = CacheLayout(indices).build_mask(indices, self.visibility)
        result: Tensor = self.attention(x, self.attention.project_memory(x, x, indices), mask=mask)
        return result


@dataclass(frozen=True)
class SelfAttention(Layer):
    """Self-attention to all tokens, by the fused kernel or by products that compute the weights explicitly."""

    form_weights: bool = False

    @property
    def theory(self) -> Theory:  # type: ignore[override]  # depends on the kernel
        """Theoretical costs; memory is quadratic in n if the weights are computed explicitly."""
        memory = (2.0, 1.0) if self.form_weights else (1.0, 1.0)
        return Theory((2, 1), memory, 0, 0, ("n² d", "1", "1"))

    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """See `Layer.build`."""
        return _AttentionWithoutMaps(d, bidirectional, form_weights=self.form_weights)


@dataclass(frozen=True)
class RestrictedAttention(Layer):
    """Self-attention in a window around each token."""

    reach: int
    """r / 2, the number of tokens on each side"""
    theory = Theory((1, 1), (1, 1), 0, 1, ("r n d", "1", "n / r"))

    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """See `Layer.build`."""
        return _AttentionWithoutMaps(d, sliding_window(self.reach, self.reach), form_weights=False)


class _RecurrentLayer(nn.Module):
    """Recurrent layer that can also compute a single step."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.layer = UnidirectionalLayer(Elman(d, d))

    def forward(self, x: Tensor) -> Tensor:
        return self.step(x, self.layer.init_state(len(x), x))[0]

    def step(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        result: tuple[Tensor, CellState] = self.layer(x, state, positions=build_positions(x))
        return result


class RecurrentNetwork(Layer):
    """Elman's network, from left to right."""

    theory = Theory((1, 2), (1, 1), 1, 1, ("n d²", "n", "n"))

    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """See `Layer.build`."""
        return _RecurrentLayer(d)

    def iter_hops(self, n: int, d: int) -> Iterator[Tensor]:
        """Yield the hop from each word to the state at its position, then hops from each state to the next."""
        layer = self.build(d)
        assert isinstance(layer, _RecurrentLayer)
        word_to_state, state_to_state = (torch.zeros(n, n, dtype=torch.bool) for _ in range(2))
        state = layer.layer.init_state(1, torch.zeros(1, 1, d))
        for t, x in enumerate(torch.randn(n, 1, 1, d)):
            previous = state[0].detach().requires_grad_()
            word = x.requires_grad_()
            y, state = layer.step(word, (previous,))
            word_gradient, state_gradient = torch.autograd.grad((y * torch.randn_like(y)).sum(), (word, previous))
            word_to_state[t, t] = bool(word_gradient.any())
            if t > 0:
                state_to_state[t, t - 1] = bool(state_gradient.any())
        return chain([word_to_state], repeat(state_to_state))

    def find_required_pairs(self, n: int, d: int) -> Tensor:
        """Return the pairs of a position and those up to it, because the layer reads from left to right."""
        return find_dependencies(self.build(d), n, d)


class _CentredLayer(nn.Module):
    """Convolution over windows around each token."""

    def __init__(self, d: int, width: int) -> None:
        super().__init__()
        self.layer = CentredConvolution(d, width)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x, PackedTokens.from_positions(build_positions(x)))
        return result


class _CausalLayer(nn.Module):
    """Dilated convolution over earlier tokens."""

    def __init__(self, d: int, width: int, dilation: int) -> None:
        super().__init__()
        self.layer = CausalConvolution(d, width, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(
            x, self.layer.init_state(len(x), reference=x), packed=PackedTokens.from_positions(build_positions(x))
        )[0]
        return result


@dataclass(frozen=True)
class Convolution(Layer):
    """Convolution over windows of `width` tokens."""

    width: int = 3
    theory = Theory((1, 2), (1, 1), 0, 1, ("k n d²", "1", "n / k"))

    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """See `Layer.build`."""
        return _CentredLayer(d, self.width)


@dataclass(frozen=True)
class DilatedConvolution(Layer):
    """Dilated causal convolution; each layer of a stack reaches k times as far as the layer below.

    It is causal because with windows to both sides some paths would leave the sequence.
    """

    width: int = 3
    theory = Theory((1, 2), (1, 1), 0, None, ("k n d²", "1", "log_k n"))

    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """See `Layer.build`."""
        return _CausalLayer(d, self.width, dilation)

    def iter_hops(self, n: int, d: int) -> Iterator[Tensor]:
        """Yield the dependencies of each layer, whose dilation grows by the factor `width`."""
        return (find_dependencies(self.build(d, dilation=self.width**depth), n, d) for depth in range(n))

    def find_required_pairs(self, n: int, d: int) -> Tensor:
        """Return the pairs of a position and those up to it."""
        return super().find_required_pairs(n, d).tril()


def build_positions(x: Tensor) -> Tensor:
    """Return the positions 0, 1, 2, ... of each row."""
    return torch.arange(x.size(1)).expand(len(x), -1)


def find_dependencies(layer: nn.Module, n: int, d: int) -> Tensor:
    """Return where the Jacobian of a layer is not zero, [n, n]: outputs by inputs."""
    x = torch.randn(1, n, d, requires_grad=True)
    outputs = layer(x)[0]
    direction = torch.randn(d)  # random, so that gradients do not cancel
    rows = [torch.autograd.grad(output @ direction, x, retain_graph=True)[0][0].any(1) for output in outputs]
    return torch.stack(rows)


def measure_path_length(layer: Layer, n: int, d: int) -> int:
    """Return the longest of the shortest paths between positions in a stack of these layers, in hops.

    The search is breadth first.
    """
    required = layer.find_required_pairs(n, d)
    reached = torch.eye(n, dtype=torch.bool)
    has_entered = False
    for length, hop in enumerate(layer.iter_hops(n, d), start=1):
        next_reached = (hop.float() @ reached.float()) > 0
        reached = (reached | next_reached) if has_entered else next_reached
        has_entered = True
        if bool((reached | ~required).all()):
            return length
        assert length <= 2 * n, "some positions have no path between them"
    raise AssertionError("the hops end before all positions are connected")


def count_sequential_operations(layer: nn.Module, n: int, d: int) -> int:
    """Return the length of the longest chain of dependent operations in the autograd graph of a forward pass."""
    x = torch.randn(1, n, d, requires_grad=True)
    root: Any = layer(x).grad_fn
    depth: dict[Any, int] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        inputs = [function for function, _ in node.next_functions if function is not None]
        pending = [function for function in inputs if function not in depth]
        if pending:
            stack += pending
        else:
            depth[stack.pop()] = 1 + max((depth[function] for function in inputs), default=0)
    return depth[root]
