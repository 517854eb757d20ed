"""What looks at clips: a network over each frame, space-time convolutions over neighbours, and the memory of both.

What a frame shows by itself is the mean over the regions of a picture network; what moves around it is the mean over
the places of a network whose windows reach over frames too. Side by side they are a slot of the memory (Yao et al.
2015, 3.1 and 3.2, where such local features are those of another network over histograms of gradients and flow).
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
    """Clips side by side; what is at -1 in `positions` is no frame."""

    frames: Shaped[Tensor, "B T ..."]
    positions: Int[Tensor, "B T"]


class SpaceTimeConv(nn.Module):
    """relu(norm(conv(x))) over windows of 3 frames and 3 x 3 places, half as high and wide (Tran et al. 2015, 3.1).

    The norm is of groups of channels of one frame (Wu and He 2018), and there is nothing before a clip and behind it,
    so that no clip depends on its neighbours or on padding.
    """

    def __init__(self, d_input: int, d_output: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(d_input, d_output, 3, (1, 2, 2), 1)
        self.norm = nn.GroupNorm(next(n for n in _GROUPS if d_output % n == 0), d_output)

    def forward(
        self, x: Float[Tensor, "B d_input T H W"], frame_mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B d T h w"]:
        """Zeros where there is no frame."""
        convolved = self.conv(x).transpose(1, 2)
        normed = torch.relu(self.norm(convolved.flatten(0, 1))).view_as(convolved)
        return torch.where(frame_mask[:, :, None, None, None], normed, 0).transpose(1, 2)


class MotionNetwork(nn.Module):
    """A layer of space-time convolutions for each width, and the mean over places: a vector for each frame.

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
        """What moves in each frame and from it to the next ones, as far as the layers reach."""
        reference = next(self.parameters())
        x = (frames.to(reference.dtype) / 127.5 - 1).permute(0, 4, 1, 2, 3)
        x = torch.where(frame_mask[:, None, :, None, None], x, 0)
        for layer in self.layers:
            x = layer(x, frame_mask)
        motion: Tensor = x.mean((3, 4)).transpose(1, 2)
        return motion


class FrameEncoder(Encoder[ClipBatch]):
    """The frames of clips as a memory: a map of what is said of each, where it stands in time, and a norm.

    The summary is the mean of the slots, what a decoder without temporal attention has of a clip (Yao et al. 2015,
    section 4.2, "Basic").

    Args:
        vision: what looks at each frame; None where frames are vectors that others made.
        motion: what looks at neighbours; None leaves it out.
        d_frame: width of what `vision` says of a region, or of those vectors.
        d_model: width of the slots.
        times: what is added for when a frame is shown, by its number among those that were taken; None adds nothing.
        dropout: of the slots.
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
        """A slot for each frame."""
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
        """What each frame shows by itself; padding is not looked at."""
        if self.vision is None:
            return frames.to(self.map.weight.dtype)
        annotations: Tensor = self.vision(frames[frame_mask]).mean((1, 2))
        features = annotations.new_zeros(*frame_mask.shape, annotations.size(-1))
        features[frame_mask] = annotations
        return features
