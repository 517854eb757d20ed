"""Weights of convolutional networks from torchvision, timm and EfficientNet-PyTorch.

Files are safetensors, or torch's own format, of which only tensors are read. A batch norm after a convolution is folded
into it: (w x - m) g / sqrt(v + e) + b is another convolution with a bias.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from heedful.architectures.vision import VisionConfig
from heedful.atomic_io import read_tensors
from heedful.errors import DataError, RunError
from heedful.foreign.families.tensor_names import TABLE_PARAMETERS, StateDictMapping, rename_part
from heedful.models.vision import ConvolutionalBackbone, EfficientNetLite0, ResNet

_NORM_PARAMETERS: Final = ("weight", "bias", "running_mean", "running_var")
_WEIGHT_PATTERNS: Final = ("*.safetensors", "*.pth", "*.pt", "*.bin")


@dataclass(frozen=True)
class ConvolutionWithNorm:
    """Names of a convolution and the batch norm after it.

    Attributes:
        heedful_name: the convolution in heedful.
        kernel: the foreign convolution.
        norm: the foreign batch norm.
    """

    heedful_name: str
    kernel: str
    norm: str


def load_convolutional_weights(network: ConvolutionalBackbone, config: VisionConfig) -> None:
    """Load the weights that the config names into its network; raises like `load_vision_weights`."""
    assert config.weights_file is not None
    load_vision_weights(network, config.weights_file)


def load_vision_weights(network: ConvolutionalBackbone, path: Path) -> None:
    """Load a network's weights from a file, or from the only weight file below a folder.

    Layers that the network lacks, because its regions are smaller or because they classify, are left out.

    Raises:
        DataError: there is no such file, or it cannot be read.
        RunError: it holds another network; the message names the first tensor that is missing or does not fit.
    """
    file = _find_weight_file(path)
    tensors = _read_weight_file(file)
    parameters = network.state_dict()
    result = fold_batch_norms(
        tensors, _list_convolutions(network, tensors), epsilon=_get_norm_epsilon(network), location=str(file)
    )
    for name, tensor in parameters.items():
        if name not in result:
            raise RunError(f"{file}: does not contain a tensor for {name}; take the weights of another network")
        if result[name].shape != tensor.shape:
            raise RunError(
                f"{file}: {name} would have the shape {tuple(result[name].shape)} instead of {tuple(tensor.shape)}; "
                "take the weights of another network"
            )
    network.load_state_dict({name: result[name] for name in parameters})


def fold_batch_norms(
    tensors: Mapping[str, Tensor], parts: list[ConvolutionWithNorm], *, epsilon: float, location: str
) -> dict[str, Tensor]:
    """Fold batch norms into the convolutions before them, and return weights and biases by heedful's names. `parts` has
    the names of both, and `epsilon` is that of the norms. Raise RunError, which names `location`, if a tensor is
    missing.
    """
    renames = [
        rename
        for part in parts
        for rename in (
            rename_part(f"{part.heedful_name}.kernel", part.kernel, TABLE_PARAMETERS),
            rename_part(f"{part.heedful_name}.norm", part.norm, _NORM_PARAMETERS),
        )
    ]
    foreign = StateDictMapping(tuple(renames), prefix="", ignored=(r".*",)).import_tensors(tensors, location=location)
    result = {}
    for part in parts:
        kernel = foreign[f"{part.heedful_name}.kernel.weight"].double()
        gain, bias, mean, variance = (foreign[f"{part.heedful_name}.norm.{name}"].double() for name in _NORM_PARAMETERS)
        scale = gain / (variance + epsilon).sqrt()
        result[f"{part.heedful_name}.conv.weight"] = (kernel * scale[:, None, None, None]).float()
        result[f"{part.heedful_name}.conv.bias"] = (bias - mean * scale).float()
    return result


def _get_norm_epsilon(network: ConvolutionalBackbone) -> float:
    """Return the epsilon of the batch norms that this network family was trained with."""
    return 1e-3 if isinstance(network, EfficientNetLite0) else 1e-5


def _list_convolutions(network: ConvolutionalBackbone, tensors: Mapping[str, Tensor]) -> list[ConvolutionWithNorm]:
    """List the convolutions of a network with their foreign names; for EfficientNet, the names in `tensors` tell which
    project wrote them.
    """
    if isinstance(network, ResNet):
        return list(_iter_resnet_names(network))
    return list(_iter_pytorch_names(network) if "_conv_stem.weight" in tensors else _iter_timm_names(network))


def _iter_resnet_names(network: ResNet) -> Iterator[ConvolutionWithNorm]:
    """Yield the convolutions of a ResNet by the names of torchvision and timm."""
    yield ConvolutionWithNorm("layers.0", "conv1", "bn1")
    for stage, blocks in enumerate(list(network.layers)[2:]):
        for number, block in enumerate(blocks.children()):
            heedful_name, foreign_name = f"layers.{stage + 2}.{number}", f"layer{stage + 1}.{number}"
            for index, _ in enumerate(block.get_submodule("path").children()):
                yield ConvolutionWithNorm(
                    f"{heedful_name}.path.{index}", f"{foreign_name}.conv{index + 1}", f"{foreign_name}.bn{index + 1}"
                )
            if getattr(block, "across", None) is not None:
                yield ConvolutionWithNorm(
                    f"{heedful_name}.across", f"{foreign_name}.downsample.0", f"{foreign_name}.downsample.1"
                )


def _iter_lite0_blocks(network: ConvolutionalBackbone) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield each convolution of the blocks that an EfficientNet-Lite0 has: heedful's name, number of the block, its
    group, its index in the group, and which of the three convolutions it is (0 to expand, 1 depthwise, 2 to project).
    """
    number = 0
    for group, (expansion, _, _, _, count) in enumerate(EfficientNetLite0.groups):
        for index in range(count):
            if number + 1 >= len(network.layers):
                return
            inner = "path." if index else ""  # the first of a group has no shortcut
            for step in range(2 + (expansion > 1)):
                yield f"layers.{number + 1}.{inner}{step}", number, group, index, step + (expansion == 1)
            number += 1


