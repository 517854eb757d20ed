"""What is read from disk goes where it belongs, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from heedful.errors import RunError

_REMEDY = "restore it from a copy or train again"


def require_alike(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], *, place: str, prefix: str = "") -> None:
    """Refuses tensors that are not, name for name, of the shapes and types of those that they are for.

    Kernels believe what they are told: a moment of another shape than its parameter is written behind its end.

    Args:
        found: what was read.
        wanted: what it is for.
        place: the file.
        prefix: of the names in that file.

    Raises:
        RunError: names the file, the tensor, and what both are.
    """
    for name in wanted:
        if name not in found:
            raise RunError(f"{place}: has no {prefix}{name}, which this run needs; {_REMEDY}")
    for name, tensor in found.items():
        if name not in wanted:
            raise RunError(f"{place}: {prefix}{name} belongs to nothing in this run; {_REMEDY}")
        if (tensor.shape, tensor.dtype) != (wanted[name].shape, wanted[name].dtype):
            raise RunError(
                f"{place}: {prefix}{name} is {_kind(tensor)}, this run needs {_kind(wanted[name])}; {_REMEDY}"
            )


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
