"""Configs of models of pictures and video clips: captioners, and image classifiers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from heedful.architectures.attention import NoPositionsConfig, SinusoidalConfig
from heedful.architectures.interface import union_of_families
from heedful.architectures.model import MemoryDecoderConfig
from heedful.architectures.stack import Activation, StackConfig, TransformerMemoryDecoderConfig
from heedful.recipes.config import (
    Config,
    InputPath,
    LengthLimit,
    PositiveInt,
    Probability,
    add_default_kind,
    config_error,
)
from heedful.recipes.recipe import ArchitectureConfig

ColourMeans = Annotated[
    tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1, max_length=3, strict=False)
]
ColourDeviations = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1, max_length=3, strict=False)]


class VisionConfig(Config):
    """Abstract: an image network that computes an annotation of each region.

    Attributes:
        built_by: function that builds the network with new weights, as "module:NAME"; it takes this config, and as
            `size` the pixels along each side of the pictures.
        read_by: function that loads `weights` into it; it takes the network and this config. Empty without weights.
    """

    built_by: ClassVar[str]
    read_by: ClassVar[str] = ""

    kind: str
    places: bool = True
    """whether slots include the row and column of their region"""
    dropout: Probability = 0.0
    """dropout of the regions"""

    @property
    def region_stride(self) -> int:
        """Pixels from one region to the next."""
        raise NotImplementedError

    @property
    def needs_whole_regions(self) -> bool:
        """Whether regions must divide a picture evenly."""
        return False

    @property
    def d_annotation(self) -> int:
        """Channels of a region."""
        raise NotImplementedError

    @property
    def weights_file(self) -> Path | None:
        """The file of pre-trained weights; None if all weights are trained."""
        return None

    @property
    def is_frozen(self) -> bool:
        """Whether the network is frozen, so that each picture is encoded only once, before training."""
        return False


class ConvolutionalVisionConfig(VisionConfig):
    """Convolutions of stride 2 with ReLU and group norm; trained from scratch."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_small_backbone"

    kind: Literal["convolutional"] = "convolutional"
    widths: Annotated[tuple[PositiveInt, ...], Field(min_length=1, strict=False)] = (32, 64, 128)
    """channels after each halving of the picture"""
    more: Annotated[int, Field(ge=0)] = 0
    """number of further convolutions after each"""

    @property
    def region_stride(self) -> int:
        """A factor of 2 for each width."""
        return int(2 ** len(self.widths))

    @property
    def d_annotation(self) -> int:
        """The last width."""
        return self.widths[-1]


class PretrainedVisionConfig(VisionConfig):
    """Abstract: a network that was pre-trained to classify pictures."""

    read_by: ClassVar = "heedful.foreign.vision_weights:load_convolutional_weights"

    weights: InputPath
    """file of its weights, safetensors or a state_dict saved by torch, or the folder of the package that contains it"""
    frozen: bool = True
    """whether the weights stay fixed; then its annotations are computed once and stored"""
    stride: int = 32
    """pixels from one region to the next"""

    @property
    def region_stride(self) -> int:
        """The stride."""
        return self.stride

    @property
    def weights_file(self) -> Path:
        """The file of weights."""
        return self.weights

    @property
    def is_frozen(self) -> bool:
        """Whether the weights are frozen."""
        return self.frozen


class ResNetConfig(PretrainedVisionConfig):
    """A residual network (He et al. 2016) with weights of torchvision or timm."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_resnet"

    kind: Literal["resnet"] = "resnet"
    depth: Literal[18, 34, 50, 101] = 50
    """layers of the whole network"""
    stride: Literal[8, 16, 32] = 32
    """pixels from one region to the next; later stages are left out"""

    @property
    def d_annotation(self) -> int:
        """Channels by depth and stride."""
        return {8: 128, 16: 256, 32: 512}[self.stride] * (4 if self.depth >= 50 else 1)


class EfficientNetLite0Config(PretrainedVisionConfig):
    """EfficientNet-lite0 with weights of EfficientNet-PyTorch or timm."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_efficientnet_lite0"

    kind: Literal["efficientnet_lite0"] = "efficientnet_lite0"
    stride: Literal[16, 32] = 32
    """pixels from one region to the next; later layers are left out"""

    @property
    def d_annotation(self) -> int:
        """Channels by stride."""
        return {16: 112, 32: 1280}[self.stride]


