"""What parts of a model say of themselves, so that others can draw how a text runs through them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from torch import nn

Direction: TypeAlias = Literal["forward", "backward"]


@dataclass(frozen=True)
class LayerInfo:
    """One layer over the tokens that it reads.

    Attributes:
        name: what it is: GRU, self-attention, convolution.
        before: how many places before its own a token sees in the level below; None for all.
        after: how many behind it.
        every: of these places, every so many; above 1 a window has holes.
        carries: a state from token to token, in one direction or in two next to each other.
        starts: where that state comes from: nothing, the source's summary, or the end of the encoder's same layer.
        ends: of these states, those whose ends are in the summary of the source, if this is the highest level.
        across: names of the memories that a token attends to.
        context: whether the source's summary enters at every token.
        fed: whether what leaves the top enters here at the next token.
        side: "encoder" or "decoder".
        axis: whose tokens it reads.
        width: numbers that leave it for each token; None where it does not say.
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
    """A module that knows its levels."""

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """From the lowest to the highest."""
        ...


def iter_layers(module: nn.Module) -> Iterator[LayerInfo]:
    """The levels of a module, or of its parts in their order."""
    if isinstance(module, HasLayerInfo):
        yield from module.describe_layers()
        return
    for child in module.children():
        yield from iter_layers(child)
