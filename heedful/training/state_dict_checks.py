"""Checks of tensors read from disk."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from heedful.errors import RunError

_REMEDY = "restore it from a copy or train again"


def require_same_tensors(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], *, location: str, prefix: str = ""
) -> None:
    """Raise unless `tensors` has the same names, shapes and dtypes as `expected`.

    Kernels rely on it: a moment of another shape than its parameter would be written beyond its end.

    Args:
        tensors: the tensors that were read.
        expected: the tensors that they are for.
        location: the file, for messages.
        prefix: of the names in that file.

    Raises:
        RunError: names the file, the tensor, and both shapes and dtypes.
    """
    for name in expected:
        if name not in tensors:
            raise RunError(f"{location}: has no {prefix}{name}, which this run needs; {_REMEDY}")
    for name, tensor in tensors.items():
        if name not in expected:
            raise RunError(f"{location}: {prefix}{name} is not part of this run; {_REMEDY}")
        if (tensor.shape, tensor.dtype) != (expected[name].shape, expected[name].dtype):
            raise RunError(
                f"{location}: {prefix}{name} is {_describe_tensor(tensor)}, this run needs "
                f"{_describe_tensor(expected[name])}; {_REMEDY}"
            )


def _describe_tensor(tensor: Tensor) -> str:
    """Return dtype and shape of a tensor as text."""
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
