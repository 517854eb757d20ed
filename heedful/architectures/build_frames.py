"""Build the subsampling front end of frame encoders."""

from __future__ import annotations

from heedful.architectures.frames import HidingConfig, ShortenedConfig
from heedful.blocks.subsampling import ConvSubsampling, SpecAugment
from heedful.models.encoders import SubsampledEncoder
from heedful.models.interface import Encoder
from heedful.tensors import FeatureBatch


def build_subsampled_encoder(
    config: ShortenedConfig, encoder: Encoder[FeatureBatch], *, bands: int, width: int
) -> SubsampledEncoder:
    """Put a newly initialised convolutional subsampling, with vectors of this width, before an encoder."""
    subsampling = ConvSubsampling(bands, channels=config.channels, d_model=width)
    return SubsampledEncoder(
        subsampling, encoder, hidden=None if config.hide is None else _build_spec_augment(config.hide)
    )


def _build_spec_augment(config: HidingConfig) -> SpecAugment:
    bands, frames = (config.band_masks, config.bands), (config.frame_masks, config.frames)
    return SpecAugment(bands=bands, frames=frames, share=config.share)
