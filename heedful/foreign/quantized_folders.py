"""Hugging Face folders whose weights are stored in 8 bits, in a file of heedful's own."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from torch import Tensor, nn

from heedful.atomic_io import atomic_folder, describe_error, read_tensors, save_tensors, write_json
from heedful.engines.int8_weights import Int8Weights, quantize_weights, read_int8_weights
from heedful.errors import RunError
from heedful.foreign.folder_files import read_json_object
from heedful.foreign.safetensors_files import PICKLED_SUFFIXES, read_folder_tensors

QUANTIZED_FILE: Final = "heedful.int8.safetensors"
"""File of the weights, by heedful's names."""
_NAMES_FILE: Final = "heedful.int8.json"
"""File with the names of the published tensors, which decide about the architecture."""
_WEIGHT_SUFFIXES: Final = frozenset({".safetensors", ".h5", ".msgpack", ".onnx", ".ot", ".gguf", *PICKLED_SUFFIXES})
_INDEX_SUFFIX: Final = ".index.json"
_MODULE_FOLDER: Final = re.compile(r"\d+_\w+")
"""Name of the folder of a module of sentence-transformers, such as 1_Pooling."""


@dataclass(frozen=True)
class FolderWeights:
    """Weights of a Hugging Face folder as they are stored: under published names, or quantized under heedful's names.

    Attributes:
        names: names of the published tensors; for a quantized folder, those of the folder that it was made from.
        published: tensors by these names; empty if the folder is quantized.
        quantized: the weights of a quantized folder by heedful's names, otherwise None.
    """

    names: frozenset[str]
    published: Mapping[str, Tensor]
    quantized: Int8Weights | None = None

    def convert(self, convert_names: Callable[[Mapping[str, Tensor]], dict[str, Tensor]]) -> Mapping[str, Tensor]:
        """Return the weights by heedful's names: those of a quantized folder, or the result of `convert_names` for the
        published tensors.
        """
        return convert_names(self.published) if self.quantized is None else self.quantized


def read_folder_weights(folder: Path) -> FolderWeights:
    """Read the weights of a Hugging Face folder, which may be quantized.

    Raises:
        RunError: there are none, they are pickled, or a file is missing or damaged.
    """
    path = folder / QUANTIZED_FILE
    if not path.exists():
        tensors = read_folder_tensors(folder)
        return FolderWeights(frozenset(tensors), tensors)
    names = read_json_object(folder / _NAMES_FILE).get("published_names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RunError(
            f"{folder / _NAMES_FILE}: contains no names of tensors; restore it from a copy or quantize again"
        )
    try:
        stored = read_tensors(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(
            f"{path}: cannot be read ({describe_error(error)}); restore it from a copy or quantize again"
        ) from None
    return FolderWeights(frozenset(names), {}, read_int8_weights(stored, location=str(path)))


def save_quantized_folder(
    folder: Path, target: Path, *, model: nn.Module, tensors: Mapping[str, Tensor], names: frozenset[str]
) -> tuple[int, int]:
    """Write a copy of a Hugging Face folder with its large matrices as int8; return the size of the weights in bytes,
    before and after.

    The other files of the folder and of its sentence-transformers modules are copied, but no weights in other formats
    and no other subfolders. heedful can read the copy; transformers cannot.

    Args:
        folder: the Hugging Face folder.
        target: the folder to write; new or empty.
        model: a model of this architecture, which decides which matrices are large; its values are not used.
        tensors: its weights by heedful's names.
        names: names of its published tensors.

    Raises:
        RunError: `target` is not empty or cannot be written.
    """
    stored = quantize_weights(model, tensors)
    with atomic_folder(target, purpose="quantize to") as new_folder:
        copy_files_except_weights(folder, new_folder)
        save_tensors(new_folder / QUANTIZED_FILE, stored)
        write_json(new_folder / _NAMES_FILE, {"format": 1, "published_names": sorted(names)})
    return sum(tensor.nbytes for tensor in tensors.values()), sum(tensor.nbytes for tensor in stored.values())


def copy_files_except_weights(folder: Path, target: Path) -> None:
    """Copy the files of a folder and of its sentence-transformers modules, except the weights of the model and what
    describes them.
    """
    for path in sorted(folder.iterdir()):
        describes_weights = path.name.endswith(_INDEX_SUFFIX) or path.name == _NAMES_FILE
        if path.is_file() and path.suffix not in _WEIGHT_SUFFIXES and not describes_weights:
            shutil.copyfile(path, target / path.name)
        elif path.is_dir() and _MODULE_FOLDER.fullmatch(path.name):
            shutil.copytree(path, target / path.name)
