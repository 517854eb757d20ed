"""Access to the optional native library, the package `heedful-native`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor

from heedful.errors import RunError

_INTERFACE_VERSION: Final = 5


@cache
def load_library() -> Any | None:
    """Import the package `heedful_native`; return None if it is not installed.

    Raises:
        RunError: it is installed but cannot be used.
    """
    try:
        module = import_module("heedful_native")
    except ModuleNotFoundError:
        return None
    except (OSError, ImportError, AttributeError) as error:
        raise RunError(
            f"heedful-native: is installed but cannot be used ({error}); install it again with pip install ./native, "
            "or uninstall it"
        ) from None
    if module.INTERFACE != _INTERFACE_VERSION:
        raise RunError(
            f"heedful-native: has interface {module.INTERFACE}, this version of heedful knows {_INTERFACE_VERSION}; "
            "install it again with pip install ./native"
        )
    return module


def require_library() -> Any:
    """Return the native library; raise `RunError` if it is not installed."""
    library = load_library()
    if library is None:
        raise RunError("heedful-native: is not installed; install it with pip install ./native")
    return library


def find_library_for(tensor: Tensor) -> Any | None:
    """Return the native library if it is installed and supports the tensor: fp32, on a CPU, without gradient."""
    if (
        tensor.dtype != torch.float32
        or tensor.device.type != "cpu"
        or (tensor.requires_grad and torch.is_grad_enabled())
    ):
        return None
    return load_library()


def data_pointer(tensor: Tensor | None) -> int | None:
    """Return the address of a tensor's data; None for None."""
    return None if tensor is None else tensor.data_ptr()
