"""Layers that PyTorch compiles for training, each as one graph for batches of any shape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.attention.mask import AttentionMask

State = TypeVar("State")

_MAX_GRAPHS: Final = 32
"""Number of graphs of one compiler from which on PyTorch raises an error. Layers of the same structure share one. More
are needed for batches of one row, for layers of which only some are frozen, for texts in bands, and for states with a
past.
"""
_CPU_OPTIONS: Final = {"fallback_random": True}
"""On a CPU, random numbers of PyTorch's own operations; inductor would compute them one by one, which makes training
with dropout a fifth slower (docs/performance.md).
"""


@runtime_checkable
class CompilableLayer(Protocol[State]):
    """A layer whose computation has no hooks around it."""

    def compute(
        self,
        x: Float[Tensor, "G Q d_model"],
        state: State,
        *,
        mask: AttentionMask,
        cross_masks: Mapping[str, AttentionMask],
    ) -> tuple[Float[Tensor, "G Q d_model"], State]:
        """Return the vectors after the layer, and its new state."""


@final
class LayerCompiler:
    """Runs layers as compiled code. `torch.compile` compiles at the first call, and again for each new structure of
    layer or inputs.

    PyTorch calls the hooks of the layer itself. Hooks of its parts are not called. Masks must have the form of
    `AttentionMask.to_canonical_form`, and `x` must not be a view; otherwise PyTorch compiles again.

    Args:
        backend: of `torch.compile`.
        device: where the layers compute.
    """

    def __init__(self, backend: str | Callable[..., Any] = "inductor", *, device: torch.device) -> None:
        import torch._dynamo.config as dynamo_config  # takes a second, and few trainings need it
        import torch.fx.experimental._config as shape_config

        compile_function: Callable[..., Any] = torch.compile  # its types leave some arguments out
        self._compute: Callable[..., Any] = compile_function(
            _compute_layer,
            fullgraph=True,
            dynamic=True,
            backend=backend,
            options=_CPU_OPTIONS if backend == "inductor" and device.type == "cpu" else None,
            recompile_limit=_MAX_GRAPHS,
            isolate_recompiles=True,
        )
        shape_settings: Any = shape_config  # its types leave `patch` out
        # Otherwise sizes that are equal in the first batch, such as rows and tokens, would have to be equal in others.
        self._keep_sizes_apart = shape_settings.patch(use_duck_shape=False)
        # Otherwise PyTorch would compile twice: first for any probability of dropout, which is useless.
        self._keep_probabilities = dynamo_config.patch(specialize_float=True)

    def run(
        self,
        layer: CompilableLayer[State],
        x: Float[Tensor, "G Q d_model"],
        state: State,
        *,
        mask: AttentionMask,
        cross_masks: Mapping[str, AttentionMask],
    ) -> tuple[Float[Tensor, "G Q d_model"], State]:
        """Return what the layer's `compute` returns."""
        with self._keep_sizes_apart, self._keep_probabilities:
            result: tuple[Tensor, State] = self._compute(layer, x, state, mask, cross_masks)
        return result


def _compute_layer(
    layer: CompilableLayer[State],
    x: Tensor,
    state: State,
    mask: AttentionMask,
    cross_masks: Mapping[str, AttentionMask],
) -> tuple[Tensor, State]:
    """Compute a layer; all compiled graphs begin here."""
    return layer.compute(x, state, mask=mask, cross_masks=cross_masks)


def supports_isolated_recompiles() -> bool:
    """Return whether PyTorch limits the number of graphs of each compiler, as it does since 2.13. Earlier versions have
    one limit of eight graphs for all models of a process.
    """
    return "isolate_recompiles" in inspect.signature(torch.compile).parameters
