"""A sensor that sees sharply where it looks, and less and less around."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


class Retina(nn.Module):
    """Square patches around a place at several scales, all of `patch` x `patch` numbers (Mnih et al. 2014, 3.1).

    The patch of scale s covers patch * 2^s pixels, of which each number is the mean of a square. Corners of patches are
    whole pixels; beyond the picture is 0. It learns nothing, and no gradient leads to a place.

    Args:
        patch: numbers along a side.
        scales: patches, each twice as wide as the one before.
    """

    def __init__(self, patch: int, scales: int) -> None:
        super().__init__()
        self.patch = patch
        self.patch_sizes = tuple(patch * 2**scale for scale in range(scales))

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"patch={self.patch}, sizes={self.patch_sizes}"

    @property
    def values_per_channel(self) -> int:
        """Numbers that are seen of each channel."""
        return len(self.patch_sizes) * self.patch**2

    def forward(
        self, pictures: Float[Tensor, "B C H W"], rows: Int[Tensor, " N"], locations: Float[Tensor, "N 2"]
    ) -> Float[Tensor, "N scales C patch patch"]:
        """What is seen at some places, the sharpest patch first.

        Args:
            pictures: to look at.
            rows: which of them each place is in.
            locations: down and across, -1 at the top and left edge and 1 at the bottom and right one.
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
