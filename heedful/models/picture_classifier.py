"""What every model promises that tells classes of pictures, and those that see the whole picture at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True)
class GlimpseTrace:
    """What a model saw in its looks at pictures; M times at each of B, independently.

    Attributes:
        logits: of the classes after each glimpse; once where the picture is seen whole.
        locations: where it looked, down and across, from -1 to 1; G = 0 where it is seen whole.
        log_probabilities: of each place, in nats; 0 where the model does not choose.
        baselines: the reward that the model expects before each glimpse.
    """

    logits: Float[Tensor, "B M T classes"]
    locations: Float[Tensor, "B M G 2"]
    log_probabilities: Float[Tensor, "B M G"]
    baselines: Float[Tensor, "B M G"]


class PictureClassifier(nn.Module, ABC):
    """Tells the classes of pictures; all its randomness is given, so what comes out of a row is its own affair.

    Attributes:
        patch_sizes: sides of the squares that are seen around a place, in pixels; none where the picture is seen whole.
    """

    patch_sizes: tuple[int, ...] = ()

    @abstractmethod
    def forward(self, pictures: Float[Tensor, "B C H W"], uniforms: Float[Tensor, "B M G 2"]) -> GlimpseTrace:
        """Looks M times at each picture.

        Args:
            pictures: from 0 to 1.
            uniforms: numbers from 0 to 1, uniform and independent, two for each glimpse.
        """


class WholePictureClassifier(PictureClassifier):
    """Layers that see everything at once: what models that look here and there are compared with.

    Args:
        layers: from pictures to logits.
    """

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, pictures: Float[Tensor, "B C H W"], uniforms: Float[Tensor, "B M G 2"]) -> GlimpseTrace:
        """One look is like another."""
        logits: Tensor = self.layers(pictures.to(next(self.parameters()).dtype))
        no_locations = torch.zeros(len(pictures), 1, 0, 2, device=pictures.device)
        return GlimpseTrace(logits.float()[:, None, None], no_locations, no_locations[..., 0], no_locations[..., 0])
