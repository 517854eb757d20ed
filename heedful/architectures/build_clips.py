"""From the tables of what looks at clips to the encoder."""

from __future__ import annotations

from heedful.architectures.build_pictures import build_vision_backbone
from heedful.architectures.clips import MotionConfig
from heedful.architectures.pictures import VisionConfig
from heedful.attention import SinusoidalPosition
from heedful.models.clips import FrameEncoder, MotionNetwork


def build_clip_encoder(
    vision: VisionConfig,
    motion: MotionConfig | None,
    *,
    d_model: int,
    encode_times: bool,
    d_features: int | None = None,
) -> FrameEncoder:
    """What makes a memory of the frames of clips, with fresh weights.

    Args:
        vision: what looks at each frame.
        motion: what looks at neighbours; None leaves it out.
        d_model: width of the slots.
        encode_times: whether frames are told apart by when they are shown, in sinusoids.
        d_features: how wide the vectors are that others made of the frames, instead of `vision`.
    """
    return FrameEncoder(
        build_vision_backbone(vision) if d_features is None else None,
        None if motion is None else MotionNetwork(motion.widths),
        d_frame=vision.d_annotation if d_features is None else d_features,
        d_model=d_model,
        times=SinusoidalPosition(d_model) if encode_times else None,
        dropout=vision.dropout,
    )
