"""Glimpse sensor with high resolution at the centre and lower resolution around it."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


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
        """Extract the patches around each location, the sharpest one first.

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
