"""Transformer layers that are compiled for training, as `training.compile` asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.attention.structured import LinearChain
from heedful.blocks.layer_compiler import LayerCompiler, supports_isolated_recompiles
from heedful.blocks.transformer import TransformerStack
from heedful.errors import RecipeError
from heedful.recipes.training import TrainingConfig

_KEY: Final = "training.compile = true"
_BACKEND: Final[str | Callable[..., Any]] = "inductor"
"""Backend of `torch.compile` in training."""
_WATCHING_KEYS: Final = ("decorrelation", "guided", "reinforce")
"""Keys of [training] whose losses read attention weights by hooks."""


def check_compilation(config: TrainingConfig, device: torch.device) -> None:
    """If the recipe asks for compiled layers, compile a small function as a test, so that a missing compiler is found
    at the start.

    Raises:
        RecipeError: PyTorch is too old, or it cannot compile here.
    """
    if not config.compile:
        return
    if not supports_isolated_recompiles():
        raise RecipeError(
            f"{_KEY}: needs PyTorch 2.13 or later, but {torch.__version__} is installed; install a newer version, or "
            "leave it out"
        )
    compiled: Callable[[Tensor], Tensor] = torch.compile(_compute_sample, fullgraph=True, backend=_BACKEND)
    try:
        compiled(torch.ones(8, device=device))
    except (RuntimeError, OSError) as error:
        raise RecipeError(
            f"{_KEY}: PyTorch cannot compile here: {_summarize(error)}; install what it needs (on a CPU a C++ compiler "
            "such as g++, on a GPU Triton and a C compiler), or leave training.compile out"
        ) from error


def _compute_sample(x: Tensor) -> Tensor:
    """Compute anything; its compiled code needs all tools that layers need."""
    return x.exp() + 1


@contextmanager
def explain_compile_errors() -> Iterator[None]:
    """Context manager for training: raise errors of PyTorch's compiler as `RecipeError` with a remedy."""
    try:
        yield
    except RuntimeError as error:
        from torch._dynamo.exc import TorchDynamoException  # takes a second, and few trainings need it

        if not isinstance(error, TorchDynamoException):
            raise
        raise RecipeError(
            f"{_KEY}: PyTorch cannot compile the layers of this model: {_summarize(error)}; leave training.compile out"
        ) from error


def _summarize(error: Exception) -> str:
    """Return the first line of an error message, which says what is wrong; the others are for developers."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def enable_layer_compilation(
    model: nn.Module,
    config: TrainingConfig,
    *,
    device: torch.device,
    backend: str | Callable[..., Any] | None = None,
) -> None:
    """If the recipe asks for it, give each Transformer stack of a model a compiler; layers are compiled at their first
    call.

    Args:
        model: the model to train.
        config: the training config.
        device: where it will be trained.
        backend: of `torch.compile`; inductor if not given.

    Raises:
        RecipeError: the model has no Transformer layers; an attention is a linear chain, which would be compiled again
            for each length; or the loss reads attention weights, which compiled layers do not form.
    """
    if not config.compile:
        return
    for key in _WATCHING_KEYS:
        if getattr(config, key, None):
            raise RecipeError(
                f"{_KEY}: training.{key} reads attention weights, which compiled layers do not form; leave one of both "
                "out"
            )
    stacks = [module for module in model.modules() if isinstance(module, TransformerStack)]
    if not stacks:
        raise RecipeError(f"{_KEY}: this model has no Transformer layers; leave it out")
    if any(isinstance(module, LinearChain) for stack in stacks for module in stack.modules()):
        raise RecipeError(
            f'{_KEY}: weights = "linear_chain" are computed key by key, so each length would be compiled by itself; '
            "leave training.compile out, or choose other weights"
        )
    for stack in stacks:
        stack.compiler = LayerCompiler(backend or _BACKEND, device=device)
