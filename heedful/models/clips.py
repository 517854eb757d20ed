"""Encoders of video clips: a network over each frame, space-time convolutions, and the memory of both.

The content of a frame is the mean over the regions of an image network; motion is the mean over the positions of a
network whose windows cover several frames. Concatenated they are a slot of the memory (Yao et al. 2015, 3.1 and 3.2,
where such local features come from another network over histograms of gradients and flow).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor, nn

from heedful.attention import AbsolutePosition
from heedful.attention.dropout import Dropout
from heedful.blocks.linear import build_xavier_linear
from heedful.models.encoders import MeanPooler
from heedful.models.interface import Encoder
from heedful.models.pictures import VisionBackbone
from heedful.tensors import FrameLayout, Memory

_GROUPS: Final = (8, 4, 2, 1)


@dataclass(frozen=True)
class ClipBatch:
    """A batch of clips; -1 in `positions` marks padding frames."""

    frames: Shaped[Tensor, "B T ..."]
    positions: Int[Tensor, "B T"]


class SpaceTimeConv(nn.Module):
    """Space-time convolution relu(norm(conv(x))) over 3 frames and 3 x 3 pixels, halving height and width (Tran et al.
    2015, 3.1).

    The norm is over groups of channels of one frame (Wu and He 2018), and frames beyond the ends of a clip are zeros,
    so that no clip depends on its neighbours or on padding.
    """

    def __init__(self, d_input: int, d_output: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(d_input, d_output, 3, (1, 2, 2), 1)
        self.norm = nn.GroupNorm(next(n for n in _GROUPS if d_output % n == 0), d_output)

    def forward(
        self, x: Float[Tensor, "B d_input T H W"], frame_mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B d T h w"]:
        """Apply the layer; zeros where there is no frame."""
        convolved = self.conv(x).transpose(1, 2)
        normed = torch.relu(self.norm(convolved.flatten(0, 1))).view_as(convolved)
        return torch.where(frame_mask[:, :, None, None, None], normed, 0).transpose(1, 2)


class MotionNetwork(nn.Module):
    """Space-time convolutions followed by the mean over pixels: a motion vector for each frame.

    Args:
        widths: channels of each layer.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(SpaceTimeConv(*pair) for pair in zip((3, *widths), widths, strict=False))
        self.d_motion = widths[-1]

    def forward(
        self, frames: UInt8[Tensor, "B T H W 3"], frame_mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T d_motion"]:
        """Return the motion features of each frame and its neighbours, as far as the layers reach."""
        reference = next(self.parameters())
        x = (frames.to(reference.dtype) / 127.5 - 1).permute(0, 4, 1, 2, 3)
        x = torch.where(frame_mask[:, None, :, None, None], x, 0)
        for layer in self.layers:
            x = layer(x, frame_mask)
        motion: Tensor = x.mean((3, 4)).transpose(1, 2)
        return motion


class FrameEncoder(Encoder[ClipBatch]):
    """Encodes the frames of clips as a memory: linear map, time encoding and norm.

    The summary is the mean of the slots, which a decoder without temporal attention uses (Yao et al. 2015, section 4.2,
    "Basic").

    Args:
        vision: image network for each frame; None if frames are precomputed vectors.
        motion: motion network over neighbouring frames; None for none.
        d_frame: width of a region of `vision`, or of the precomputed vectors.
        d_model: width of the slots.
        times: encoding of the frame's number among the sampled frames; None adds nothing.
        dropout: dropout of the slots.
    """

    def __init__(
        self,
        vision: VisionBackbone | None,
        motion: MotionNetwork | None,
        *,
        d_frame: int,
        d_model: int,
        times: AbsolutePosition | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vision = vision
        self.motion = motion
        self.map = build_xavier_linear(d_frame + (0 if motion is None else motion.d_motion), d_model)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.times = times
        self.summary = MeanPooler()

    def forward(self, source: ClipBatch) -> Memory:
        """Return a memory with a slot for each frame."""
        frame_mask = source.positions >= 0
        features = [self._encode_frames(source.frames, frame_mask)]
        if self.motion is not None:
            features.append(self.motion(source.frames, frame_mask))
        slots = self.map(torch.cat(features, -1))
        if self.times is not None:
            slots = slots + self.times(source.positions).to(slots.dtype)
        slots = self.dropout(self.norm(slots))
        summary = self.summary(slots, source.positions)
        return Memory(slots, slots, source.positions, summary, FrameLayout(slots.size(1)))

    def _encode_frames(
        self, frames: Shaped[Tensor, "B T ..."], frame_mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T d_frame"]:
        """Return the image features of each frame; padding is skipped."""
        if self.vision is None:
            return frames.to(self.map.weight.dtype)
        annotations: Tensor = self.vision(frames[frame_mask]).mean((1, 2))
        features = annotations.new_zeros(*frame_mask.shape, annotations.size(-1))
        features[frame_mask] = annotations
        return features
