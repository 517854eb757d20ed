"""Reading of sentence-transformers folders: pooling, further modules and maximum length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from heedful.errors import RunError
from heedful.foreign.folder_files import read_json_list, read_json_or_empty
from heedful.foreign.safetensors_files import read_safetensors
from heedful.models.transformer import POOLING_MODES, MultiModePooler, PoolingMode, SentencePooler, UnitNorm

MODULES_FILE: Final = "modules.json"
_POOLING_FOLDER: Final = "1_Pooling"
_LENGTH_FILES: Final = ("sentence_bert_config.json", "sentence_roberta_config.json")
_PROMPTS_FILE: Final = "config_sentence_transformers.json"
_POOLING_FLAGS: Final[Mapping[str, PoolingMode]] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_ACTIVATIONS: Final[Mapping[str, Callable[[], nn.Module]]] = {
    "Tanh": nn.Tanh,
    "Identity": nn.Identity,
    "ReLU": nn.ReLU,
    "GELU": nn.GELU,
    "Sigmoid": nn.Sigmoid,
}


@dataclass(frozen=True)
class SentenceSettings:
    """How a folder makes one vector of a text.

    Attributes:
        summary: makes the vector from the hidden vectors; None if no file defines it.
        max_length: maximum number of tokens, begin and end included; None if no file defines it.
        lowercase: whether texts are converted to lower case before the vocabulary does anything.
    """

    summary: SentencePooler | None = None
    max_length: int | None = None
    lowercase: bool = False

    @property
    def uses_mean_pooling(self) -> bool:
        """Whether a text's vector is the mean over its tokens, which is the default."""
        return self.summary is None or (self.summary.pooling.modes == ("mean",) and not len(self.summary.steps))


def read_sentence_settings(folder: Path, *, width: int) -> SentenceSettings:
    """Read the sentence-transformers files of a folder. `width` is the size of the encoder's hidden vectors.

    Args:
        folder: of the encoder.
        width: size of its hidden vectors.

    Raises:
        RunError: a file is damaged, or asks for a module that heedful does not support; the message names it.
    """
    max_length, lowercase = _read_length_and_case(folder)
    modules = _read_modules(folder)
    if modules is None:
        return SentenceSettings(None, max_length, lowercase)
    _reject_default_prompt(folder)
    pooling, steps = None, list[nn.Module]()
    for kind, path in modules:
        if kind == "Pooling" and pooling is None:
            pooling = _read_pooling(path, width=width)
            width *= len(pooling.modes)
        elif kind == "Dense" and pooling is not None:
            dense, activation = _read_dense(path, width=width)
            width = dense.out_features
            steps += [dense, activation]
        elif kind == "Normalize" and pooling is not None:
            steps.append(UnitNorm())
        elif kind != "Dropout":  # dropout does nothing outside training
            raise RunError(
                f"{folder / MODULES_FILE}: has the module {kind} in {path.name or 'the folder itself'}, but heedful "
                "reads one Pooling, and Dense and Normalize after it; take another model"
            )
    if pooling is None:
        raise RunError(
            f"{folder / MODULES_FILE}: does not name a Pooling, which turns a text into one vector; take another copy"
        )
    return SentenceSettings(SentencePooler(pooling, steps).eval(), max_length, lowercase)


def _read_modules(folder: Path) -> list[tuple[str, Path]] | None:
    """Read the kind and folder of each module after the encoder; None if the folder defines none."""
    modules_file = folder / MODULES_FILE
    if not modules_file.exists():
        return [("Pooling", folder / _POOLING_FOLDER)] if (folder / _POOLING_FOLDER / "config.json").exists() else None
    content = read_json_list(modules_file)
    modules = []
    for entry in content:
        kind = entry.get("type") if isinstance(entry, dict) else None
        path = entry.get("path", "") if isinstance(entry, dict) else None
        if not isinstance(kind, str) or not isinstance(path, str) or path != Path(path).name:
            raise RunError(f"{modules_file}: does not give the type and the folder of each module; take another copy")
        modules.append((kind.rpartition(".")[2], folder / path if path else folder))
    if not modules or modules[0][0] != "Transformer" or modules[0][1] != folder:
        raise RunError(f"{modules_file}: does not begin with the Transformer of this folder; take another model")
    return modules[1:]


