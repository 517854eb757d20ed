"""Tensors that are read and written one at a time, compared with the library that does it at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from heedful import atomic_io
from heedful.errors import RunError
from heedful.lazy_tensors import LazyTensors, StoredTensors, build_templates, write_tensors

TENSORS = {
    "b.weight": torch.randn(3, 4, generator=torch.Generator().manual_seed(1)),
    "a": torch.arange(5),
    "half": torch.ones(2, 2).bfloat16(),
    "c.scalar": torch.tensor(1.5),
    "c.double": torch.tensor([1.0, 2.0], dtype=torch.float64),
    "bytes": torch.tensor([[1, 2, 3]], dtype=torch.int8),
    "empty": torch.zeros(0, 4),
    "größe": torch.tensor([True, False]),
}


class CountedTensors(LazyTensors):
    """Tensors that record which of them were read."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__(build_templates(tensors))
        self.tensors = tensors
        self.read: list[str] = []

    def __getitem__(self, name: str, /) -> Tensor:
        self.read.append(name)
        return self.tensors[name]


def test_files_are_those_of_safetensors(tmp_path: Path) -> None:
    lazy = CountedTensors(TENSORS)
    write_tensors(tmp_path / "ours", lazy)
    save_file(TENSORS, tmp_path / "theirs")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert sorted(lazy.read) == sorted(TENSORS), "each is read once"


def test_stored_tensors_are_read_when_they_are_used(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "file")
    stored, expected = StoredTensors(tmp_path / "file"), load_file(tmp_path / "file")
    assert len(stored) == len(expected)
    assert stored.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(stored[name], tensor)
        assert stored[name].dtype == tensor.dtype
        assert (stored.templates[name].shape, stored.templates[name].device.type) == (tensor.shape, "meta")
    with pytest.raises(KeyError):
        stored["missing"]


def test_columns_are_written_as_a_matrix(tmp_path: Path) -> None:
    matrix = torch.arange(12.0).view(3, 4)
    write_tensors(tmp_path / "file", CountedTensors({"t": matrix.T}))
    assert torch.equal(load_file(tmp_path / "file")["t"], matrix.T)


def test_files_larger_than_the_memory_are_opened_and_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = atomic_io.save_tensors(tmp_path / "file", CountedTensors(TENSORS))
    manifest = atomic_io.RunManifest(files={"file": digest})
    monkeypatch.setattr(atomic_io, "get_memory_limit", lambda: 100)
    assert atomic_io.open_tensors(tmp_path, "file", manifest=manifest).keys() == TENSORS.keys()
    with pytest.raises(RunError, match="file: cannot be read"):
        atomic_io.load_tensors(tmp_path, "file", manifest=manifest)
