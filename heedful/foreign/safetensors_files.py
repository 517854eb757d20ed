"""Reading of safetensors: single files and whole model folders, with a message if pickled weights are there instead."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from torch import Tensor

from heedful.atomic_io import describe_error, read_tensors
from heedful.errors import RunError
from heedful.foreign.folder_files import read_json_object

PICKLED_SUFFIXES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
"""File name suffixes of torch's pickled weights."""
_WEIGHTS_FILE: Final = "model.safetensors"
_INDEX_FILE: Final = "model.safetensors.index.json"
_PICKLED_FILES: Final = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "flax_model.msgpack",
    "model.ckpt",
)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of one file by name, floating-point numbers in single precision.

    Raises:
        RunError: there is none, it is damaged, or a pickled file is there instead.
    """
    if not path.exists() and (pickled := find_pickled_file(path.parent)) is not None:
        raise RunError(
            f"{pickled}: heedful does not read pickled weights, because opening them may run a program; if you trust "
            f"this file, save it as {path.name} in the same folder: python -c 'import sys, torch; from "
            "safetensors.torch import "
            f'save_file; save_file(torch.load(sys.argv[1], weights_only=True), sys.argv[2])\' "{pickled}" "{path}"'
        )
    return _read_as_single_precision(path, "a complete copy")


def find_pickled_file(folder: Path) -> Path | None:
    """Return the first file of a folder with a suffix of pickled weights, or None."""
    files = (
        (path for path in sorted(folder.iterdir()) if path.suffix in PICKLED_SUFFIXES) if folder.is_dir() else iter(())
    )
    return next(files, None)


def list_weight_files(folder: Path) -> list[Path]:
    """List the files of a folder's tensors, sorted by name.

    Raises:
        RunError: the index of weights is damaged.
    """
    names = _read_weight_map(folder)
    if names is None:
        return [folder / _WEIGHTS_FILE]
    for file in names.values():
        if Path(file).name != file:
            raise RunError(
                f"{folder / _INDEX_FILE}: names {file!r}, which is not a file in the same folder; take another copy"
            )
    return [folder / file for file in sorted(set(names.values()))]


def _read_weight_map(folder: Path) -> dict[str, str] | None:
    """Read the file name of each tensor from the index; None if there is no index."""
    if not (folder / _INDEX_FILE).exists():
        return None
    names = read_json_object(folder / _INDEX_FILE).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise RunError(f"{folder / _INDEX_FILE}: does not say where tensors are; take another copy of this file")
    return names


def read_folder_tensors(folder: Path, *, auto_class: str = "AutoModel") -> dict[str, Tensor]:
    """Read all tensors of a model folder by name, floating-point numbers in single precision. `auto_class` is a class
    of transformers that a message names.

    Args:
        folder: of the model.
        auto_class: the class of transformers that loads such a model completely, for messages.

    Raises:
        RunError: there are none, they are pickled, or a file is missing or damaged.
    """
    names, files = _read_weight_map(folder), list_weight_files(folder)
    if names is None and not (folder / _WEIGHTS_FILE).exists():
        candidates = (folder / name for name in _PICKLED_FILES if (folder / name).exists())
        if (pickled := next(candidates, find_pickled_file(folder))) is not None:
            raise RunError(
                f"{pickled}: heedful does not read pickled weights, because opening them may run a program; save "
                "the model as safetensors, with transformers: "
                f"{auto_class}.from_pretrained(FOLDER).save_pretrained(NEW, safe_serialization=True)"
            )
        raise RunError(f"{folder}: does not contain {_WEIGHTS_FILE}; take a complete copy of this model")
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= _read_as_single_precision(file, "a complete copy of this model")
    if names is not None and (missing := sorted(names.keys() - tensors.keys())):
        raise RunError(f"{folder}: {missing[0]} is in none of its files; take a complete copy of this model")
    return tensors


def _read_as_single_precision(path: Path, remedy: str) -> dict[str, Tensor]:
    """Read the tensors of a file, floating-point numbers in single precision. Raise RunError, which recommends
    `remedy`, if it cannot be read.
    """
    try:
        tensors = read_tensors(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({describe_error(error)}); take {remedy}") from None
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
