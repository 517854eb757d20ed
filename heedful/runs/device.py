"""Where to compute."""

from __future__ import annotations

import torch

from heedful.errors import RecipeError


def find_device(name: str | torch.device | None) -> torch.device:
    """The device of a name such as `cpu` or `cuda:1`, tried out; without a name the GPU where there is one.

    Raises:
        RecipeError: there is no such device here.
    """
    if name is None:
        return default_device()
    try:
        device = torch.device(name)
        torch.empty(1, device=device).cpu()  # a name alone says nothing about whether it is there
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise RecipeError(
            f"device {str(name)!r}: cannot be used here ({reason}); choose another one, or none"
        ) from None
    return device


def default_device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
