"""What looks at the neighbours of a clip's frames, as data."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from heedful.recipes.config import Config, PositiveInt


class MotionConfig(Config):
    """Convolutions over 3 frames and 3 x 3 places, of stride 2 in space, normed by groups of channels of each frame."""

    widths: Annotated[tuple[PositiveInt, ...], Field(min_length=1, strict=False)] = (8, 16, 32)
    """channels behind each halving of the frames; each layer sees one frame further to both sides"""
