"""From the tables of what looks at clips to the encoder."""

from __future__ import annotations

from heedful.architectures.build_pictures import build_vision
from heedful.architectures.clips import MotionConfig
from heedful.architectures.pictures import VisionConfig
from heedful.attention import Sinusoidal
from heedful.models.clips import FrameEncoder, Motion


def build_frames(
    vision: VisionConfig, motion: MotionConfig | None, *, d_model: int, times: bool, features: int | None = None
) -> FrameEncoder:
    """What makes a memory of the frames of clips, with fresh weights.

    Args:
        vision: what looks at each frame.
        motion: what looks at neighbours; None leaves it out.
        d_model: width of the slots.
        times: whether frames are told apart by when they are shown, in sinusoids.
        features: how wide the vectors are that others made of the frames, instead of `vision`.
    """
    return FrameEncoder(
        build_vision(vision) if features is None else None,
        None if motion is None else Motion(motion.widths),
        d_frame=vision.d_annotation if features is None else features,
        d_model=d_model,
        times=Sinusoidal(d_model) if times else None,
        dropout=vision.dropout,
    )
