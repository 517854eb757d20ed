"""From the table of what looks at pictures to the network."""

from __future__ import annotations

from heedful.architectures.pictures import (
    ConvolutionalVisionConfig,
    EfficientNetLite0Config,
    ResNetConfig,
    VisionConfig,
)
from heedful.catalogue import find
from heedful.models.pictures import EfficientNetLite0, RegionEncoder, ResNet, SmallVision, Vision


def build_vision(config: VisionConfig) -> Vision:
    """The network with fresh weights."""
    network: Vision = find(config.built_by, about=f"model.pictures.kind = {config.kind!r}")(config)
    return network


def load_trained(config: VisionConfig, network: Vision) -> Vision:
    """The same network with the weights that the table names.

    Raises:
        DataError: there is no such file, or it cannot be read.
        RunError: it holds another network.
    """
    find(config.read_by, about=f"model.pictures.kind = {config.kind!r}")(network, config.source)
    return network


def build_regions(config: VisionConfig, *, d_model: int, size: int) -> RegionEncoder:
    """What makes a memory of the annotations of pictures of this size, in slots `d_model` wide."""
    rows = -(-size // config.step) if config.places else None
    return RegionEncoder(config.d_annotation, d_model, rows=rows, dropout=config.dropout)


def small(config: ConvolutionalVisionConfig) -> SmallVision:
    """One that learns with the rest."""
    return SmallVision(config.widths, more=config.more)


def resnet(config: ResNetConfig) -> ResNet:
    """A residual network."""
    return ResNet(config.depth, stride=config.stride)


def efficientnet_lite0(config: EfficientNetLite0Config) -> EfficientNetLite0:
    """EfficientNet-lite0."""
    return EfficientNetLite0(stride=config.stride)
