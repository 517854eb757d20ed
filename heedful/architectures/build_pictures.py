"""From the table of what looks at pictures to the network."""

from __future__ import annotations

from heedful.architectures.pictures import (
    ConvolutionalVisionConfig,
    EfficientNetLite0Config,
    ResNetConfig,
    VisionConfig,
)
from heedful.models.pictures import EfficientNetLite0, RegionEncoder, ResNet, SmallVisionBackbone, VisionBackbone
from heedful.registry import load_object


def build_vision_backbone(config: VisionConfig) -> VisionBackbone:
    """The network with fresh weights."""
    network: VisionBackbone = load_object(config.built_by, context=f"model.pictures.kind = {config.kind!r}")(config)
    return network


def load_backbone_weights(config: VisionConfig, network: VisionBackbone) -> VisionBackbone:
    """The same network with the weights that the table names.

    Raises:
        DataError: there is no such file, or it cannot be read.
        RunError: it holds another network.
    """
    load_object(config.read_by, context=f"model.pictures.kind = {config.kind!r}")(network, config.weights_file)
    return network


def build_region_encoder(config: VisionConfig, *, d_model: int, size: int) -> RegionEncoder:
    """What makes a memory of the annotations of pictures of this size, in slots `d_model` wide."""
    rows = -(-size // config.region_stride) if config.places else None
    return RegionEncoder(config.d_annotation, d_model, rows=rows, dropout=config.dropout)


def build_small_backbone(config: ConvolutionalVisionConfig) -> SmallVisionBackbone:
    """One that learns with the rest."""
    return SmallVisionBackbone(config.widths, extra_convolutions=config.more)


def build_resnet(config: ResNetConfig) -> ResNet:
    """A residual network."""
    return ResNet(config.depth, stride=config.stride)


def build_efficientnet_lite0(config: EfficientNetLite0Config) -> EfficientNetLite0:
    """EfficientNet-lite0."""
    return EfficientNetLite0(stride=config.stride)
