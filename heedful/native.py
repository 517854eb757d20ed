"""The optional library of native code, `heedful-native`: whether it is here, and what it needs of a tensor."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor

from heedful.errors import RunError

_INTERFACE: Final = 1


@cache
def library() -> Any | None:
    """The package `heedful_native`; None where it is not installed.

    Raises:
        RunError: it is installed and cannot be used.
    """
    try:
        found = import_module("heedful_native")
    except ModuleNotFoundError:
        return None
    except (OSError, ImportError, AttributeError) as error:
        raise RunError(
            f"heedful-native: is installed and cannot be used ({error}); install it again with pip install ./native, "
            "or uninstall it"
        ) from None
    if found.INTERFACE != _INTERFACE:
        raise RunError(
            f"heedful-native: has interface {found.INTERFACE}, this version of heedful knows {_INTERFACE}; "
            "install it again with pip install ./native"
        )
    return found


def library_for(x: Tensor) -> Any | None:
    """The library, if it is here and can compute with a tensor: in single precision, on a CPU, without a gradient."""
    if x.dtype != torch.float32 or x.device.type != "cpu" or (x.requires_grad and torch.is_grad_enabled()):
        return None
    return library()


def address(x: Tensor | None) -> int | None:
    """Where the numbers of a dense tensor begin; None of nothing."""
    return None if x is None else x.data_ptr()
