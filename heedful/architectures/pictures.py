"""What looks at pictures, as data: small networks that learn with the rest, and trained ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from heedful.recipes.config import Config, InputPath, PositiveInt, Probability, add_default_kind


class VisionConfig(Config):
    """A network that makes an annotation of each region, and how a decoder gets them; abstract.

    Attributes:
        built_by: what makes the network with fresh weights, as "module:NAME"; it takes this table.
        read_by: what gives it those of `weights`; it takes the network and the file. Empty where there are none.
    """

    built_by: ClassVar[str]
    read_by: ClassVar[str] = ""

    kind: str
    places: bool = True
    """whether regions are told apart by their rows and columns too"""
    dropout: Probability = 0.0
    """of the regions"""

    @property
    def region_stride(self) -> int:
        """Pixels from one region to the next."""
        raise NotImplementedError

    @property
    def d_annotation(self) -> int:
        """Channels of a region."""
        raise NotImplementedError

    @property
    def weights_file(self) -> Path | None:
        """The file of trained weights; None where all are learned."""
        return None

    @property
    def is_frozen(self) -> bool:
        """Whether the network learns nothing, so that it looks at each picture once, before training."""
        return False


class ConvolutionalVisionConfig(VisionConfig):
    """Convolutions of stride 2 and relu, normed by groups of channels; all of it is learned."""

    built_by: ClassVar = "heedful.architectures.build_pictures:build_small_backbone"

    kind: Literal["convolutional"] = "convolutional"
    widths: Annotated[tuple[PositiveInt, ...], Field(min_length=1, strict=False)] = (32, 64, 128)
    """channels behind each halving of the picture"""
    more: Annotated[int, Field(ge=0)] = 0
    """further convolutions behind each"""

    @property
    def region_stride(self) -> int:
        """2 for each width."""
        return int(2 ** len(self.widths))

    @property
    def d_annotation(self) -> int:
        """The last width."""
        return self.widths[-1]


class PretrainedVisionConfig(VisionConfig):
    """A network that was trained to classify pictures; abstract."""

    read_by: ClassVar = "heedful.foreign.vision_weights:load_vision_weights"

    weights: InputPath
    """file of its weights, safetensors or a state_dict that torch saved, or the folder of the package that has it"""
    frozen: bool = True
    """whether it stays as it is; then its annotations are computed once, and kept"""
    stride: int = 32
    """pixels from one region to the next"""

    @property
    def region_stride(self) -> int:
        """The stride."""
        return self.stride

    @property
    def weights_file(self) -> Path:
        """The file."""
        return self.weights

    @property
    def is_frozen(self) -> bool:
        """Where it is frozen."""
        return self.frozen


class ResNetConfig(PretrainedVisionConfig):
    """A residual network (He et al. 2016) with weights of torchvision or timm."""

    built_by: ClassVar = "heedful.architectures.build_pictures:build_resnet"

    kind: Literal["resnet"] = "resnet"
    depth: Literal[18, 34, 50, 101] = 50
    """layers of the whole network"""
    stride: Literal[8, 16, 32] = 32
    """pixels from one region to the next; later stages are left out"""

    @property
    def d_annotation(self) -> int:
        """By depth and stride."""
        return {8: 128, 16: 256, 32: 512}[self.stride] * (4 if self.depth >= 50 else 1)


class EfficientNetLite0Config(PretrainedVisionConfig):
    """EfficientNet-lite0 with weights of EfficientNet-PyTorch or timm."""

    built_by: ClassVar = "heedful.architectures.build_pictures:build_efficientnet_lite0"

    kind: Literal["efficientnet_lite0"] = "efficientnet_lite0"
    stride: Literal[16, 32] = 32
    """pixels from one region to the next; later layers are left out"""

    @property
    def d_annotation(self) -> int:
        """By stride."""
        return {16: 112, 32: 1280}[self.stride]


AnyVisionConfig = Annotated[
    ConvolutionalVisionConfig | ResNetConfig | EfficientNetLite0Config,
    Field(discriminator="kind"),
    add_default_kind("convolutional"),
]
