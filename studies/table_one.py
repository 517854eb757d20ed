"""The layers of Vaswani et al. 2017, table 1, made of heedful's own parts, and what their outputs depend on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import torch
from torch import Tensor, nn

from heedful.attention import Concatenation, MultiHeadAttention, Slots, Visibility, everything, window
from heedful.blocks.convolution import CausalConvolution, CentredConvolution, Lineup
from heedful.blocks.recurrent import CellState, Elman, Forward

HEAD = 64
"""d_k; wider layers have more heads, as in the paper."""


@dataclass(frozen=True)
class Theory:
    """What the table says.

    Attributes:
        time: exponents of n and d.
        memory: the same.
        sequential: exponent of n.
        path: exponent of n; None where the path grows with its logarithm.
        written: complexity, sequential operations and path length as the table writes them.
    """

    time: tuple[float, float]
    memory: tuple[float, float]
    sequential: float
    path: float | None
    written: tuple[str, str, str]


class Layer(ABC):
    """One row of the table."""

    theory: Theory

    @abstractmethod
    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """A layer from [B, n, d] to [B, n, d]."""

    def hops(self, n: int, d: int) -> Iterator[Tensor]:
        """Which output can depend on which input, [n, n], of the first layer of a stack, of the second, ..."""
        return repeat(depends(self.build(d), n, d))

    def goal(self, n: int, d: int) -> Tensor:
        """The pairs of positions between which there must be a path: all."""
        return torch.ones(n, n, dtype=torch.bool)


class _Mixing(nn.Module):
    """Attention without the maps W_q, W_k, W_v and W_o of each position by itself, which the table leaves out too."""

    def __init__(self, d: int, visibility: Visibility, *, formed: bool) -> None:
        super().__init__()
        heads = max(1, d // HEAD)
        self.attention = MultiHeadAttention(d, heads, shared_key_value=True, aggregation=Concatenation())
        self.attention.query = self.attention.key_value = nn.Identity()  # type: ignore[assignment]  # no maps at all
        self.visibility = visibility
        if formed:
            self.attention.probe.register_forward_hook(lambda *_: None)  # who watches makes the weights exist

    def forward(self, x: Tensor) -> Tensor:
        at = positions(x)
        sight = Slots(at).sight(at, self.visibility)
        result: Tensor = self.attention(x, self.attention.remember(x, x, at), sight=sight)
        return result


@dataclass(frozen=True)
class SelfAttention(Layer):
    """Every token looks at every other, by the fused kernel or by products that form the weights."""

    formed: bool = False

    @property
    def theory(self) -> Theory:  # type: ignore[override]  # here it depends on the kernel
        """Memory is quadratic where weights are formed."""
        memory = (2.0, 1.0) if self.formed else (1.0, 1.0)
        return Theory((2, 1), memory, 0, 0, ("n² d", "1", "1"))

    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """See `Layer.build`."""
        return _Mixing(d, everything, formed=self.formed)


@dataclass(frozen=True)
class Restricted(Layer):
    """Self-attention in a window around each token."""

    reach: int
    """r / 2 to either side"""
    theory = Theory((1, 1), (1, 1), 0, 1, ("r n d", "1", "n / r"))

    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """See `Layer.build`."""
        return _Mixing(d, window(self.reach, self.reach), formed=False)


class _Recurrence(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.layer = Forward(Elman(d, d))

    def forward(self, x: Tensor) -> Tensor:
        return self.step(x, self.layer.begin(len(x), x))[0]

    def step(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        result: tuple[Tensor, CellState] = self.layer(x, state, positions=positions(x))
        return result


class Recurrent(Layer):
    """Elman's network, from left to right."""

    theory = Theory((1, 2), (1, 1), 1, 1, ("n d²", "n", "n"))

    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """See `Layer.build`."""
        return _Recurrence(d)

    def hops(self, n: int, d: int) -> Iterator[Tensor]:
        """From a word into the state there, then from state to state: one step of the layer at a time."""
        layer = self.build(d)
        assert isinstance(layer, _Recurrence)
        entering, passing = (torch.zeros(n, n, dtype=torch.bool) for _ in range(2))
        state = layer.layer.begin(1, torch.zeros(1, 1, d))
        for t, x in enumerate(torch.randn(n, 1, 1, d)):
            before = state[0].detach().requires_grad_()
            word = x.requires_grad_()
            y, state = layer.step(word, (before,))
            of_word, of_state = torch.autograd.grad((y * torch.randn_like(y)).sum(), (word, before))
            entering[t, t] = bool(of_word.any())
            if t > 0:
                passing[t, t - 1] = bool(of_state.any())
        return chain([entering], repeat(passing))

    def goal(self, n: int, d: int) -> Tensor:
        """From the words before, which are all that this layer knows."""
        return depends(self.build(d), n, d)


