"""Distance of each parameter from the head of a model, for layer-wise learning rates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

_LAYER = re.compile(r"(?:^|\.)(?:layers|cells)\.(\d+)\.")
_EMBEDDING = re.compile(r"(?:^|\.)embedding\.")


@dataclass(frozen=True)
class LayerDepths:
    """Depth of each parameter of a model.

    Attributes:
        num_layers: number of layers between embedding and head.
        by_parameter: depth of each parameter: 0 in the head, 1 in the highest layer and in parts shared by all layers,
            such as a final norm, `num_layers` in the lowest one, and one more in the embeddings; embeddings have 2
            where there is no layer.
    """

    num_layers: int
    by_parameter: Mapping[str, int]


def measure_depths(model: nn.Module, *, body: str) -> LayerDepths:
    """Return the depth of each parameter by its name.

    Args:
        model: a stack of layers with a head.
        body: attribute that holds the stack; the encoder's pooler counts as head.
    """
    names = [name for name, _ in model.named_parameters()]
    numbers = [int(match[1]) for name in names if name.startswith(f"{body}.") and (match := _LAYER.search(name))]
    layers = 1 + max(numbers, default=-1)
    return LayerDepths(layers, {name: _find_depth(name, layers=layers, body=body) for name in names})


def _find_depth(name: str, *, layers: int, body: str) -> int:
    if not name.startswith(f"{body}.") or name.startswith(f"{body}.summary."):
        return 0
    if match := _LAYER.search(name):
        return layers - int(match[1])
    return max(layers, 1) + 1 if _EMBEDDING.search(name) else 1
