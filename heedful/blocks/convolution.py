"""Convolutions over time, and the subsampling and augmentation of sound frames."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.dropout import Dropout
from heedful.blocks.feedforward import build_xavier_linear
from heedful.blocks.layer_info import LayerInfo
from heedful.tensors import FeatureBatch


@dataclass(frozen=True)
class PackedTokens:
    """The tokens of each row in the order of their positions, with padding behind them.

    Computed once for a chunk and used by all layers. On the CPU positions are inspected, and no-ops are skipped;
    elsewhere that would wait for the device.

    Attributes:
        order: column of the token at each place; None if all columns are in order.
        token_mask: True where there is a token; None if there is no padding.
        lengths: tokens in each row.
    """

    order: Int[Tensor, "B T"] | None
    token_mask: Bool[Tensor, "B T 1"] | None
    lengths: Int[Tensor, " B"]

    @classmethod
    def from_positions(cls, positions: Int[Tensor, "B T"]) -> PackedTokens:
        """Create the packing of a chunk whose tokens are at `positions`, -1 where there is none."""
        exists = positions >= 0
        lengths = exists.sum(1)
        rank = torch.where(exists, positions, torch.iinfo(positions.dtype).max)
        on_cpu = positions.device.type == "cpu"
        is_ordered = positions.size(1) == 1 or (on_cpu and bool((rank[:, 1:] >= rank[:, :-1]).all()))
        order = None if is_ordered else rank.argsort(dim=1, stable=True)
        if on_cpu and bool(exists.all()):
            return cls(order, None, lengths)
        indices = torch.arange(positions.size(1), device=positions.device)
        return cls(order, (indices < lengths.unsqueeze(1)).unsqueeze(2), lengths)

    def pack(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """Move columns into the order of positions."""
        return x if self.order is None else x.gather(1, self.order.unsqueeze(2).expand_as(x))

    def unpack(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """Move the vectors of packed tokens back to the columns of their tokens."""
        if self.order is None:
            return x
        return torch.empty_like(x).scatter(1, self.order.unsqueeze(2).expand_as(x), x)

    def zero_padding(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """Set padding to zeros."""
        return x if self.token_mask is None else torch.where(self.token_mask, x, 0.0)

    def last_entries(self, history: Float[Tensor, "B spanT d"], span: int) -> Float[Tensor, "B span d"]:
        """Return the last `span` entries of each row of a history: `span` older entries followed by this packed
        chunk.
        """
        if self.token_mask is None or span == 0:
            return history[:, history.size(1) - span :]
        indices = self.lengths.unsqueeze(1) + torch.arange(span, device=history.device)
        return history.gather(1, indices.unsqueeze(2).expand(-1, -1, history.size(2)))


class GatedConvolution(nn.Module):
    """Gated linear unit over windows: A * sigmoid(B) with [A B] = W [x_1 ... x_k] + b (Gehring et al. 2017, 3.2;
    Dauphin et al. 2017, eq. 1).

    Args:
        d_hidden: width of input and output.
        width: k, entries in a window.
        dilation: distance between the entries of a window; above 1 it has holes (Kalchbrenner et al. 2016, 3.5).
        dropout: probability with which the caller drops inputs; used here for the initial scale (Gehring et al. 2017,
            3.5).
    """

    def __init__(self, d_hidden: int, width: int, *, dilation: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.width, self.dilation = width, dilation
        # a gate lets through a quarter of the variance
        self.linear = variance_scaled_linear(width * d_hidden, 2 * d_hidden, variance=4 * (1 - dropout))

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"width={self.width}, dilation={self.dilation}"

    @property
    def span(self) -> int:
        """Entries that a window covers beyond one; the output is shorter than the input by this number."""
        return (self.width - 1) * self.dilation

    def forward(self, x: Float[Tensor, "B spanT d_hidden"]) -> Float[Tensor, "B T d_hidden"]:
        """Return one vector for each window inside the input."""
        windows = x.size(1) - self.span
        taps = [x.narrow(1, tap * self.dilation, windows) for tap in range(self.width)]
        return functional.glu(self.linear(torch.cat(taps, -1)), -1)


class TokenConvolution(nn.Module):
    """Base class of gated convolutions over the tokens of a text.

    Args:
        d_hidden: width of input and output.
        width: entries in a window.
        dilation: distance between the entries of a window.
        dropout: dropout of the input.
    """

    def __init__(self, d_hidden: int, width: int, *, dilation: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_hidden = d_hidden
        self.dropout = Dropout(dropout)
        self.gated = GatedConvolution(d_hidden, width, dilation=dilation, dropout=dropout)


class CentredConvolution(TokenConvolution):
    """Convolution with windows centred on each token, of odd width, for encoders (Gehring et al. 2017, 3.2)."""

    def __init__(self, d_hidden: int, width: int, *, dilation: int = 1, dropout: float = 0.0) -> None:
        assert width % 2 == 1, f"a window of {width} entries has no middle"
        super().__init__(d_hidden, width, dilation=dilation, dropout=dropout)

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Describe the layer: it sees equally many tokens on both sides."""
        side = self.gated.span // 2
        return (LayerInfo("convolution", side, side, every=self.gated.dilation, width=self.d_hidden),)

    def forward(self, x: Float[Tensor, "B T d_hidden"], packed: PackedTokens) -> Float[Tensor, "B T d_hidden"]:
        """Convolve each token of a chunk with its neighbours; zeros beyond the ends of a row."""
        side = self.gated.span // 2
        packed_input = packed.zero_padding(packed.pack(self.dropout(x)))
        return packed.unpack(self.gated(functional.pad(packed_input, (0, 0, side, side))))


