"""From a model that reads and writes to the maps of a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from heedful.attention.explained import Explained
from heedful.attention.probe import Probe
from heedful.blocks.embedding import Summands, TokenEmbedding
from heedful.inspection.record import (
    HYPOTHESIS,
    PREMISE,
    READ,
    SOURCE,
    WHOLE,
    WRITTEN,
    Embedded,
    Map,
    Role,
    Walk,
)
from heedful.inspection.watch import watch
from heedful.values import Tokens


@runtime_checkable
class Explaining(Protocol):
    """An attention that can say what it computes."""

    probe: Probe

    def explain(self, *args: Any, **kwargs: Any) -> Explained:
        """All that lies between queries and contexts, for the arguments of a call."""
        ...


@dataclass(frozen=True)
class Place:
    """Which attention a path of a model leads to, and the axes of those who look and of what is looked at."""

    role: Role
    layer: int
    queries: str
    keys: str


_NAMED: dict[str, tuple[Role, str, str]] = {
    "across": ("cross", WRITTEN, SOURCE),
    "hops": ("summary", WHOLE, SOURCE),
    "of_last": ("summary", WHOLE, PREMISE),
    "of_words": ("summary", HYPOTHESIS, PREMISE),
}
_ENCODER: tuple[Role, str, str] = ("encoder", SOURCE, SOURCE)
_DECODER: tuple[Role, str, str] = ("decoder", WRITTEN, READ)


def places(model: nn.Module) -> dict[str, Place]:
    """Every attention of a model by its path, in the order of the layers.

    What is called `across` looks at a memory; `hops`, `of_last` and `of_words` make one vector of one text or of two;
    anything else below `encoder` looks at the source, and the rest at what was read before.
    """
    counts: Counter[Role] = Counter()
    found = {}
    for path, module in model.named_modules():
        if isinstance(module, Explaining):
            parts = path.split(".")
            role, queries, keys = _NAMED.get(parts[-1], _ENCODER if parts[0] == "encoder" else _DECODER)
            found[path] = Place(role, counts[role], queries, keys)
            counts[role] += 1
    return found


@dataclass
class Captured:
    """What was seen while a model read one text, as often as each part was called."""

    places: dict[str, Place]
    weights: dict[str, list[Tensor]] = field(default_factory=dict)
    explained: dict[str, list[Explained]] = field(default_factory=dict)
    inputs: dict[str, list[Tensor]] = field(default_factory=dict)
    outputs: dict[str, list[Tensor]] = field(default_factory=dict)
    embedded: dict[str, Summands] = field(default_factory=dict)

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
                side=path.split(".", 1)[0],
                axis=SOURCE if path.startswith("encoder") else READ,
                words=_array(each.words[0]),
                places=None if each.places is None else _array(each.places[0]),
                segments=None if each.segments is None else _array(each.segments[0]),
            )
            for path, each in self.embedded.items()
        )

    def _map(self, path: str, place: Place, *, walks: bool) -> Map:
        weights = torch.cat([each if each.dim() == 4 else each.unsqueeze(1) for each in self.weights[path]], 2)
        return Map(
            path=path,
            role=place.role,
            layer=place.layer,
            heads=tuple(range(weights.size(1))),
            queries=place.queries,
            keys=place.keys,
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
def capture(model: nn.Module, *, layers: Sequence[int] | None = None) -> Iterator[Captured]:
    """Collects what the attentions of some layers do inside the block; the model's results stay the same.

    Args:
        model: reads one text at a time.
        layers: of each role; all unless given.
    """
    wanted = {path: place for path, place in places(model).items() if layers is None or place.layer in layers}
    with ExitStack() as stack:
        captured = Captured(wanted, weights=stack.enter_context(watch(model, only=wanted)))
        for path in wanted:
            handle = model.get_submodule(path).register_forward_hook(_noting(captured, path), with_kwargs=True)
            stack.callback(handle.remove)
        for path, module in model.named_modules():
            if isinstance(module, TokenEmbedding):
                stack.callback(module.register_forward_hook(_embedding(captured, path)).remove)
        yield captured


def _noting(captured: Captured, path: str) -> Callable[..., None]:
    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        explained = cast(Explaining, module).explain(*args, **kwargs)
        captured.explained.setdefault(path, []).append(explained)
        captured.inputs.setdefault(path, []).append(args[0].detach())
        captured.outputs.setdefault(path, []).append(output.detach())

    return note


def _embedding(captured: Captured, path: str) -> Callable[..., None]:
    def note(module: TokenEmbedding, args: tuple[Tokens, ...], _output: Tensor) -> None:
        captured.embedded[path] = module.explain(*args)

    return note


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()
