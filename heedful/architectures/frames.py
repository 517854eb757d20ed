"""Encoders of frames, as data: what of a sound is hidden while training, how it is shortened, and who reads it."""

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
    """What is hidden of each sound while training (SpecAugment, Park et al. 2019, without time warping)."""

    band_masks: Masks = 2
    """masks over frequency"""
    bands: Masks = 8
    """of the bands, the most that one of them hides"""
    frame_masks: Masks = 2
    """masks over time"""
    frames: Masks = 40
    """of the frames, the most that one of them hides"""
    share: Annotated[float, Field(ge=0, le=1)] = 0.1
    """and no more than this share of them"""


def _default_decoder(table: Mapping[str, Any]) -> MemoryDecoderConfig | None:
    """A Transformer's decoder as wide as the encoder."""
    if table["ctc_weight"] == 1:
        return None
    return TransformerMemoryDecoderConfig(d_model=table["d_model"])


class FrameEncoderArchitecture(ArchitectureConfig):
    """A reader of frames, and what writes from its memories.

    `built_by(config, bands=, length_limit=)` gives an `Encoder[FeatureBatch]` of outputs `d_output` wide; `length_limit` is of its
    memories, in slots. What writes belongs to the task.
    """

    d_model: PositiveInt = 256
    """width of what stands between the layers"""
    ctc_weight: Annotated[float, Field(ge=0, le=1)] = 0.3
    """share of connectionist temporal classification in what is minimised, and in what texts are ranked by (Watanabe et
    al. 2017): 0 writes by attention alone, 1 by CTC alone, without a decoder"""
    decoder: MemoryDecoderConfig | None = Field(default_factory=_default_decoder)
    """what writes by attention; a Transformer if not given, nothing with ctc_weight = 1; its d_model is that of the
    encoder if not given"""

    @field_validator("decoder", mode="before")
    @classmethod
    def _set_decoder_width(cls, table: Any, info: ValidationInfo) -> Any:
        """As wide as the encoder, unless it says otherwise."""
        if not isinstance(table, Mapping) or "d_model" in table or "d_model" not in info.data:
            return table
        return {**table, "d_model": info.data["d_model"]}

    @field_validator("decoder")
    @classmethod
    def _check_decoder(cls, decoder: MemoryDecoderConfig | None, info: ValidationInfo) -> MemoryDecoderConfig | None:
        weight = info.data.get("ctc_weight")
        if weight == 1 and decoder is not None:
            raise ValueError("writes nothing with model.ctc_weight = 1: leave it away, or set a lower weight")
        if weight is not None and weight < 1 and decoder is None:
            raise ValueError(f"must be a table with model.ctc_weight = {weight:g}")
        if decoder is not None and decoder.samples_attention and weight:
            raise config_error(
                "model.decoder.reading.weights",
                f'= "sampled" learns by REINFORCE alone, not beside model.ctc_weight = {weight:g}: set that to 0',
            )
        return decoder

    @property
    def d_output(self) -> int:
        """Width of what is said of each slot."""
        return self.d_model


class ShortenedConfig(FrameEncoderArchitecture):
    """Abstract: two convolutions before the encoder make one slot of four frames."""

    channels: PositiveInt = 32
    """of both convolutions over time and frequency, each of stride 2"""
    hide: HidingConfig | None = None
    """what is hidden while training (SpecAugment); nothing if not given"""


class FrameTransformerConfig(StackConfig, ShortenedConfig):
    """The encoder of the Speech-Transformer (Dong et al. 2018)."""

    built_by: ClassVar = "heedful.architectures.build_stack:build_transformer_frame_encoder"

    layers: PositiveInt = 4
    """layers on top of each other"""
    residual: Literal["post_norm", "pre_norm"] = "pre_norm"
    """whether the normalisation precedes each sublayer, with one more behind the last, or follows it"""
    visibility: EncoderVisibilityConfig = EverythingConfig()
    """which slots a slot sees"""
    scale_embedding: bool = False
    """multiply what the convolutions make by the root of d_model"""


class FrameRecurrentConfig(LayersConfig, ShortenedConfig):
    """Recurrent layers, such as the listener of Chan et al. 2016 (convolutions take the place of its pyramid)."""

    built_by: ClassVar = "heedful.architectures.build_recurrent:build_recurrent_frame_encoder"

    d_embedding: PositiveInt = Field(default_factory=lambda given: given["d_model"])
    """width of what the convolutions make; d_model if not given"""
    layers: PositiveInt = 2
    """layers on top of each other"""
    bidirectional: bool = True
    """whether the sound is read from both ends"""

    @property
    def d_output(self) -> int:
        """That of both directions."""
        return self.d_model * (1 + self.bidirectional)


if TYPE_CHECKING:
    FrameEncoderConfig = FrameEncoderArchitecture
else:
    FrameEncoderConfig = union_of_families(FrameEncoderArchitecture, FrameTransformerConfig, FrameRecurrentConfig)
