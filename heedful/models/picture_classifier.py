"""Image classifiers: glimpse by glimpse (Mnih et al. 2014), patch by patch (Dosovitskiy et al. 2021), or the whole
image at once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.hooks import PATCHES, assign_roles
from heedful.blocks.feedforward import build_xavier_linear
from heedful.blocks.recurrent import RecurrentCell
from heedful.blocks.vision import Retina
from heedful.models.vision import VisionTransformer


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

    @classmethod
    def without_glimpses(cls, logits: Float[Tensor, "B classes"]) -> GlimpseTrace:
        """Return the outputs of a model that reads each image once, and the whole of it."""
        no_locations = torch.zeros(len(logits), 1, 0, 2, device=logits.device)
        return cls(logits.float()[:, None, None], no_locations, no_locations[..., 0], no_locations[..., 0])


class PictureClassifier(nn.Module, ABC):
    """Base class of image classifiers; random numbers are passed in, so rows are independent of each other.

    Attributes:
        patch_sizes: side lengths of the patches of a glimpse, in pixels; empty if the model reads the whole image.
        region_size: side length of the patches that attention reads, in pixels; None without such attention.
    """

    patch_sizes: tuple[int, ...] = ()
    region_size: int | None = None

    @abstractmethod
    def forward(self, pictures: Float[Tensor, "B C H W"], uniforms: Float[Tensor, "B M G 2"]) -> GlimpseTrace:
        """Classify each image M times; of G glimpses each reads two random numbers from `uniforms`.

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
        return GlimpseTrace.without_glimpses(self.layers(pictures.to(next(self.parameters()).dtype)))


class TransformerPictureClassifier(PictureClassifier):
    """Vision transformer with a linear classifier of its class token (Dosovitskiy et al. 2021, 3.1).

    Args:
        encoder: encoder of the image, whose summary is classified.
        output: from the summary to logits.
    """

    def __init__(self, encoder: VisionTransformer, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        assign_roles(encoder, PATCHES)
        self.region_size = encoder.patches.projection.kernel_size[0]
        self.output = output

    def forward(self, pictures: Float[Tensor, "B C H W"], uniforms: Float[Tensor, "B M G 2"]) -> GlimpseTrace:
        """Classify each image once; `uniforms` is ignored."""
        return GlimpseTrace.without_glimpses(self.output(self.encoder(pictures).summary))


class GlimpsePolicy(nn.Module, ABC):
    """Base class: chooses the location of the next glimpse."""

    @abstractmethod
    def forward(
        self, hidden: Float[Tensor, "N d"], uniforms: Float[Tensor, "N 2"]
    ) -> tuple[Float[Tensor, "N 2"], Float[Tensor, " N"]]:
        """Return locations from -1 to 1 and their log-probabilities; no gradient reaches the locations or `hidden`."""


@final
class RandomPolicy(GlimpsePolicy):
    """Policy with uniform random locations, independent of the input."""

    def forward(
        self, hidden: Float[Tensor, "N d"], uniforms: Float[Tensor, "N 2"]
    ) -> tuple[Float[Tensor, "N 2"], Float[Tensor, " N"]]:
        """Return uniform locations, made of the random numbers `uniforms`, with log-probability 0; the state is not
        read.
        """
        return 2 * uniforms - 1, torch.zeros(len(uniforms), device=uniforms.device)


@final
class LearnedPolicy(GlimpsePolicy):
    """Gaussian policy of fixed spread around tanh(W h + b), clipped to the picture (Mnih et al. 2014, 3.1).

    Args:
        d_hidden: width of the input.
        spread: standard deviation, where the picture is 2 wide.
    """

    def __init__(self, d_hidden: int, spread: float) -> None:
        super().__init__()
        self.mean = build_xavier_linear(d_hidden, 2)
        self.spread = spread

    def forward(
        self, hidden: Float[Tensor, "N d"], uniforms: Float[Tensor, "N 2"]
    ) -> tuple[Float[Tensor, "N 2"], Float[Tensor, " N"]]:
        """Return locations for each state of the network, sampled by the random numbers `uniforms`, and their
        log-probabilities before clipping.
        """
        mean = torch.tanh(self.mean(hidden.detach()).float())
        noise = uniform_to_normal(uniforms)
        samples = (mean + self.spread * noise).detach()
        constant = math.log(2 * math.pi * self.spread**2)
        log_probability = -((samples - mean) ** 2).sum(-1) / (2 * self.spread**2) - constant
        return samples.clamp(-1, 1), log_probability


def uniform_to_normal(uniforms: Float[Tensor, "N 2"]) -> Float[Tensor, "N 2"]:
    """Convert two uniform numbers per row to two independent standard normal ones (Box and Muller 1958)."""
    radius = torch.sqrt(-2 * torch.log1p(-uniforms[:, 0]))
    angle = 2 * math.pi * uniforms[:, 1]
    return torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), -1)


