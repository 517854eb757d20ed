"""What a model does without one of its heads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from heedful.attention.probe import Probe


@contextmanager
def without_head(model: nn.Module, path: str, *, head: int) -> Iterator[None]:
    """Inside the block one head takes nothing from what it looks at: its weights are all 0 (Michel et al. 2019, eq. 2).

    Args:
        model: whose attention is meant.
        path: of the attention in the model.
        head: counted from 0; an attention without heads has the head 0.
    """
    probe = model.get_submodule(path).get_submodule("probe")
    assert isinstance(probe, Probe)

    def silence(_module: Probe, _inputs: object, weights: Tensor) -> Tensor:
        if weights.dim() == 3:
            return weights * 0
        silent = weights.clone()
        silent[:, head] = 0
        return silent

    handle = probe.register_forward_hook(silence)
    try:
        yield
    finally:
        handle.remove()