class _Centred(nn.Module):
    def __init__(self, d: int, width: int) -> None:
        super().__init__()
        self.layer = CentredConvolution(d, width)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x, Lineup.of(positions(x)))
        return result


class _Causal(nn.Module):
    def __init__(self, d: int, width: int, dilation: int) -> None:
        super().__init__()
        self.layer = CausalConvolution(d, width, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x, self.layer.begin(len(x), like=x), lineup=Lineup.of(positions(x)))[0]
        return result


@dataclass(frozen=True)
class Convolutional(Layer):
    """Windows of so many tokens."""

    width: int = 3
    theory = Theory((1, 2), (1, 1), 0, 1, ("k n d²", "1", "n / k"))

    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """See `Layer.build`."""
        return _Centred(d, self.width)


@dataclass(frozen=True)
class Dilated(Layer):
    """Each layer of a stack reaches k times as far as the one below.

    Towards the past alone: of windows to both sides, some paths would lead beyond the ends of a row.
    """

    width: int = 3
    theory = Theory((1, 2), (1, 1), 0, None, ("k n d²", "1", "log_k n"))

    def build(self, d: int, *, dilation: int = 1) -> nn.Module:
        """See `Layer.build`."""
        return _Causal(d, self.width, dilation)

    def hops(self, n: int, d: int) -> Iterator[Tensor]:
        """Each layer's windows are wider by a factor than those below."""
        return (depends(self.build(d, dilation=self.width**depth), n, d) for depth in range(n))

    def goal(self, n: int, d: int) -> Tensor:
        """From the words before."""
        return super().goal(n, d).tril()


def positions(x: Tensor) -> Tensor:
    """0, 1, 2, ... in each row."""
    return torch.arange(x.size(1)).expand(len(x), -1)


def depends(layer: nn.Module, n: int, d: int) -> Tensor:
    """Where the Jacobian of a layer is not zero, [n, n]: outputs by inputs."""
    x = torch.randn(1, n, d, requires_grad=True)
    outputs = layer(x)[0]
    toward = torch.randn(d)  # a direction in which nothing cancels
    rows = [torch.autograd.grad(output @ toward, x, retain_graph=True)[0][0].any(1) for output in outputs]
    return torch.stack(rows)


def path_length(layer: Layer, n: int, d: int) -> int:
    """The longest of the shortest paths between two positions of a stack of such layers, in hops: breadth first."""
    goal = layer.goal(n, d)
    reached = torch.eye(n, dtype=torch.bool)
    entered = False
    for length, hop in enumerate(layer.hops(n, d), start=1):
        onward = (hop.float() @ reached.float()) > 0
        reached = (reached | onward) if entered else onward
        entered = True
        if bool((reached | ~goal).all()):
            return length
        assert length <= 2 * n, "there are positions without a path"
    raise AssertionError("hops end before all positions are joined")


def sequential_operations(layer: nn.Module, n: int, d: int) -> int:
    """The longest chain of operations that wait for each other, in the graph that autograd recorded of a real run."""
    x = torch.randn(1, n, d, requires_grad=True)
    root: Any = layer(x).grad_fn
    depth: dict[Any, int] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        below = [each for each, _ in node.next_functions if each is not None]
        waiting = [each for each in below if each not in depth]
        if waiting:
            stack += waiting
        else:
            depth[stack.pop()] = 1 + max((depth[each] for each in below), default=0)
    return depth[root]
