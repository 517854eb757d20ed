"""Placeholders for the weights of models that other processes compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar, final

import torch
from torch import Tensor, nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)

_LOADS_PLACEHOLDERS: Final[ContextVar[bool]] = ContextVar("heedful placeholders", default=False)


@final
class WeightPlaceholder(Tensor):
    """A tensor with the shape and the type of a weight, and without its numbers; every computation with it raises
    `RuntimeError`.
    """

    @staticmethod
    def __new__(cls, weight: Tensor, device: torch.device) -> WeightPlaceholder:
        """Return a placeholder for a tensor that is on `device` in the process that computes."""
        placeholder: WeightPlaceholder = torch.Tensor._make_wrapper_subclass(
            cls, weight.shape, dtype=weight.dtype, device=device
        )
        if isinstance(weight, nn.Parameter):
            vars(placeholder)["_is_param"] = True  # `nn.Parameter` would compute with it, and load 40 MiB for that
        return placeholder

    def __repr__(self, **_options: Any) -> str:  # type: ignore[override]  # PyTorch's would compute
        return f"WeightPlaceholder({list(self.shape)}, {self.dtype}, {self.device})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise _build_error("it was copied")

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # a function of no class there
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Raise `RuntimeError`; the arguments are those of every function of PyTorch."""
        raise _build_error(f"{func} was called")


def _build_error(use: str) -> RuntimeError:
    return RuntimeError(f"another process holds this weight, but {use} here; run it there with `run_call`")


@contextmanager
def load_placeholders() -> Iterator[None]:
    """Context manager: models that this thread loads get placeholders in place of their weights."""
    token = _LOADS_PLACEHOLDERS.set(True)
    try:
        yield
    finally:
        _LOADS_PLACEHOLDERS.reset(token)


def loads_placeholders() -> bool:
    """Return whether models that this thread loads get placeholders; see `load_placeholders`."""
    return _LOADS_PLACEHOLDERS.get()


def replace_weights(model: ModuleT, device: torch.device) -> ModuleT:
    """Replace all parameters and buffers of a model by placeholders, in place, and return it; shared ones stay shared.
    `device` is where another process has them.
    """
    placeholders: dict[int, WeightPlaceholder] = {}
    for module in model.modules():
        tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for tensors in tables:
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in placeholders:
                    placeholders[id(tensor)] = WeightPlaceholder(tensor, device)
                tensors[name] = placeholders[id(tensor)]
    return model
