"""Build models of pictures and video clips from their configs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, TypeVar

from torch import nn

from heedful.architectures.build_stack import PictureShape, build_vision_transformer
from heedful.architectures.vision import (
    ConvolutionalVisionConfig,
    EfficientNetLite0Config,
    GlimpsesConfig,
    MotionConfig,
    PictureArchitecture,
    ResNetConfig,
    TransformerVisionConfig,
    VisionConfig,
    VisionTransformerConfig,
    WholePictureConvolutionConfig,
    WholePictureFeedForwardConfig,
)
from heedful.attention import SinusoidalPosition
from heedful.attention.dropout import Dropout
from heedful.blocks.feedforward import build_xavier_linear
from heedful.blocks.recurrent import LSTM, RecurrentCell, ReLUCell
from heedful.blocks.vision import Retina
from heedful.errors import RecipeError
from heedful.models.picture_classifier import (
    GlimpseClassifier,
    GlimpseNetwork,
    GlimpsePolicy,
    LearnedPolicy,
    PictureClassifier,
    RandomPolicy,
    TransformerPictureClassifier,
    WholePictureClassifier,
)
from heedful.models.vision import (
    EfficientNetLite0,
    FrameEncoder,
    MotionNetwork,
    RegionEncoder,
    ResNet,
    SmallVisionBackbone,
    TransformerBackbone,
    VisionBackbone,
)
from heedful.registry import load_object

Network = TypeVar("Network", bound=nn.Module)


def build_vision_backbone(config: VisionConfig, *, size: int) -> VisionBackbone:
    """Build an image network with new weights, for pictures of `size` by `size` pixels."""
    build = load_object(config.built_by, context=f"model.pictures.kind = {config.kind!r}")
    network: VisionBackbone = build(config, size=size)
    return network


def load_backbone_weights(config: VisionConfig | VisionTransformerConfig, network: Network) -> Network:
    """Load the weights that the config names into an image network, or into the encoder of a picture classifier.

    Raises:
        DataError: the file does not exist or cannot be read.
        RunError: the file holds another network.
    """
    load_object(config.read_by, context=f"kind = {config.kind!r}")(network, config)
    return network


def build_region_encoder(config: VisionConfig, *, d_model: int, size: int) -> RegionEncoder:
    """Build the encoder that makes a memory of an image, with slots `d_model` wide, from its annotations: the vectors
    that the image network computes for regions in rows and columns. Images have `size` by `size` pixels.
    """
    rows = -(-size // config.region_stride) if config.places else None
    return RegionEncoder(config.d_annotation, d_model, rows=rows, dropout=config.dropout)


def build_small_backbone(
    config: ConvolutionalVisionConfig,
    *,
    size: int,  # noqa: ARG001 - windows are wherever there are pixels
) -> SmallVisionBackbone:
    """Build a small image network to be trained with the rest of the model."""
    return SmallVisionBackbone(config.widths, extra_convolutions=config.more)


def build_resnet(config: ResNetConfig, *, size: int) -> ResNet:  # noqa: ARG001 - as in `build_small_backbone`
    """Build a residual network."""
    return ResNet(config.depth, stride=config.stride)


def build_efficientnet_lite0(
    config: EfficientNetLite0Config,
    *,
    size: int,  # noqa: ARG001 - as in `build_small_backbone`
) -> EfficientNetLite0:
    """Build an EfficientNet-lite0."""
    return EfficientNetLite0(stride=config.stride)


def build_transformer_backbone(config: TransformerVisionConfig, *, size: int) -> TransformerBackbone:
    """Build a vision transformer for pictures of `size` by `size` pixels, without its classifier."""
    return TransformerBackbone(build_vision_transformer(config, picture=(3, size, size)), d_annotation=config.d_model)


def build_clip_encoder(
    vision: VisionConfig,
    motion: MotionConfig | None,
    *,
    size: int,
    d_model: int,
    encode_times: bool,
    d_features: int | None = None,
) -> FrameEncoder:
    """Build a newly initialised encoder that makes a memory of the frames of clips, with slots `d_model` wide, by an
    image network and, if given, a motion network. Frames that are vectors already, `d_features` wide, need no image
    network.

    Args:
        vision: image network for each frame.
        motion: motion network over neighbouring frames; None for none.
        size: pixels along each side of a frame.
        d_model: width of the slots.
        encode_times: whether to add sinusoids of the frame number.
        d_features: width of precomputed frame vectors, which replace `vision`.
    """
    return FrameEncoder(
        build_vision_backbone(vision, size=size) if d_features is None else None,
        None if motion is None else MotionNetwork(motion.widths),
        d_frame=vision.d_annotation if d_features is None else d_features,
        d_model=d_model,
        times=SinusoidalPosition(d_model) if encode_times else None,
        dropout=vision.dropout,
    )


_CELLS: Final[Mapping[str, type[RecurrentCell]]] = {"rectified": ReLUCell, "lstm": LSTM}


def build_picture_classifier(config: PictureArchitecture, *, picture: PictureShape, classes: int) -> PictureClassifier:
    """Build a newly initialised image classifier of any family, for pictures of this shape and `classes` classes.

    Args:
        config: its architecture.
        picture: channels, height and width of the images.
        classes: number of classes.
    """
    build = load_object(config.built_by, context=f"model.kind = {config.kind!r}")
    model: PictureClassifier = build(config, picture=picture, classes=classes)
    return model


def build_glimpse_classifier(config: GlimpsesConfig, *, picture: PictureShape, classes: int) -> GlimpseClassifier:
    """Build a glimpse classifier for `classes` classes; of the shape of pictures only the number of channels
    matters.
    """
    retina = Retina(config.patch, config.scales)
    network = GlimpseNetwork(retina, channels=picture[0], d_glimpse=config.d_glimpse, d_output=config.d_model)
    is_learned = config.policy == "learned"
    policy: GlimpsePolicy = LearnedPolicy(config.d_model, config.spread) if is_learned else RandomPolicy()
    return GlimpseClassifier(network, _CELLS[config.cell](config.d_model, config.d_model), policy, classes=classes)


def build_transformer_classifier(
    config: VisionTransformerConfig, *, picture: PictureShape, classes: int
) -> TransformerPictureClassifier:
    """Build a vision transformer for pictures of this shape that classifies them into `classes` classes; raise
    `RecipeError` if patches do not fit the picture.
    """
    encoder = build_vision_transformer(config, picture=picture)
    return TransformerPictureClassifier(encoder, build_xavier_linear(config.d_model, classes))


def build_convolutional_classifier(
    config: WholePictureConvolutionConfig, *, picture: PictureShape, classes: int
) -> WholePictureClassifier:
    """Build a convolutional classifier of whole pictures of this shape for `classes` classes; raise `RecipeError` if a
    filter is larger than the picture.
    """
    channels, *sides = picture
    if config.width > min(sides):
        raise RecipeError(f"model.width = {config.width}: a filter must fit into a picture of {sides[0]} x {sides[1]}")
    output_sizes = [(side - config.width) // config.stride + 1 for side in sides]
    return WholePictureClassifier(
        [
            nn.Conv2d(channels, config.filters, config.width, config.stride),
            nn.ReLU(),
            nn.Flatten(),
            build_xavier_linear(config.filters * output_sizes[0] * output_sizes[1], config.d_model),
            nn.ReLU(),
            Dropout(config.dropout),
            build_xavier_linear(config.d_model, classes),
        ]
    )


def build_feed_forward_classifier(
    config: WholePictureFeedForwardConfig, *, picture: PictureShape, classes: int
) -> WholePictureClassifier:
    """Build a fully connected classifier of whole pictures of this shape for `classes` classes."""
    channels, height, width = picture
    widths = [channels * height * width, *[config.d_model] * config.layers]
    hidden = [
        layer
        for d_input, d_output in pairwise(widths)
        for layer in (build_xavier_linear(d_input, d_output), nn.ReLU(), Dropout(config.dropout))
    ]
    return WholePictureClassifier([nn.Flatten(), *hidden, build_xavier_linear(config.d_model, classes)])
