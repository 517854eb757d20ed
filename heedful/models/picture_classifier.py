"""Interface of image classifiers, and classifiers that read the whole image at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True)
class GlimpseTrace:
    """Outputs of an image classifier for M independent runs over each of B images.

    Attributes:
        logits: class logits after each glimpse; one entry if the model reads the whole image.
        locations: glimpse locations, row and column from -1 to 1; G = 0 if the model reads the whole image.
        log_probabilities: of each location, in nats; 0 where the model does not choose.
        baselines: the reward that the model predicts before each glimpse.
    """

    logits: Float[Tensor, "B M T classes"]
    locations: Float[Tensor, "B M G 2"]
    log_probabilities: Float[Tensor, "B M G"]
    baselines: Float[Tensor, "B M G"]


class PictureClassifier(nn.Module, ABC):
    """Base class of image classifiers; random numbers are passed in, so rows are independent of each other.

    Attributes:
        patch_sizes: side lengths of the patches of a glimpse, in pixels; empty if the model reads the whole image.
    """

    patch_sizes: tuple[int, ...] = ()

    @abstractmethod
    def forward(self, pictures: Float[Tensor, "B C H W"], uniforms: Float[Tensor, "B M G 2"]) -> GlimpseTrace:
        """Classify each image M times.

        Args:
            pictures: pixel values from 0 to 1.
            uniforms: independent uniform numbers from 0 to 1, two for each glimpse.
        """


class WholePictureClassifier(PictureClassifier):
    """Classifier that reads the whole image at once, as a baseline for glimpse models.

    Args:
        layers: from images to logits.
    """

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, pictures: Float[Tensor, "B C H W"], uniforms: Float[Tensor, "B M G 2"]) -> GlimpseTrace:
        """Classify each image once; `uniforms` is ignored."""
        logits: Tensor = self.layers(pictures.to(next(self.parameters()).dtype))
        no_locations = torch.zeros(len(pictures), 1, 0, 2, device=pictures.device)
        return GlimpseTrace(logits.float()[:, None, None], no_locations, no_locations[..., 0], no_locations[..., 0])
