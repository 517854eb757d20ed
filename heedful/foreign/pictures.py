"""Weights of convolutional networks as torchvision, timm and EfficientNet-PyTorch keep them.

Files are safetensors, or torch's own, of which nothing but tensors is read. A batch norm behind a convolution becomes
part of its numbers: (w x - m) g / sqrt(v + e) + b is another convolution with a bias.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from heedful.errors import DataError, RunError
from heedful.foreign.families.renaming import TABLE, Table, one
from heedful.models.pictures import EfficientNetLite0, ResNet, Vision
from heedful.store import read_tensors

_NORM: Final = ("weight", "bias", "running_mean", "running_var")
_KINDS: Final = ("*.safetensors", "*.pth", "*.pt", "*.bin")


@dataclass(frozen=True)
class Folded:
    """A convolution and the batch norm behind it.

    Attributes:
        ours: our convolution.
        kernel: theirs.
        norm: theirs.
    """

    ours: str
    kernel: str
    norm: str


def load_vision(network: Vision, path: Path) -> None:
    """Gives a network the weights in a file, or in the one file of weights below a folder.

    Layers that the network lacks, because its regions are smaller or because they classify, are left out.

    Raises:
        DataError: there is no such file, or it cannot be read.
        RunError: it holds another network; the message names the first tensor that is missing or does not fit.
    """
    place = _file(path)
    tensors = _tensors(place)
    wanted = network.state_dict()
    found = fold(tensors, _names(network, tensors), epsilon=_epsilon(network), place=str(place))
    for name, tensor in wanted.items():
        if name not in found:
            raise RunError(f"{place}: holds no tensor for {name}; take the weights of another network")
        if found[name].shape != tensor.shape:
            raise RunError(
                f"{place}: {name} would have the shape {tuple(found[name].shape)} instead of {tuple(tensor.shape)}; "
                "take the weights of another network"
            )
    network.load_state_dict({name: found[name] for name in wanted})


def fold(tensors: Mapping[str, Tensor], parts: list[Folded], *, epsilon: float, place: str) -> dict[str, Tensor]:
    """Our convolutions of theirs; `RunError` where a tensor is missing."""
    renames = [
        rename
        for part in parts
        for rename in (one(f"{part.ours}.kernel", part.kernel, TABLE), one(f"{part.ours}.norm", part.norm, _NORM))
    ]
    theirs = Table(tuple(renames), prefix="", unneeded=(r".*",)).read(tensors, place=place)
    found = {}
    for part in parts:
        kernel = theirs[f"{part.ours}.kernel.weight"].double()
        gain, bias, mean, variance = (theirs[f"{part.ours}.norm.{name}"].double() for name in _NORM)
        scale = gain / (variance + epsilon).sqrt()
        found[f"{part.ours}.conv.weight"] = (kernel * scale[:, None, None, None]).float()
        found[f"{part.ours}.conv.bias"] = (bias - mean * scale).float()
    return found


def _epsilon(network: Vision) -> float:
    """Of the batch norms that a family was trained with."""
    return 1e-3 if isinstance(network, EfficientNetLite0) else 1e-5


def _names(network: Vision, tensors: Mapping[str, Tensor]) -> list[Folded]:
    if isinstance(network, ResNet):
        return list(_resnet(network))
    return list(_of_pytorch(network) if "_conv_stem.weight" in tensors else _of_timm(network))


def _resnet(network: ResNet) -> Iterator[Folded]:
    """torchvision's names, which are timm's too."""
    yield Folded("layers.0", "conv1", "bn1")
    for stage, blocks in enumerate(list(network.layers)[2:]):
        for number, block in enumerate(blocks.children()):
            ours, theirs = f"layers.{stage + 2}.{number}", f"layer{stage + 1}.{number}"
            for place, _ in enumerate(block.get_submodule("path").children()):
                yield Folded(f"{ours}.path.{place}", f"{theirs}.conv{place + 1}", f"{theirs}.bn{place + 1}")
            if getattr(block, "across", None) is not None:
                yield Folded(f"{ours}.across", f"{theirs}.downsample.0", f"{theirs}.downsample.1")


def _blocks(network: Vision) -> Iterator[tuple[str, int, int, int, int]]:
    """Our name of each convolution of a lite0's blocks, the block's number, group and place in it, and its own of 3."""
    number = 0
    for group, (expansion, _, _, _, count) in enumerate(EfficientNetLite0.groups):
        for place in range(count):
            if number + 1 >= len(network.layers):
                return
            inner = "path." if place else ""  # the first of a group has no shortcut
            for step in range(2 + (expansion > 1)):
                yield f"layers.{number + 1}.{inner}{step}", number, group, place, step + (expansion == 1)
            number += 1


def _of_pytorch(network: Vision) -> Iterator[Folded]:
    yield Folded("layers.0", "_conv_stem", "_bn0")
    for ours, number, _, _, step in _blocks(network):
        theirs = f"_blocks.{number}"
        kernel = ("_expand_conv", "_depthwise_conv", "_project_conv")[step]
        yield Folded(ours, f"{theirs}.{kernel}", f"{theirs}._bn{step}")
    if len(network.layers) > 17:
        yield Folded("layers.17", "_conv_head", "_bn1")


def _of_timm(network: Vision) -> Iterator[Folded]:
    yield Folded("layers.0", "conv_stem", "bn1")
    for ours, _, group, place, step in _blocks(network):
        theirs = f"blocks.{group}.{place}"
        first = ("conv_pw", "conv_dw", "conv_pwl") if group else ("", "conv_dw", "conv_pw")
        yield Folded(ours, f"{theirs}.{first[step]}", f"{theirs}.bn{step + (group > 0)}")
    if len(network.layers) > 17:
        yield Folded("layers.17", "conv_head", "bn2")


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = sorted(each for pattern in _KINDS for each in path.rglob(pattern))
    if len(found) != 1:
        raise DataError(f"{path}: holds {len(found)} files of weights ({', '.join(_KINDS)}); name one")
    return found[0]


def _tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise DataError(f"{path}: there are no such weights; check the path")
    try:
        if path.suffix == ".safetensors":
            return read_tensors(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what refuses to unpickle does so in exceptions of many kinds
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path}: no file of weights that can be read ({said}); fetch it again") from None
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        raise DataError(f"{path}: holds no table of tensors; save the network's state_dict")
    return found
