"""Blocks of image models: convolutions over pixels, and the sensor of glimpses."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.tensors import FeatureBatch

Activation = Callable[[Tensor], Tensor]


def relu6(x: Tensor) -> Tensor:
    """Compute min(max(x, 0), 6) (Krizhevsky 2010)."""
    return functional.relu6(x)


def identity(x: Tensor) -> Tensor:
    """Return the input unchanged."""
    return x


class ConvActivation(nn.Module):
    """Convolution and activation, act(conv(x) + b); the output size is the input size divided by the stride.

    Args:
        d_input: input channels.
        d_output: output channels.
        size: rows and columns of the window.
        stride: rows and columns from one window to the next.
        groups: number of channel groups that are convolved separately.
        activation: applied to the result.
        leading: whether windows of stride 2 begin at the first row and column, as TensorFlow's "SAME" has it on an even
            number of rows, instead of being centred there.
    """

    def __init__(
        self,
        d_input: int,
        d_output: int,
        *,
        size: int = 3,
        stride: int = 1,
        groups: int = 1,
        activation: Activation = torch.relu,
        leading: bool = False,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.leading = leading
        self.conv = nn.Conv2d(d_input, d_output, size, stride, 0 if leading else (size - 1) // 2, groups=groups)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.conv.bias)  # type: ignore[arg-type]  # there is one

    def forward(self, x: Float[Tensor, "B d_input H W"]) -> Float[Tensor, "B d_output h w"]:
        """Apply convolution and activation, with zero padding at the edges."""
        if self.leading:
            (size, _), (stride, _) = self.conv.kernel_size, self.conv.stride
            padding = [max((-(-n // stride) - 1) * stride + size - n, 0) for n in (x.size(3), x.size(2))]
            x = functional.pad(x, [side for n in padding for side in (n // 2, n - n // 2)])
        return self.activation(self.conv(x))


class ConvNormReLU(nn.Module):
    """Convolution, group norm and ReLU: relu(norm(conv(x))) (Wu and He 2018).

    Windows are 3 x 3, or 4 x 4 where they halve the plane, so that the window is centred on the pixels that it
    replaces.
    """

    def __init__(self, d_input: int, d_output: int, *, halved: bool = False) -> None:
        super().__init__()
        size, stride = (4, 2) if halved else (3, 1)
        self.conv = nn.Conv2d(d_input, d_output, size, stride, 1, bias=False)  # the norm has one
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")
        self.norm = nn.GroupNorm(next(n for n in (8, 4, 2, 1) if d_output % n == 0), d_output)

    def forward(self, x: Float[Tensor, "B d_input H W"]) -> Float[Tensor, "B d_output h w"]:
        """Apply the layer; the output is half as large if `halved`."""
        return torch.relu(self.norm(self.conv(x)))


class ResidualBlock(nn.Module):
    """Residual block act(f(x) + g(x)); g is a projection where shapes differ, else the identity (He et al. 2016,
    eq. 1 and 2).
    """

    def __init__(
        self, path: nn.Sequential, *, across: nn.Module | None = None, activation: Activation = torch.relu
    ) -> None:
        super().__init__()
        self.path = path
        self.across = across
        self.activation = activation

    def forward(self, x: Float[Tensor, "B d_input H W"]) -> Float[Tensor, "B d_output h w"]:
        """Apply the block to each picture separately."""
        shortcut = x if self.across is None else self.across(x)
        return self.activation(self.path(x) + shortcut)


def build_basic_block(d_input: int, d_output: int, *, stride: int) -> ResidualBlock:
    """Create a residual block of two 3 x 3 convolutions from `d_input` to `d_output` channels, the first with the
    stride (He et al. 2016, figure 5, left).
    """
    path = nn.Sequential(
        ConvActivation(d_input, d_output, stride=stride), ConvActivation(d_output, d_output, activation=identity)
    )
    return ResidualBlock(path, across=_build_shortcut(d_input, d_output, stride=stride))


def build_bottleneck_block(d_input: int, d_output: int, *, stride: int) -> ResidualBlock:
    """Create a bottleneck block from `d_input` to `d_output` channels: 1 x 1 to a quarter of `d_output`, 3 x 3 with the
    stride, 1 x 1 back (He et al. 2016, figure 5, right; torchvision's stride).
    """
    d_hidden = d_output // 4
    path = nn.Sequential(
        ConvActivation(d_input, d_hidden, size=1),
        ConvActivation(d_hidden, d_hidden, stride=stride),
        ConvActivation(d_hidden, d_output, size=1, activation=identity),
    )
    return ResidualBlock(path, across=_build_shortcut(d_input, d_output, stride=stride))


def build_inverted_block(d_input: int, d_output: int, *, expansion: int, size: int, stride: int) -> nn.Module:
    """Create an inverted residual block: expand the channels by the factor `expansion`, convolve each by `size` x
    `size` with the stride, project to `d_output` (Sandler et al. 2018, table 1); with a shortcut where shapes agree.
    """
    d_hidden = d_input * expansion
    path = nn.Sequential(
        *([ConvActivation(d_input, d_hidden, size=1, activation=relu6)] if expansion > 1 else ()),
        ConvActivation(d_hidden, d_hidden, size=size, stride=stride, groups=d_hidden, activation=relu6, leading=True),
        ConvActivation(d_hidden, d_output, size=1, activation=identity),
    )
    return ResidualBlock(path, activation=identity) if stride == 1 and d_input == d_output else path


def _build_shortcut(d_input: int, d_output: int, *, stride: int) -> ConvActivation | None:
    """Create the 1 x 1 convolution of a shortcut with these channels and stride, or None if input and output have one
    shape.
    """
    if stride == 1 and d_input == d_output:
        return None
    return ConvActivation(d_input, d_output, size=1, stride=stride, activation=identity)


class PatchProjection(nn.Module):
    """Linear map of each square patch of a picture, behind a learned class token (Dosovitskiy et al. 2021, eq. 1).

    Position 0 is the class token; the patches follow, row by row.

    Args:
        channels: channels of a picture.
        d_model: width of the result.
        patch: pixels along a side of a patch; it must divide the height and the width of a picture.
    """

    def __init__(self, channels: int, d_model: int, *, patch: int) -> None:
        super().__init__()
        self.projection = nn.Conv2d(channels, d_model, patch, patch)
        nn.init.xavier_uniform_(self.projection.weight.view(d_model, -1))
        nn.init.zeros_(self.projection.bias)  # type: ignore[arg-type]  # there is one
        self.class_token = nn.Parameter(torch.zeros(d_model))

    def forward(self, pictures: Float[Tensor, "B C H W"]) -> FeatureBatch:
        """Return a vector for the class token and for each patch."""
        patches = self.projection(pictures).flatten(2).transpose(1, 2)
        vectors = torch.cat((self.class_token.expand(len(patches), 1, -1), patches), 1)
        return FeatureBatch(vectors, torch.arange(vectors.size(1), device=vectors.device).expand(len(vectors), -1))


class Retina(nn.Module):
    """Square patches around a location at several scales, each of `patch` x `patch` numbers (Mnih et al. 2014, 3.1).

    The patch of scale s covers patch * 2^s pixels per side, averaged over squares. Corners of patches are whole pixels;
    pixels beyond the picture are 0. It has no parameters, and no gradient reaches the locations.

    Args:
        patch: numbers along a side.
        scales: number of patches, each twice as wide as the one before.
    """

    def __init__(self, patch: int, scales: int) -> None:
        super().__init__()
        self.patch = patch
        self.patch_sizes = tuple(patch * 2**scale for scale in range(scales))

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"patch={self.patch}, sizes={self.patch_sizes}"

    @property
    def values_per_channel(self) -> int:
        """Numbers per channel in a glimpse."""
        return len(self.patch_sizes) * self.patch**2

    def forward(
        self, pictures: Float[Tensor, "B C H W"], rows: Int[Tensor, " N"], locations: Float[Tensor, "N 2"]
    ) -> Float[Tensor, "N scales C patch patch"]:
        """Extract the patches around each location, the sharpest one first; `rows` is the index of the picture of each
        location.

        Args:
            pictures: the pictures.
            rows: index of the picture of each location.
            locations: row and column coordinates, -1 at the top and left edge and 1 at the bottom and right one.
        """
        sides = torch.tensor(pictures.shape[2:], device=locations.device)
        centres = (locations.detach() + 1) / 2 * sides
        patches = []
        for size in self.patch_sizes:
            frame = size // 2 + 1  # a patch whose centre is on an edge is still inside
            corners = (centres - size / 2).round().long() + frame
            framed = functional.pad(pictures, (frame,) * 4)
            windows = framed.unfold(2, size, 1).unfold(3, size, 1)
            patch_pixels = windows[rows, :, corners[:, 0], corners[:, 1]]
            patches.append(functional.avg_pool2d(patch_pixels, size // self.patch))
        return torch.stack(patches, 1)