class PatchPositionsConfig(Config):
    """A learned vector for the class token and for each patch (Dosovitskiy et al. 2021, eq. 1)."""

    kind: Literal["learned"] = "learned"


PicturePositionsConfig = Annotated[
    PatchPositionsConfig | SinusoidalConfig | NoPositionsConfig,
    Field(discriminator="kind"),
    add_default_kind("learned"),
]


class PatchTransformerConfig(StackConfig):
    """Abstract: a Transformer that reads the patches of a picture, behind a class token (Dosovitskiy et al. 2021,
    ViT).

    Attributes:
        read_by: function that loads `weights` into its encoder, as "module:NAME"; it takes the model and this config.
    """

    read_by: ClassVar[str] = "heedful.foreign.picture_folders:load_encoder_weights"

    kind: Literal["vit"] = "vit"  # type: ignore[assignment]  # pydantic needs it
    patch: PositiveInt = 16
    """pixels along a side of a patch, which becomes a token; it must divide the sides of the pictures"""
    layers: PositiveInt = 4
    """layers on top of each other"""
    activation: Activation = "gelu"
    """activation of a feed-forward block; gelu_tanh is GPT-2's approximation of gelu"""
    residual: Literal["post_norm", "pre_norm"] = "pre_norm"
    """whether the normalisation precedes each sublayer (as in the paper), with one more after the last, or follows
    it"""
    positions: PicturePositionsConfig = PatchPositionsConfig()  # type: ignore[assignment]  # no length is needed
    """position encoding of the class token and the patches, row by row"""
    scale_embedding: bool = False
    """multiply the projected patches by the root of d_model"""
    mean: ColourMeans = (0.5,)
    """number from 0 to 1 that is subtracted from each colour channel, or the only one for all channels"""
    deviation: ColourDeviations = (0.5,)
    """number that each colour channel is divided by, or the only one for all channels"""
    weights: InputPath | None = None
    """folder of a published ViT (Hugging Face), whose weights training starts from; new weights if not given"""


class TransformerVisionConfig(PatchTransformerConfig, VisionConfig):
    """A vision transformer (Dosovitskiy et al. 2021, ViT); its patches are the regions."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_transformer_backbone"

    kind: Literal["vit"] = "vit"  # type: ignore[assignment]  # pydantic needs it
    frozen: Annotated[bool, Field(validate_default=True)] = False
    """whether the weights stay fixed; then its annotations are computed once and stored"""

    @field_validator("frozen")
    @classmethod
    def _require_weights(cls, frozen: bool, info: ValidationInfo) -> bool:
        """Raise `ValueError` if new weights would stay fixed; otherwise return the setting."""
        if frozen and info.data.get("weights") is None:
            raise ValueError("needs weights, the folder of a trained model")
        return frozen

    @property
    def region_stride(self) -> int:
        """The side of a patch."""
        return self.patch

    @property
    def needs_whole_regions(self) -> bool:
        """Patches divide a picture."""
        return True

    @property
    def d_annotation(self) -> int:
        """The width of the model."""
        return self.d_model

    @property
    def weights_file(self) -> Path | None:
        """The folder of weights."""
        return self.weights

    @property
    def is_frozen(self) -> bool:
        """Whether the weights are frozen."""
        return self.frozen


AnyVisionConfig = Annotated[
    ConvolutionalVisionConfig | ResNetConfig | EfficientNetLite0Config | TransformerVisionConfig,
    Field(discriminator="kind"),
    add_default_kind("convolutional"),
]


class MemoryModelArchitecture(ArchitectureConfig):
    """Abstract: an encoder of pictures or clips, and a decoder that reads its memory."""

    d_model: PositiveInt = 256
    """width of the memory's slots, and of the decoder unless model.decoder.d_model is given"""
    decoder: MemoryDecoderConfig = TransformerMemoryDecoderConfig()
    """the decoder that generates text"""

    @model_validator(mode="before")
    @classmethod
    def _set_decoder_width(cls, table: Any) -> Any:
        """Add the width of the memory to the table of the decoder if it has no width itself. Anything but a table is
        returned as it is.
        """
        if not isinstance(table, dict) or not isinstance(table.get("decoder", {}), dict):
            return table
        width = table.get("d_model", cls.model_fields["d_model"].default)
        return {**table, "decoder": {"d_model": width, **table.get("decoder", {})}}

    @field_validator("decoder")
    @classmethod
    def _check_slot_width(cls, decoder: MemoryDecoderConfig, info: ValidationInfo) -> MemoryDecoderConfig:
        """Raise an error if the decoder needs memory slots of another width than the model's; otherwise return it."""
        width = info.data.get("d_model")
        if decoder.d_slot is not None and width is not None and decoder.d_slot != width:
            raise config_error(
                "model.decoder.d_model",
                f"= {decoder.d_slot} must be model.d_model = {width}, the width of the slots that it reads",
            )
        return decoder

    @property
    def length_limit(self) -> LengthLimit | None:
        """Maximum number of positions of the decoder; None if it is unlimited."""
        decoder_limit = self.decoder.length_limit
        return (
            None
            if decoder_limit is None
            else LengthLimit(decoder_limit.key.replace("model.", "model.decoder.", 1), decoder_limit.tokens)
        )


