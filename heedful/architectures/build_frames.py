"""What stands before every encoder of frames."""

from __future__ import annotations

from heedful.architectures.frames import HidingConfig, ShortenedConfig
from heedful.blocks.subsampling import SpecAugment, Subsampling
from heedful.models.encoders import Subsampled
from heedful.models.interface import Encoder
from heedful.values import Vectors


def subsampled(config: ShortenedConfig, encoder: Encoder[Vectors], *, bands: int, width: int) -> Subsampled:
    """The encoder behind freshly initialised convolutions that make vectors of this width."""
    front = Subsampling(bands, channels=config.channels, d_model=width)
    return Subsampled(front, encoder, hidden=None if config.hide is None else _hiding(config.hide))


def _hiding(config: HidingConfig) -> SpecAugment:
    bands, frames = (config.band_masks, config.bands), (config.frame_masks, config.frames)
    return SpecAugment(bands=bands, frames=frames, share=config.share)