class GlimpseNetwork(nn.Module):
    """Glimpse encoder relu(W relu(patches) + V relu(location)) (Mnih et al. 2014, section 3.1)."""

    def __init__(self, retina: Retina, *, channels: int, d_glimpse: int, d_output: int) -> None:
        super().__init__()
        self.retina = retina
        self.seen = build_xavier_linear(channels * retina.values_per_channel, d_glimpse)
        self.place = build_xavier_linear(2, d_glimpse)
        self.what = build_xavier_linear(d_glimpse, d_output)
        self.where = build_xavier_linear(d_glimpse, d_output)

    def forward(
        self, pictures: Float[Tensor, "B C H W"], rows: Int[Tensor, " N"], locations: Float[Tensor, "N 2"]
    ) -> Float[Tensor, "N d_output"]:
        """Encode the glimpse at each location as a vector; `rows` is the index of the picture of each location."""
        patches = self.retina(pictures, rows, locations).flatten(1)
        content = self.what(torch.relu(self.seen(patches)))
        return torch.relu(content + self.where(torch.relu(self.place(locations.to(pictures.dtype)))))


class GlimpseClassifier(PictureClassifier):
    """A recurrent network that reads one glimpse per step and chooses the location of the next one.

    The first location is uniform. Policy and baseline read the core's state but send it no gradient: the core learns to
    classify, the policy to maximise the reward, and the baseline to predict the reward.

    Args:
        glimpse: encodes locations as vectors.
        cell: the recurrent core.
        policy: chooses locations.
        classes: number of classes.
    """

    def __init__(self, glimpse: GlimpseNetwork, cell: RecurrentCell, policy: GlimpsePolicy, *, classes: int) -> None:
        super().__init__()
        self.glimpse = glimpse
        self.patch_sizes = glimpse.retina.patch_sizes
        self.cell = cell
        self.policy = policy
        self.baseline = build_xavier_linear(cell.d_state, 1)
        self.output = build_xavier_linear(cell.d_state, classes)
        self.first = RandomPolicy()

    def forward(self, pictures: Float[Tensor, "B C H W"], uniforms: Float[Tensor, "B M G 2"]) -> GlimpseTrace:
        """Return the logits after each glimpse, with locations, log-probabilities and baselines; `uniforms` are the
        random numbers that determine the locations.
        """
        pictures = pictures.to(self.output.weight.dtype)
        batch, copies, *_ = uniforms.shape
        rows = torch.arange(batch, device=pictures.device).repeat_interleave(copies)
        state = self.cell.init_state(pictures.new_zeros(len(rows), self.cell.d_state))
        policy: GlimpsePolicy = self.first
        steps: list[tuple[Tensor, ...]] = []
        for uniforms_of_step in uniforms.flatten(0, 1).unbind(1):
            baseline = self.baseline(state[0].detach()).squeeze(-1)
            location, log_probability = policy(state[0], uniforms_of_step)
            state = self.cell.step(self.cell.input(self.glimpse(pictures, rows, location)), state)
            steps.append((self.output(state[0]), location, log_probability, baseline))
            policy = self.policy
        parts = (torch.stack(part, 1).float() for part in zip(*steps, strict=True))
        return GlimpseTrace(*(part.view(batch, copies, *part.shape[1:]) for part in parts))
