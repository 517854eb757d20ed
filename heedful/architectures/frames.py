"""Configs of encoders of sound frames: augmentation, subsampling and the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.attention import EncoderVisibilityConfig, EverythingConfig
from heedful.architectures.interface import union_of_families
from heedful.architectures.model import MemoryDecoderConfig
from heedful.architectures.recurrent import LayersConfig
from heedful.architectures.stack import StackConfig, TransformerMemoryDecoderConfig
from heedful.recipes.config import Config, PositiveInt, config_error
from heedful.recipes.recipe import ArchitectureConfig

Masks = Annotated[int, Field(ge=0)]


class HidingConfig(Config):
    """Masking of sound frames while training (SpecAugment, Park et al. 2019, without time warping)."""

    band_masks: Masks = 2
    """number of masks over frequency"""
    bands: Masks = 8
    """maximum number of bands that one mask covers"""
    frame_masks: Masks = 2
    """number of masks over time"""
    frames: Masks = 40
    """maximum number of frames that one mask covers"""
    share: Annotated[float, Field(ge=0, le=1)] = 0.1
    """maximum share of the frames that one mask covers"""


def _default_decoder(table: Mapping[str, Any]) -> MemoryDecoderConfig | None:
    """Return a Transformer decoder as wide as the encoder in the table of the model, or None for pure CTC."""
    if table["ctc_weight"] == 1:
        return None
    return TransformerMemoryDecoderConfig(d_model=table["d_model"])


class FrameEncoderArchitecture(ArchitectureConfig):
    """Abstract: an encoder of frames, and the decoder that reads its memory.

    `built_by(config, bands=, longest=)` returns an `Encoder[FeatureBatch]` with outputs `d_output` wide; `longest` is
    the maximum number of memory slots. The task builds the decoder.
    """

    d_model: PositiveInt = 256
    """width of the layers"""
    ctc_weight: Annotated[float, Field(ge=0, le=1)] = 0.3
    """weight of connectionist temporal classification in the loss and in the ranking of texts (Watanabe et al. 2017): 0
    uses attention only, 1 uses CTC only, without a decoder"""
    decoder: MemoryDecoderConfig | None = Field(default_factory=_default_decoder)
    """the attention decoder; a Transformer if not given, none with ctc_weight = 1; its d_model is that of the encoder
    if not given"""

    @field_validator("decoder", mode="before")
    @classmethod
    def _set_decoder_width(cls, table: Any, info: ValidationInfo) -> Any:
        """Add the width of the encoder to the table of the decoder if it has no width itself. Anything but a table is
        returned as it is.
        """
        if not isinstance(table, Mapping) or "d_model" in table or "d_model" not in info.data:
            return table
        return {**table, "d_model": info.data["d_model"]}

    @field_validator("decoder")
    @classmethod
    def _check_decoder(cls, decoder: MemoryDecoderConfig | None, info: ValidationInfo) -> MemoryDecoderConfig | None:
        """Raise an error if there is a decoder with `ctc_weight` = 1, none with a lower weight, or one with sampled
        attention and a weight above 0; otherwise return it.
        """
        weight = info.data.get("ctc_weight")
        if weight == 1 and decoder is not None:
            raise ValueError("is not used with model.ctc_weight = 1: leave it out, or set a lower weight")
        if weight is not None and weight < 1 and decoder is None:
            raise ValueError(f"must be a table with model.ctc_weight = {weight:g}")
        if decoder is not None and decoder.samples_attention and weight:
            raise config_error(
                "model.decoder.reading.weights",
                f'= "sampled" learns by REINFORCE only, not together with model.ctc_weight = {weight:g}: set that to 0',
            )
        return decoder

    @property
    def d_output(self) -> int:
        """Width of the encoder's outputs."""
        return self.d_model

    @property
    def frames_per_slot(self) -> int:
        """Number of frames that become one slot of the memory."""
        return 4


class ShortenedConfig(FrameEncoderArchitecture):
    """Abstract: two convolutions before the encoder turn several frames into one slot."""

    front: Literal["grid", "frames"] = "grid"
    """convolutions before the encoder: two over time and frequency of stride 2, which make a slot of four frames (grid;
    Dong et al. 2018), or two over time, the second of stride 2, which make a slot of two (frames; Whisper)"""
    channels: PositiveInt = 32
    """channels of both convolutions over time and frequency"""
    hide: HidingConfig | None = None
    """masks while training (SpecAugment); none if not given"""

    @property
    def frames_per_slot(self) -> int:
        """Number of frames that become one slot of the memory."""
        return 4 if self.front == "grid" else 2


class FrameTransformerConfig(StackConfig, ShortenedConfig):
    """The encoder of the Speech-Transformer (Dong et al. 2018)."""

    built_by: ClassVar = "heedful.architectures.build_stack:build_transformer_frame_encoder"

    layers: PositiveInt = 4
    """layers on top of each other"""
    residual: Literal["post_norm", "pre_norm"] = "pre_norm"
    """whether the normalisation precedes each sublayer, with one more after the last, or follows it"""
    visibility: EncoderVisibilityConfig = EverythingConfig()
    """which slots a slot sees"""
    scale_embedding: bool = False
    """multiply the outputs of the convolutions by the root of d_model"""


class FrameRecurrentConfig(LayersConfig, ShortenedConfig):
    """Recurrent encoder of frames, such as the listener of Chan et al. 2016 (with convolutions instead of its
    pyramid).
    """

    built_by: ClassVar = "heedful.architectures.build_recurrent:build_recurrent_frame_encoder"

    d_embedding: PositiveInt = Field(default_factory=lambda given: given["d_model"])
    """width of the outputs of the convolutions; d_model if not given"""
    layers: PositiveInt = 2
    """layers on top of each other"""
    bidirectional: bool = True
    """whether the sound is read in both directions"""

    @property
    def d_output(self) -> int:
        """Width of the outputs of both directions."""
        return self.d_model * (1 + self.bidirectional)


if TYPE_CHECKING:
    FrameEncoderConfig = FrameEncoderArchitecture
else:
    FrameEncoderConfig = union_of_families(FrameEncoderArchitecture, FrameTransformerConfig, FrameRecurrentConfig)