class MotionConfig(Config):
    """Convolutions over 3 frames and 3 x 3 pixels, of spatial stride 2, with group norm over the channels of each
    frame.
    """

    widths: Annotated[tuple[PositiveInt, ...], Field(min_length=1, strict=False)] = (8, 16, 32)
    """channels after each halving of the frames; each layer sees one more frame on both sides"""


class PictureArchitecture(ArchitectureConfig):
    """Abstract: an image classifier; `built_by(config, picture=(channels, height, width), classes=)` builds it.

    It returns a `PictureClassifier`.
    """

    @property
    def num_glimpses(self) -> int:
        """Number of sampled locations per image; 0 if the whole image is read at once."""
        return 0


class GlimpsesConfig(PictureArchitecture):
    """A recurrent network that attends to one location after the other (Mnih et al. 2014)."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_glimpse_classifier"

    kind: Literal["glimpses"] = "glimpses"
    d_model: PositiveInt = 256
    """width of the core, and of an encoded glimpse"""
    d_glimpse: PositiveInt = 128
    """width of the encoded patches, and of the encoded location, before they are combined"""
    glimpses: PositiveInt = 6
    """number of glimpses; the first location is drawn from the whole picture"""
    patch: PositiveInt = 8
    """numbers along a side of a patch, at each scale"""
    scales: PositiveInt = 1
    """patches around a location, each twice as wide as the one before, and half as sharp"""
    cell: Literal["rectified", "lstm"] = "rectified"
    """the core: relu(W x + U h + b) as in the paper, or an LSTM"""
    policy: Literal["learned", "random"] = "learned"
    """how locations are chosen: by a network trained with REINFORCE, or at random"""
    spread: Annotated[float, Field(gt=0)] = 0.1
    """standard deviation of locations around the output of the learned policy, where the picture is 2 wide"""

    @property
    def num_glimpses(self) -> int:
        """One location for each glimpse."""
        return self.glimpses


class WholePictureConvolutionConfig(PictureArchitecture):
    """One convolution over the whole picture, then a layer: the paper's convolutional network."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_convolutional_classifier"

    kind: Literal["convolutional"] = "convolutional"
    d_model: PositiveInt = 256
    """width of the layer above the filters"""
    filters: PositiveInt = 8
    """number of filters"""
    width: PositiveInt = 10
    """pixels along a side of a filter"""
    stride: PositiveInt = 5
    """pixels from one filter position to the next"""
    dropout: Probability = 0.0
    """dropout of the input of the output layer"""


class WholePictureFeedForwardConfig(PictureArchitecture):
    """Fully connected layers over all pixels."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_feed_forward_classifier"

    kind: Literal["feed_forward"] = "feed_forward"
    d_model: PositiveInt = 256
    """width of each layer"""
    layers: PositiveInt = 2
    """layers below the output"""
    dropout: Probability = 0.0
    """dropout of the output of each layer"""


class VisionTransformerConfig(PatchTransformerConfig, PictureArchitecture):
    """A vision transformer with a classifier of its class token (Dosovitskiy et al. 2021, ViT)."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_transformer_classifier"


if TYPE_CHECKING:
    PictureModelConfig = PictureArchitecture
else:
    PictureModelConfig = union_of_families(
        PictureArchitecture,
        GlimpsesConfig,
        VisionTransformerConfig,
        WholePictureConvolutionConfig,
        WholePictureFeedForwardConfig,
    )
