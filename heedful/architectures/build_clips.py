"""Build the encoder of video clips from its configs."""

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
    """Build a newly initialised encoder that makes a memory of the frames of clips.

    Args:
        vision: image network for each frame.
        motion: motion network over neighbouring frames; None for none.
        d_model: width of the slots.
        encode_times: whether to add sinusoids of the frame number.
        d_features: width of precomputed frame vectors, which replace `vision`.
    """
    return FrameEncoder(
        build_vision_backbone(vision) if d_features is None else None,
        None if motion is None else MotionNetwork(motion.widths),
        d_frame=vision.d_annotation if d_features is None else d_features,
        d_model=d_model,
        times=SinusoidalPosition(d_model) if encode_times else None,
        dropout=vision.dropout,
    )