def _iter_pytorch_names(network: ConvolutionalBackbone) -> Iterator[ConvolutionWithNorm]:
    """Yield the convolutions of an EfficientNet-Lite0 by the names of EfficientNet-PyTorch."""
    yield ConvolutionWithNorm("layers.0", "_conv_stem", "_bn0")
    for heedful_name, number, _, _, step in _iter_lite0_blocks(network):
        foreign_name = f"_blocks.{number}"
        kernel = ("_expand_conv", "_depthwise_conv", "_project_conv")[step]
        yield ConvolutionWithNorm(heedful_name, f"{foreign_name}.{kernel}", f"{foreign_name}._bn{step}")
    if len(network.layers) > 17:
        yield ConvolutionWithNorm("layers.17", "_conv_head", "_bn1")


def _iter_timm_names(network: ConvolutionalBackbone) -> Iterator[ConvolutionWithNorm]:
    """Yield the convolutions of an EfficientNet-Lite0 by the names of timm."""
    yield ConvolutionWithNorm("layers.0", "conv_stem", "bn1")
    for heedful_name, _, group, index, step in _iter_lite0_blocks(network):
        foreign_name = f"blocks.{group}.{index}"
        first = ("conv_pw", "conv_dw", "conv_pwl") if group else ("", "conv_dw", "conv_pw")
        yield ConvolutionWithNorm(
            heedful_name, f"{foreign_name}.{first[step]}", f"{foreign_name}.bn{step + (group > 0)}"
        )
    if len(network.layers) > 17:
        yield ConvolutionWithNorm("layers.17", "conv_head", "bn2")


def _find_weight_file(path: Path) -> Path:
    """Return the file itself, or the only weight file below a folder; raise DataError if there is not exactly one."""
    if not path.is_dir():
        return path
    files = sorted(file for pattern in _WEIGHT_PATTERNS for file in path.rglob(pattern))
    if len(files) != 1:
        raise DataError(f"{path}: holds {len(files)} files of weights ({', '.join(_WEIGHT_PATTERNS)}); name one")
    return files[0]


def _read_weight_file(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a weight file; raise DataError if it cannot be read."""
    if not path.is_file():
        raise DataError(f"{path}: does not exist; check the path")
    try:
        if path.suffix == ".safetensors":
            return read_tensors(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling fails with exceptions of many kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path}: is not a readable file of weights ({reason}); download it again") from None
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise DataError(f"{path}: is not a table of tensors; save the network's state_dict")
    return content
