"""From a model that reads and writes to the maps of a record, and how it tells positions apart."""

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
from heedful.attention.positions import AbsolutePosition, Learned, Rotary, Shaw
from heedful.attention.probe import Look, Role
from heedful.blocks.embedding import Embedding, Summands
from heedful.inspection.record import Embedded, Encoding, Map, Walk
from heedful.inspection.scored import Width
from heedful.inspection.watch import Heard, listening, watch


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
                factors=None if each.factors is None else _array(each.factors[0]),
            )
            for side, each in self.embedded.items()
        )

    def widths(self) -> tuple[Width, ...]:
        """How many numbers each side makes of a token before its first layer."""
        return tuple(Width("embedding", side.name, each.words.size(-1)) for side, each in self.embedded.items())

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
            edges=None if (edges := self.explained[path][0].edges) is None else _array(edges[0]),
        )

    def _walk(self, path: str) -> Walk:
        calls = self.explained[path]
        first, biases = calls[0], [call.bias for call in calls if call.bias is not None]
        return Walk(
            queries=_joined([call.query for call in calls], 2),
            keys=_array(first.key[0]),
            values=_array(first.value[0]),
            scale=first.scale,
            bias=_joined(biases, 2) if biases else None,
            scores=_joined([call.scores for call in calls], 2),
            contexts=_joined([call.context for call in calls], 2),
            inputs=_joined(self.inputs[path], 1),
            outputs=_joined(self.outputs[path], 1),
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
        hooks |= {each: _embedding(captured, side) for each in part.modules() if isinstance(each, Embedding)}
    with watch(model, only=wanted) as captured.weights, listening(hooks):
        yield captured


def _noting(captured: Captured, path: str) -> Heard:
    def note(module: Explaining, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        captured.explained.setdefault(path, []).append(module.explain(*args, **kwargs))
        captured.inputs.setdefault(path, []).append(args[0].detach())
        captured.outputs.setdefault(path, []).append(output.detach())

    return note


def _embedding(captured: Captured, side: Side) -> Heard:
    def note(module: Embedding, args: tuple[Any, ...], _kwargs: dict[str, Any], _output: Tensor) -> None:
        captured.embedded[side] = module.explain(*args)

    return note


def encodings(model: nn.Module, *, length: int = 64) -> tuple[Encoding, ...]:
    """The position schemes of a model, each different one once.

    Rotations are shown by what they make of a vector of ones: the dot product of two rows is then what they make of the
    score of two such vectors.

    Args:
        model: any.
        length: positions, where these have no end of their own.
    """
    found: list[Encoding] = []
    for each in _all(model, length):
        if not any(np.array_equal(each.vectors, other.vectors) for other in found):
            found.append(each)
    return tuple(found)


def _all(model: nn.Module, length: int) -> Iterator[Encoding]:
    for path, module in model.named_modules():
        if isinstance(module, Learned):
            yield _absolute(path, module, min(length, module.table.num_embeddings - module.offset))
        elif isinstance(module, AbsolutePosition):
            yield _absolute(path, module, length)
        elif isinstance(module, Rotary):
            ones = module.rate.new_ones(1, 1, length, 2 * len(module.rate))
            vectors = module.rotate(ones, _positions(module.rate, length))[0, 0]
            yield Encoding(f"rotary ({path})", np.arange(length), _array(vectors))
        elif isinstance(module, Shaw):
            distances = np.arange(-module.clip, module.clip + 1)
            yield Encoding(f"relative to keys ({path})", distances, _array(module.key), relative=True)
            if module.value is not None:
                yield Encoding(f"relative to values ({path})", distances, _array(module.value), relative=True)


def _absolute(path: str, module: AbsolutePosition, length: int) -> Encoding:
    held = [*module.parameters(), *module.buffers()]
    vectors = module(_positions(held[0] if held else torch.empty(0), length))[0]
    return Encoding(f"{type(module).__name__.lower()} ({path})", np.arange(length), _array(vectors))


def _positions(like: Tensor, length: int) -> Tensor:
    return torch.arange(length, device=like.device).unsqueeze(0)


def _joined(calls: Sequence[Tensor], dim: int) -> np.ndarray:
    """What calls made of the first row, one after the other along a dimension."""
    return _array(torch.cat(list(calls), dim)[0])


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()
