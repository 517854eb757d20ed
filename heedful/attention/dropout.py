"""Dropout with random masks that are cheap to draw on a CPU.

Profiling showed that drawing one Bernoulli variable per element took a quarter of a training step. One random 64-bit
word gives eight masks instead, so the probability is rounded to the nearest 1/256; the scale follows the rounded value,
so expectations are exact. Native code (`heedful.fused_operators`) reads the same random bytes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful import fused_operators
from heedful.attention import kernels


class Dropout(nn.Module):
    """Zero entries with probability p while training and scale the others by 1 / (1 - p) (Srivastava et al. 2014).

    Args:
        p: probability of a zero, 0 <= p < 1; on CPU rounded to 1/256, at most 255/256, except in compiled code.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        assert 0 <= p < 1, f"a dropout of {p} leaves nothing"
        self.p = p

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"p={self.p}"

    def forward(self, x: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Drop and rescale entries while training; return the input unchanged otherwise."""
        if not self.training or self.p == 0:
            return x
        if _prefer_torch(x):
            return functional.dropout(x, self.p, training=True)
        if fused_operators.find_training_library(x) is not None:
            return fused_operators.drop(x, self.p)
        keep, scale = _draw_mask(x.shape, self.p, dtype=x.dtype)
        return x * keep.mul_(scale)

    def draw_factors(self, shape: tuple[int, ...], *, reference: Tensor) -> Float[Tensor, "*S"] | None:
        """Draw the factors for a tensor of this shape: 0 or 1 / (1 - p), with dtype and device of `reference`; None if
        nothing is dropped.
        """
        if not self.training or self.p == 0:
            return None
        if _prefer_torch(reference):
            return functional.dropout(reference.new_ones(shape), self.p, training=True)
        if fused_operators.find_training_library(reference) is not None:
            return fused_operators.draw_dropout_factors(shape, self.p, reference=reference)
        keep, scale = _draw_mask(shape, self.p, dtype=reference.dtype)
        return keep.mul_(scale)

    def add_dropped(self, x: Float[Tensor, "*S"], branch: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Return x + dropout(branch) in one pass over memory."""
        if not self.training or self.p == 0:
            return x + branch
        if _prefer_torch(x):
            return x + functional.dropout(branch, self.p, training=True)
        if x.dtype == branch.dtype and fused_operators.find_training_library(branch) is not None:
            return fused_operators.add_dropped(x, branch, self.p)
        keep, scale = _draw_mask(branch.shape, self.p, dtype=branch.dtype)
        result: Tensor = _AddScaled.apply(x, branch, keep, scale)  # type: ignore[no-untyped-call]  # torch's
        return result


def _prefer_torch(x: Tensor) -> bool:
    """Return whether PyTorch's own dropout is used: on other devices than a CPU, and in compiled code, where it is one
    pass with what comes before and after.
    """
    return x.device.type != "cpu" or kernels.is_tracing()


def _draw_mask(shape: tuple[int, ...], p: float, *, dtype: torch.dtype) -> tuple[Tensor, float]:
    """Draw a mask of this shape and dtype, 0 with probability p to drop and 1 to keep, from torch's default generator;
    also return the scale of kept entries.
    """
    threshold, scale = fused_operators.round_probability(p)
    random_bytes = fused_operators.draw_random_bytes(math.prod(shape))
    # numpy compares bytes ten times faster than torch does
    keep_bytes = np.greater_equal(random_bytes.numpy(), threshold).view(np.int8)
    return torch.from_numpy(keep_bytes).view(shape).to(dtype), scale


class _AddScaled(torch.autograd.Function):
    """Autograd function x + scale * branch * keep without a temporary for the scaled branch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, branch: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return torch.addcmul(x, branch, keep, value=scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (gradient,) = gradients
        (keep,) = ctx.saved_tensors
        return gradient, (gradient * keep).mul_(ctx.scale), None, None
