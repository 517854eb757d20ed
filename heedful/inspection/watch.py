"""Attention weights of a block of code, by module."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from heedful.attention.probe import Probe


@contextmanager
def watch(
    model: nn.Module, *, detach: bool = True, only: Container[str] | None = None
) -> Iterator[dict[str, list[Tensor]]]:
    """Collects the weights of every attention computed inside the block.

    Watching makes attention form its weights where a fused kernel would not; results stay the same.

    Args:
        model: whose attentions are watched.
        detach: cut the weights from the gradient; False lets a loss use them.
        only: paths of the attentions that are watched; all unless given. The others keep their fast kernels.

    Yields:
        For each attention, by its path in the model, the weights of its calls in order, each [B, H, Q, K] or [B, Q, K].
    """
    seen: dict[str, list[Tensor]] = {}
    handles = []
    for path, module in model.named_modules():
        if isinstance(module, Probe):
            name = path.removesuffix("probe").removesuffix(".")
            if only is not None and name not in only:
                continue

            def note(_module: nn.Module, _inputs: object, weights: Tensor, name: str = name) -> None:
                seen.setdefault(name, []).append(weights.detach() if detach else weights)

            handles.append(module.register_forward_hook(note))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
