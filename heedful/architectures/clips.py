"""Config of the motion network over neighbouring frames of a clip."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from heedful.recipes.config import Config, PositiveInt


class MotionConfig(Config):
    """Convolutions over 3 frames and 3 x 3 pixels, of spatial stride 2, with group norm over the channels of each
    frame.
    """

    widths: Annotated[tuple[PositiveInt, ...], Field(min_length=1, strict=False)] = (8, 16, 32)
    """channels after each halving of the frames; each layer sees one more frame on both sides"""
