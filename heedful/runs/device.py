"""Where to compute, and how the C library hands out memory there: a third of the speed of training on a CPU."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

import torch

from heedful.english_words import closest_match
from heedful.errors import RecipeError

_DEVICES: Final = ("cpu", "cuda", "mps", "xpu")
_DEVICE_ALIASES: Final = {
    "gpu": "cuda",
    "nvidia": "cuda",
    "cuda0": "cuda:0",
    "rocm": "cuda",
    "amd": "cuda",
    "metal": "mps",
    "apple": "mps",
    "intel": "xpu",
    "processor": "cpu",
}
"""What people call devices; PyTorch calls a GPU of AMD cuda, too."""
_MAX_DIGITS: Final = 4
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def find_device(name: str | torch.device | None) -> torch.device:
    """The device of a name such as `cpu` or `cuda:1`, tried out; without a name the GPU where there is one.

    Raises:
        RecipeError: there is no such device here.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        suggestion = _suggest_device(str(name))
        remedy = f"did you mean {suggestion}?" if suggestion else f"choose one of {', '.join(_DEVICES)}, or none"
        raise RecipeError(f"device {str(name)!r}: is not a device that PyTorch knows; {remedy}") from error
    try:
        torch.empty(1, device=device).cpu()  # a name alone says nothing about whether it is there
    except (RuntimeError, AssertionError, NotImplementedError, OverflowError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise RecipeError(
            f"device {str(name)!r}: cannot be used here ({reason}); choose another one, or none"
        ) from None
    return device


def _suggest_device(name: str) -> str | None:
    """Return the device that a name PyTorch does not know may stand for, with its number; None where none does."""
    kind, colon, number = name.strip().partition(":")
    if number and not (number.isdecimal() and len(number) < _MAX_DIGITS):
        return None
    device_names = {**{device: device for device in _DEVICES}, **_DEVICE_ALIASES}
    match = closest_match(kind, device_names)
    return None if match is None else device_names[match] + colon + number


def get_peak_memory(device: torch.device) -> int | None:
    """The most bytes that this process has used there so far, libraries included; None where nobody tells."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if not sys.platform.startswith(("linux", "darwin")):
        return None
    from resource import RUSAGE_SELF, getrusage

    return getrusage(RUSAGE_SELF).ru_maxrss * (1024 if sys.platform.startswith("linux") else 1)


def tune_malloc() -> bool:
    """Tells glibc to keep freed pages instead of giving them back to the kernel.

    Otherwise each large tensor is made of fresh pages, which the kernel must clear; that was measured to cost a third
    of a training step. Memory stays at the peak that training needs anyway. Elsewhere than on Linux nothing is done.

    Returns:
        Whether it was done.
    """
    is_linux = sys.platform.startswith("linux")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if is_linux else None
    return bool(mallopt and mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, -1))


def trim_malloc() -> bool:
    """Has glibc give the kernel the pages in which nothing is any more, wherever they are.

    What grows and is freed in many sizes leaves gaps, so that a process that answers for days would hold more and more.
    It takes some milliseconds. Elsewhere than on Linux nothing is done.

    Returns:
        Whether any were given back.
    """
    is_linux = sys.platform.startswith("linux")
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if is_linux else None
    return bool(trim and trim(0))
