"""What is read from disk goes where it belongs, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from heedful.errors import RunError

_REMEDY = "restore it from a copy or train again"


def require_same_tensors(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], *, location: str, prefix: str = ""
) -> None:
    """Refuses tensors that are not, name for name, of the shapes and types of those that they are for.

    Kernels believe what they are told: a moment of another shape than its parameter is written behind its end.

    Args:
        tensors: what was read.
        expected: what it is for.
        location: the file.
        prefix: of the names in that file.

    Raises:
        RunError: names the file, the tensor, and what both are.
    """
    for name in expected:
        if name not in tensors:
            raise RunError(f"{location}: has no {prefix}{name}, which this run needs; {_REMEDY}")
    for name, tensor in tensors.items():
        if name not in expected:
            raise RunError(f"{location}: {prefix}{name} belongs to nothing in this run; {_REMEDY}")
        if (tensor.shape, tensor.dtype) != (expected[name].shape, expected[name].dtype):
            raise RunError(
                f"{location}: {prefix}{name} is {_describe_tensor(tensor)}, this run needs {_describe_tensor(expected[name])}; {_REMEDY}"
            )


def _describe_tensor(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