def _read_length_and_case(folder: Path) -> tuple[int | None, bool]:
    """Read the maximum number of tokens, None if no file gives it, and whether texts are lowercased. Raise RunError if
    the number is invalid.
    """
    for name in _LENGTH_FILES:
        content = read_json_or_empty(folder / name)
        length, lowercase = content.get("max_seq_length"), content.get("do_lower_case", False)
        if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 3):
            raise RunError(
                f"{folder / name}: max_seq_length = {length!r} is not a whole number of 3 or more; correct the file"
            )
        if length is not None or lowercase:
            return length, bool(lowercase)
    return None, False


def _reject_default_prompt(folder: Path) -> None:
    """Raise RunError if the folder puts a default prompt before each text."""
    content = read_json_or_empty(folder / _PROMPTS_FILE)
    name, prompts = content.get("default_prompt_name"), content.get("prompts")
    prompt = prompts.get(name) if name is not None and isinstance(prompts, dict) else None
    if prompt:
        raise RunError(
            f"{folder / _PROMPTS_FILE}: default_prompt_name = {name!r} puts {prompt!r} before each text, which heedful "
            "does not; remove the key, and write the prompt before your texts"
        )


def _read_pooling(folder: Path, *, width: int) -> MultiModePooler:
    """Read how a pooling module makes one vector of hidden vectors of size `width`. Raise RunError if heedful lacks the
    mode, or if the module has vectors of another size.
    """
    path = folder / "config.json"
    content = read_json_or_empty(path)
    pooling_mode = content.get("pooling_mode")
    if pooling_mode is not None:
        modes = [pooling_mode] if isinstance(pooling_mode, str) else pooling_mode
    else:
        flags = {"pooling_mode_mean_tokens": True, **content}
        modes = [mode for flag, mode in _POOLING_FLAGS.items() if flags.get(flag)]
        if unknown := [key for key, value in content.items() if key.startswith("pooling_mode_") and value]:
            modes += [key for key in unknown if key not in _POOLING_FLAGS]
    if not isinstance(modes, list) or not modes or not all(mode in POOLING_MODES for mode in modes):
        raise RunError(f"{path}: pools by {modes!r}: heedful has {', '.join(POOLING_MODES)}; take a model with these")
    dimension = content.get("word_embedding_dimension", content.get("embedding_dimension", width))
    if dimension != width:
        raise RunError(
            f"{path}: pools vectors of {dimension!r} numbers, but the encoder has {width}; take another copy"
        )
    return MultiModePooler(modes)


def _read_dense(folder: Path, *, width: int) -> tuple[nn.Linear, nn.Module]:
    """Read a dense module that reads vectors of size `width`: its linear layer with weights, and its activation. Raise
    RunError if sizes do not match, or if heedful lacks the activation.
    """
    path = folder / "config.json"
    content = read_json_or_empty(path)
    inputs, outputs, bias = content.get("in_features"), content.get("out_features"), bool(content.get("bias", True))
    activation_name = str(content.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = _ACTIVATIONS.get(activation_name.rpartition(".")[2])
    if activation is None:
        raise RunError(
            f"{path}: activation_function = {activation_name!r}: heedful has {', '.join(_ACTIVATIONS)}; take a model "
            "with these"
        )
    tensors = read_safetensors(folder / "model.safetensors")
    expected_shapes: dict[str, tuple[Any, ...]] = {"linear.weight": (outputs, inputs)} | (
        {"linear.bias": (outputs,)} if bias else {}
    )
    if inputs != width or {name: tuple(tensor.shape) for name, tensor in tensors.items()} != expected_shapes:
        raise RunError(
            f"{folder}: in_features = {inputs!r} and out_features = {outputs!r} do not fit its weights or the vectors "
            f"of {width} numbers that come before; take another copy"
        )
    dense = nn.Linear(width, len(tensors["linear.weight"]), bias=bias)
    with torch.no_grad():
        dense.weight.copy_(tensors["linear.weight"])
        if bias:
            dense.bias.copy_(tensors["linear.bias"])
    return dense, activation()
