"""From a model that reads and writes to the maps of a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.attention.explained import Explained, Explaining
from heedful.attention.probe import Look, Role
from heedful.blocks.embedding import Summands, TokenEmbedding
from heedful.inspection.record import Embedded, Map, Walk
from heedful.inspection.watch import Heard, listening, watch
from heedful.values import Tokens


@dataclass(frozen=True)
class Side:
    """A part of a model that reads tokens: "encoder" or "decoder", and the axis of these tokens."""

    name: str
    axis: str


@dataclass(frozen=True)
class Place:
    """Where an attention stands in its model.

    Attributes:
        look: who looks at what.
        layer: its number among those of the same role.
        heads: how many it has.
    """

    look: Look
    layer: int
    heads: int


def places(model: nn.Module) -> dict[str, Place]:
    """Every attention of a model that says who looks at what, by its path and in the order of the layers."""
    counts: Counter[Role] = Counter()
    found = {}
    for path, module in model.named_modules():
        if isinstance(module, Explaining) and (look := module.probe.look) is not None:
            found[path] = Place(look, counts[look.role], module.heads)
            counts[look.role] += 1
    return found


def silent(model: nn.Module) -> list[str]:
    """The paths of attentions that do not say who looks at what, and so have no place."""
    named = model.named_modules()
    return [path for path, module in named if isinstance(module, Explaining) and module.probe.look is None]


@dataclass
class Captured:
    """What was seen while a model read one text, as often as each part was called."""

    places: dict[str, Place]
    weights: dict[str, list[Tensor]] = field(default_factory=dict)
    explained: dict[str, list[Explained]] = field(default_factory=dict)
    inputs: dict[str, list[Tensor]] = field(default_factory=dict)
    outputs: dict[str, list[Tensor]] = field(default_factory=dict)
    embedded: dict[Side, Summands] = field(default_factory=dict)

    def maps(self, *, heads: Sequence[int] | None = None, walks: bool = False) -> tuple[Map, ...]:
        """A map for each attention, of the first row of the batch.

        Args:
            heads: those that are kept; all unless given.
            walks: keep all that lies between queries and outputs.
        """
        found = [self._map(path, place, walks=walks) for path, place in self.places.items() if path in self.weights]
        return tuple(each if heads is None else each.only(heads) for each in found)

    def sides(self) -> tuple[Embedded, ...]:
        """The embedded tokens of each side."""
        return tuple(
            Embedded(
                side=side.name,
                axis=side.axis,
                words=_array(each.words[0]),
                places=None if each.places is None else _array(each.places[0]),
                segments=None if each.segments is None else _array(each.segments[0]),
            )
            for side, each in self.embedded.items()
        )

    def _map(self, path: str, place: Place, *, walks: bool) -> Map:
        weights = torch.cat([each if each.dim() == 4 else each.unsqueeze(1) for each in self.weights[path]], 2)
        return Map(
            path=path,
            role=place.look.role,
            layer=place.layer,
            heads=tuple(range(weights.size(1))),
            queries=place.look.queries,
            keys=place.look.keys,
            weights=_array(weights[0]),
            visible=torch.cat([each.visible for each in self.explained[path]], 1)[0].cpu().numpy(),
            walk=self._walk(path) if walks else None,
        )

    def _walk(self, path: str) -> Walk:
        calls = self.explained[path]
        first = calls[0]
        bias = None if first.bias is None else torch.cat([call.bias for call in calls if call.bias is not None], 2)
        return Walk(
            queries=_array(torch.cat([call.query for call in calls], 2)[0]),
            keys=_array(first.key[0]),
            values=_array(first.value[0]),
            scale=first.scale,
            bias=None if bias is None else _array(bias[0]),
            scores=_array(torch.cat([call.scores for call in calls], 2)[0]),
            contexts=_array(torch.cat([call.context for call in calls], 2)[0]),
            inputs=_array(torch.cat(self.inputs[path], 1)[0]),
            outputs=_array(torch.cat(self.outputs[path], 1)[0]),
        )


@contextmanager
def capture(
    model: nn.Module, *, layers: Sequence[int] | None = None, sides: Mapping[nn.Module, Side] | None = None
) -> Iterator[Captured]:
    """Collects what the attentions of some layers do inside the block; the model's results stay the same.

    Args:
        model: reads one text at a time.
        layers: of each role; all unless given.
        sides: which tokens parts of the model read; what these make of them before the first layer is kept.
    """
    wanted = {path: place for path, place in places(model).items() if layers is None or place.layer in layers}
    captured = Captured(wanted)
    hooks = {model.get_submodule(path): _noting(captured, path) for path in wanted}
    for part, side in (sides or {}).items():
        hooks |= {each: _embedding(captured, side) for each in part.modules() if isinstance(each, TokenEmbedding)}
    with watch(model, only=wanted) as captured.weights, listening(hooks):
        yield captured


def _noting(captured: Captured, path: str) -> Heard:
    def note(module: Explaining, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        captured.explained.setdefault(path, []).append(module.explain(*args, **kwargs))
        captured.inputs.setdefault(path, []).append(args[0].detach())
        captured.outputs.setdefault(path, []).append(output.detach())

    return note


def _embedding(captured: Captured, side: Side) -> Heard:
    def note(module: TokenEmbedding, args: tuple[Tokens, ...], _kwargs: dict[str, Any], _output: Tensor) -> None:
        captured.embedded[side] = module.explain(*args)

    return note


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()
