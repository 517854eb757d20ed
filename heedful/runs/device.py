"""Choice of the device, and settings of the C library's memory allocator (a third of the training speed on a CPU)."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
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
"""Common names of devices; PyTorch also calls AMD GPUs cuda."""
_MAX_DIGITS: Final = 4
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
"""Options of glibc's malloc."""
_LARGE_BYTES, _MANY_BLOCKS = 2**20, 2**16
"""Size from which on a block of memory has pages of its own, and largest number of such blocks."""


def find_device(name: str | torch.device | None) -> torch.device:
    """Return the device of a name such as `cpu` or `cuda:1` after trying it out; without a name, the GPU if there is
    one. For CUDA, switch off cuDNN's attention in this process.

    Raises:
        RecipeError: there is no such device here.
    """
    device = _parse_device(name)
    if device.type == "cuda":
        # cuDNN plans its attention anew for each shape, and each batch has another one: a thirteenth of the speed
        # in training (docs/performance.md)
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def _parse_device(name: str | torch.device | None) -> torch.device:
    """Return the device of a name after trying it out, see `find_device`."""
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
    """Suggest a device for a name that PyTorch does not know, such as `cuda:0` for `gpu:0`; None if no device resembles
    it.
    """
    kind, colon, number = name.strip().partition(":")
    if number and not (number.isdecimal() and len(number) < _MAX_DIGITS):
        return None
    device_names = {**{device: device for device in _DEVICES}, **_DEVICE_ALIASES}
    match = closest_match(kind, device_names)
    return None if match is None else device_names[match] + colon + number


def get_peak_memory(device: torch.device) -> int | None:
    """Return the peak memory of this process on a device in bytes, libraries included; None if it cannot be
    determined.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if not sys.platform.startswith(("linux", "darwin")):
        return None
    from resource import RUSAGE_SELF, getrusage

    return getrusage(RUSAGE_SELF).ru_maxrss * (1024 if sys.platform.startswith("linux") else 1)


def tune_malloc() -> bool:
    """Configure glibc to keep freed memory pages instead of returning them to the kernel.

    Otherwise each large tensor gets fresh pages, which the kernel must clear; this was measured to cost a third of a
    training step. Memory stays at the peak that training needs anyway. Does nothing on systems other than Linux.

    Returns:
        Whether glibc was configured.
    """
    return _set_malloc_options({_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: -1})


def reduce_fragmentation() -> bool:
    """Configure glibc to return the memory of large tensors to the kernel as soon as they are freed.

    Gathering and freeing weights would otherwise fragment the heap: free memory was measured to be more than twice as
    large as the model.
    Does nothing on systems other than Linux.

    Returns:
        Whether glibc was configured.
    """
    return _set_malloc_options({_M_MMAP_MAX: _MANY_BLOCKS, _M_MMAP_THRESHOLD: _LARGE_BYTES})


def _set_malloc_options(options: Mapping[int, int]) -> bool:
    """Set options of glibc's malloc; return whether all were accepted."""
    is_linux = sys.platform.startswith("linux")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if is_linux else None
    return mallopt is not None and all(mallopt(option, value) for option, value in options.items())


def trim_malloc() -> bool:
    """Return unused memory pages from glibc to the kernel.

    Allocations of many sizes leave gaps, so a server process that runs for days would hold more and more memory.
    A call takes some milliseconds. Does nothing on systems other than Linux.

    Returns:
        Whether any memory was returned.
    """
    is_linux = sys.platform.startswith("linux")
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if is_linux else None
    return bool(trim and trim(0))
