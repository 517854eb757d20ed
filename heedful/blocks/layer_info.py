"""Descriptions of layers, from which diagrams of a model unrolled over its tokens are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from torch import nn

Direction: TypeAlias = Literal["forward", "backward"]


@dataclass(frozen=True)
class LayerInfo:
    """Description of one layer over the tokens that it reads.

    Attributes:
        name: type of the layer, such as GRU, self-attention or convolution.
        before: positions to the left that a token sees in the layer below; None for all.
        after: positions to the right that a token sees in the layer below; None for all.
        every: dilation: only every n-th of these positions is seen.
        carries: directions in which a recurrent state is passed from token to token.
        starts: source of the initial state: nothing, the source's summary, or the final state of the same encoder
            layer.
        ends: directions whose final states enter the summary of the source, if this is the highest layer.
        across: names of the memories that a token attends to.
        context: whether the source's summary enters at every token.
        fed: whether the output of the top layer enters here at the next token (input feeding).
        side: "encoder" or "decoder".
        axis: name of the axis of its tokens.
        width: width of the output; None if unknown.
    """

    name: str
    before: int | None = 0
    after: int | None = 0
    every: int = 1
    carries: tuple[Direction, ...] = ()
    starts: Literal["nothing", "summary", "layer"] = "nothing"
    ends: tuple[Direction, ...] = ("forward", "backward")
    across: tuple[str, ...] = ()
    context: bool = False
    fed: bool = False
    side: str = ""
    axis: str = ""
    width: int | None = field(default=None, compare=False)


@runtime_checkable
class HasLayerInfo(Protocol):
    """Protocol of modules that describe their layers."""

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Return a description of each layer, from the lowest to the highest."""
        ...


def iter_layers(module: nn.Module) -> Iterator[LayerInfo]:
    """Yield the layer descriptions of a module, or of its submodules in order."""
    if isinstance(module, HasLayerInfo):
        yield from module.describe_layers()
        return
    for child in module.children():
        yield from iter_layers(child)
