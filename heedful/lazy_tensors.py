"""Tensors of a model that are read, gathered or averaged one at a time, because all of them do not fit into memory."""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, final

import torch
from safetensors import safe_open
from torch import Tensor

_DTYPE_NAMES: Final = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Names of data types in safetensors files."""
_ALIGNMENT: Final = 8
"""The tensors of a safetensors file begin at a multiple of this number of bytes."""


class LazyTensors(Mapping[str, Tensor], ABC):
    """Abstract base of tensors by name, each of which is made when it is read and not kept.

    Args:
        templates: a tensor without memory (meta device) with the shape and dtype of each tensor, by name.
    """

    def __init__(self, templates: Mapping[str, Tensor]) -> None:
        self.templates = dict(templates)

    @abstractmethod
    def __getitem__(self, name: str, /) -> Tensor: ...

    @final
    def __iter__(self) -> Iterator[str]:
        return iter(self.templates)

    @final
    def __len__(self) -> int:
        return len(self.templates)


@final
class StoredTensors(LazyTensors):
    """Tensors of a safetensors file, which stays open and is mapped into memory.

    Args:
        path: of a file whose header and digest were checked.

    Raises:
        SafetensorError: the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        file: Any = safe_open(path, framework="pt")
        self._file = file
        super().__init__({name: _build_template(file.get_tensor(name)) for name in file.keys()})  # noqa: SIM118 - not a mapping

    def __getitem__(self, name: str, /) -> Tensor:
        if name not in self.templates:
            raise KeyError(name)
        tensor: Tensor = self._file.get_tensor(name)
        return tensor


def build_templates(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a tensor without memory for each tensor, by name, with its shape and dtype; lazy tensors are not read."""
    if isinstance(tensors, LazyTensors):
        return dict(tensors.templates)
    return {name: _build_template(tensor) for name, tensor in tensors.items()}


def _build_template(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def write_tensors(path: Path, tensors: LazyTensors) -> None:
    """Write tensors to a safetensors file one after the other, so that memory holds one of them at a time.

    Their order is that of safetensors: larger data types first, then names.

    Raises:
        OSError: the file cannot be written.
    """
    names = sorted(tensors, key=lambda name: (-tensors.templates[name].element_size(), name))
    header, end = {}, 0
    for name in names:
        template = tensors.templates[name]
        start, end = end, end + template.numel() * template.element_size()
        header[name] = {
            "dtype": _DTYPE_NAMES[template.dtype],
            "shape": list(template.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            tensor = tensors[name].detach().cpu().contiguous()
            assert (tensor.shape, tensor.dtype) == (tensors.templates[name].shape, tensors.templates[name].dtype), name
            file.write(tensor.reshape(-1).view(torch.uint8).numpy().data)