class CausalConvolution(TokenConvolution):
    """Convolution with windows that end at the token itself, for decoders (Gehring et al. 2017, 3.2)."""

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Describe the layer: it sees the tokens before each token."""
        return (LayerInfo("convolution", self.gated.span, 0, every=self.gated.dilation, width=self.d_hidden),)

    def init_state(self, rows: int, *, reference: Float[Tensor, ...]) -> Float[Tensor, "rows span d_hidden"]:
        """Return the zeros that stand before the first token."""
        return reference.new_zeros(rows, self.gated.span, self.d_hidden)

    def forward(
        self, x: Float[Tensor, "B T d_hidden"], past: Float[Tensor, "B span d_hidden"], *, packed: PackedTokens
    ) -> tuple[Float[Tensor, "B T d_hidden"], Float[Tensor, "B span d_hidden"]]:
        """Convolve each token with those before it, of which `past` holds the last ones; also return the inputs that
        the next chunk still needs.
        """
        history = torch.cat((past, packed.pack(self.dropout(x))), 1)
        return packed.unpack(self.gated(history)), packed.last_entries(history, self.gated.span)


def scaled_residual_add(x: Float[Tensor, "*S"], branch: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
    """Return (x + branch) sqrt(1/2), a residual sum that keeps the variance (Gehring et al. 2017, 3.4)."""
    return (x + branch) * math.sqrt(0.5)


def variance_scaled_linear(d_in: int, d_out: int, *, variance: float = 1.0) -> nn.Linear:
    """Create a linear map with zero bias and weights from N(0, sqrt(variance / d_in)), where `variance` is that of an
    output for inputs of variance 1 (Gehring et al. 2017, 3.5).

    Args:
        d_in: width of the input.
        d_out: width of the output.
        variance: variance of an output entry for inputs of variance 1: the probability p with which inputs are kept,
            since dropout scales the kept ones by 1 / p; 4 p before a gate.
    """
    linear = nn.Linear(d_in, d_out)
    nn.init.normal_(linear.weight, std=math.sqrt(variance / d_in))
    nn.init.zeros_(linear.bias)
    return linear


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
        """Return a vector for every four frames, with positions from 0 and padding at the end."""
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


class FrameConvolutions(nn.Module):
    """Two convolutions over time with GELU, of which the second has stride 2 (Radford et al. 2023, 2.2, Whisper).

    From n frames, ceil(n / 2) vectors remain; zeros follow the ends of a row, wherever its padding is.

    Args:
        bands: numbers in a frame.
        d_model: width of the result.
    """

    def __init__(self, bands: int, *, d_model: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(bands, d_model, 3, padding=1)
        self.second = nn.Conv1d(d_model, d_model, 3, stride=2, padding=1)

    def forward(self, frames: FeatureBatch) -> FeatureBatch:
        """Return a vector for every two frames, with positions from 0 and padding at the end."""
        packed = PackedTokens.from_positions(frames.positions)
        lengths = packed.lengths
        vectors = packed.zero_padding(packed.pack(frames.vectors)).to(self.first.weight.dtype)
        x = functional.gelu(self.first(vectors.transpose(1, 2)))
        is_frame = torch.arange(x.size(2), device=x.device) < lengths.unsqueeze(1)
        x = functional.gelu(self.second(torch.where(is_frame.unsqueeze(1), x, 0.0)))
        indices = torch.arange(x.size(2), device=x.device)
        return FeatureBatch(
            x.transpose(1, 2), torch.where(indices < subsampled_length(lengths).unsqueeze(1), indices, -1)
        )


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
        """Set random bands and frames to zero while training; return the frames unchanged otherwise."""
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
    """Draw `n` spans of at most `max_width` positions below `lengths` in each row; return True at the covered
    positions.
    """
    uniforms = torch.rand(len(positions), 2, n, device=positions.device)
    width = (uniforms[:, 0] * (max_width + 1)).floor()
    start = (uniforms[:, 1] * (lengths - width + 1)).floor()
    expanded_positions = positions.unsqueeze(2)
    return ((expanded_positions >= start.unsqueeze(1)) & (expanded_positions < (start + width).unsqueeze(1))).any(2)
