"""Frames of a sound before the first layer: fewer of them, and parts of them hidden while training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heedful.blocks.convolution import Lineup
from heedful.blocks.linear import xavier_linear
from heedful.values import Vectors


class Subsampling(nn.Module):
    """One vector for four frames: two convolutions over time and frequency, each of stride 2, and a linear map.

    As in Dong et al. 2018, 3.2 (Speech-Transformer), where they stand before the encoder. Of n frames ceil(ceil(n / 2)
    / 2) vectors remain; beyond the ends of a row are zeros, wherever its padding is.

    Args:
        bands: numbers in a frame.
        channels: of both convolutions.
        d_model: width of the result.
    """

    def __init__(self, bands: int, *, channels: int, d_model: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.output = xavier_linear(channels * -(-bands // 4), d_model)

    def forward(self, frames: Vectors) -> Vectors:
        """The vectors, counted from 0 and with padding behind them."""
        lineup = Lineup.of(frames.positions)
        counts = lineup.counts
        x = lineup.blank(lineup.arrange(frames.vectors)).to(self.output.weight.dtype).unsqueeze(1)
        for convolution in (self.first, self.second):
            x, counts = torch.relu(convolution(x)), fewer(counts)
            places = torch.arange(x.size(2), device=x.device)
            real = places < counts.unsqueeze(1)
            x = torch.where(real[:, None, :, None], x, 0.0)
        vectors: Tensor = self.output(x.transpose(1, 2).flatten(2))
        return Vectors(vectors, torch.where(real, places, -1))


class SpecAugment(nn.Module):
    """Hides bands and frames while training (Park et al. 2019, 2.2, without time warping).

    What is hidden becomes 0, the mean of normalised frames. How much of each mask is hidden is drawn evenly from 0 to
    its greatest width, and where it lies evenly among all places, for each row by itself.

    Args:
        bands: masks over frequency, and the greatest width of one.
        frames: masks over time, likewise.
        share: of its frames, the most that one mask over time may hide of a row.
    """

    def __init__(self, *, bands: tuple[int, int], frames: tuple[int, int], share: float) -> None:
        super().__init__()
        self.bands = bands
        self.frames = frames
        self.share = share

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"bands={self.bands}, frames={self.frames}, share={self.share}"

    def forward(self, frames: Vectors) -> Vectors:
        """With parts hidden while training, the same otherwise."""
        if not self.training:
            return frames
        vectors, real = frames.vectors, frames.positions >= 0
        counts = real.sum(1, keepdim=True)
        number = torch.where(real, real.cumsum(1) - 1, -1)
        hidden = _masks(number, counts, most=(self.share * counts).floor().clamp(max=self.frames[1]), n=self.frames[0])
        columns = torch.arange(vectors.size(2), device=vectors.device).expand(len(vectors), -1)
        width = torch.full_like(counts, vectors.size(2))
        muted = _masks(columns, width, most=width.clamp(max=self.bands[1]), n=self.bands[0])
        return Vectors(vectors.masked_fill(hidden.unsqueeze(2) | muted.unsqueeze(1), 0.0), frames.positions)


def fewer(count: Tensor) -> Tensor:
    """How many remain of so many at stride 2."""
    return (count + 1) // 2


def _masks(places: Tensor, counts: Tensor, *, most: Tensor, n: int) -> Tensor:
    """Of each row the places below `counts` that `n` masks of at most `most` hide."""
    chance = torch.rand(len(places), 2, n, device=places.device)
    width = (chance[:, 0] * (most + 1)).floor()
    start = (chance[:, 1] * (counts - width + 1)).floor()
    at = places.unsqueeze(2)
    return ((at >= start.unsqueeze(1)) & (at < (start + width).unsqueeze(1))).any(2)
