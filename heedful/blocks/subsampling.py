"""Subsampling and augmentation of sound frames before the encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heedful.blocks.convolution import PackedTokens
from heedful.blocks.linear import build_xavier_linear
from heedful.tensors import FeatureBatch


class ConvSubsampling(nn.Module):
    """Convolutional subsampling by 4: two convolutions over time and frequency of stride 2, and a linear map.

    As in Dong et al. 2018, 3.2 (Speech-Transformer), where they precede the encoder. From n frames, ceil(ceil(n / 2) /
    2) vectors remain; zeros follow the ends of a row, wherever its padding is.

    Args:
        bands: numbers in a frame.
        channels: channels of both convolutions.
        d_model: width of the result.
    """

    def __init__(self, bands: int, *, channels: int, d_model: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.output = build_xavier_linear(channels * -(-bands // 4), d_model)

    def forward(self, frames: FeatureBatch) -> FeatureBatch:
        """Return the vectors, with positions from 0 and padding at the end."""
        packed = PackedTokens.from_positions(frames.positions)
        lengths = packed.lengths
        x = packed.zero_padding(packed.pack(frames.vectors)).to(self.output.weight.dtype).unsqueeze(1)
        for convolution in (self.first, self.second):
            x, lengths = torch.relu(convolution(x)), subsampled_length(lengths)
            indices = torch.arange(x.size(2), device=x.device)
            token_mask = indices < lengths.unsqueeze(1)
            x = torch.where(token_mask[:, None, :, None], x, 0.0)
        vectors: Tensor = self.output(x.transpose(1, 2).flatten(2))
        return FeatureBatch(vectors, torch.where(token_mask, indices, -1))


class SpecAugment(nn.Module):
    """Mask bands and frames while training (Park et al. 2019, 2.2, without time warping).

    Masked numbers become 0, the mean of normalised frames. The width of each mask is drawn uniformly from 0 to its
    maximum, and its place uniformly among all places, independently for each row.

    Args:
        bands: number of masks over frequency, and their maximum width.
        frames: number of masks over time, and their maximum width.
        share: maximum share of a row's frames that one mask over time may cover.
    """

    def __init__(self, *, bands: tuple[int, int], frames: tuple[int, int], share: float) -> None:
        super().__init__()
        self.bands = bands
        self.frames = frames
        self.share = share

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"bands={self.bands}, frames={self.frames}, share={self.share}"

    def forward(self, frames: FeatureBatch) -> FeatureBatch:
        """Mask the frames while training; return them unchanged otherwise."""
        if not self.training:
            return frames
        vectors, token_mask = frames.vectors, frames.positions >= 0
        lengths = token_mask.sum(1, keepdim=True)
        frame_index = torch.where(token_mask, token_mask.cumsum(1) - 1, -1)
        masked_frames = _draw_masks(
            frame_index, lengths, max_width=(self.share * lengths).floor().clamp(max=self.frames[1]), n=self.frames[0]
        )
        columns = torch.arange(vectors.size(2), device=vectors.device).expand(len(vectors), -1)
        width = torch.full_like(lengths, vectors.size(2))
        masked_bands = _draw_masks(columns, width, max_width=width.clamp(max=self.bands[1]), n=self.bands[0])
        return FeatureBatch(
            vectors.masked_fill(masked_frames.unsqueeze(2) | masked_bands.unsqueeze(1), 0.0), frames.positions
        )


def subsampled_length(length: Tensor) -> Tensor:
    """Return the length that remains after a convolution of stride 2."""
    return (length + 1) // 2


def _draw_masks(positions: Tensor, lengths: Tensor, *, max_width: Tensor, n: int) -> Tensor:
    """Draw `n` masks of at most `max_width` entries per row; return True at the covered positions below `lengths`."""
    uniforms = torch.rand(len(positions), 2, n, device=positions.device)
    width = (uniforms[:, 0] * (max_width + 1)).floor()
    start = (uniforms[:, 1] * (lengths - width + 1)).floor()
    expanded_positions = positions.unsqueeze(2)
    return ((expanded_positions >= start.unsqueeze(1)) & (expanded_positions < (start + width).unsqueeze(1))).any(2)
