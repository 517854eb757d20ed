"""Build image networks from their configs."""

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
    """Build an image network with new weights."""
    network: VisionBackbone = load_object(config.built_by, context=f"model.pictures.kind = {config.kind!r}")(config)
    return network


def load_backbone_weights(config: VisionConfig, network: VisionBackbone) -> VisionBackbone:
    """Load the weights that the config names into an image network.

    Raises:
        DataError: the file does not exist or cannot be read.
        RunError: the file holds another network.
    """
    load_object(config.read_by, context=f"model.pictures.kind = {config.kind!r}")(network, config.weights_file)
    return network


def build_region_encoder(config: VisionConfig, *, d_model: int, size: int) -> RegionEncoder:
    """Build the encoder that makes a memory of image annotations, with slots `d_model` wide, for images of this
    size.
    """
    rows = -(-size // config.region_stride) if config.places else None
    return RegionEncoder(config.d_annotation, d_model, rows=rows, dropout=config.dropout)


def build_small_backbone(config: ConvolutionalVisionConfig) -> SmallVisionBackbone:
    """Build a small image network to be trained with the rest of the model."""
    return SmallVisionBackbone(config.widths, extra_convolutions=config.more)


def build_resnet(config: ResNetConfig) -> ResNet:
    """Build a residual network."""
    return ResNet(config.depth, stride=config.stride)


def build_efficientnet_lite0(config: EfficientNetLite0Config) -> EfficientNetLite0:
    """Build an EfficientNet-lite0."""
    return EfficientNetLite0(stride=config.stride)
