"""What a model does without one of its heads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from heedful.attention.explained import Explaining
from heedful.attention.probe import reading


@contextmanager
def without_head(model: nn.Module, path: str, *, head: int) -> Iterator[None]:
    """Inside the block one head takes nothing from what it looks at: its weights are all 0 (Michel et al. 2019, eq. 2).

    Args:
        model: whose attention is meant.
        path: of the attention in the model.
        head: counted from 0; an attention without heads has the head 0.
    """
    attention = model.get_submodule(path)
    assert isinstance(attention, Explaining)

    def silence(weights: Tensor) -> Tensor:
        if weights.dim() == 3:
            return weights * 0
        silent = weights.clone()
        silent[:, head] = 0
        return silent

    with reading({attention.probe: silence}):
        yield
