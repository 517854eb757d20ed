"""How a model tells positions apart, as vectors that can be looked at."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from heedful.attention.positions import AbsolutePosition, Learned, Rotary, Shaw
from heedful.inspection.record import Encoding


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
        same = any(np.array_equal(each.vectors, other.vectors) for other in found)
        if not same:
            found.append(each)
    return tuple(found)


def _all(model: nn.Module, length: int) -> Iterator[Encoding]:
    for path, module in model.named_modules():
        if isinstance(module, Learned):
            yield _absolute(path, module, min(length, module.table.num_embeddings))
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


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()
