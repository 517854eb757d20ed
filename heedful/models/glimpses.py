"""Recurrent visual attention: a network that looks at one place after the other (Mnih et al. 2014)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.blocks.linear import xavier_linear
from heedful.blocks.recurrent import Cell
from heedful.blocks.retina import Retina
from heedful.models.picture_classifier import Looks, PictureClassifier


class Policy(nn.Module, ABC):
    """Says where to look next."""

    @abstractmethod
    def forward(
        self, hidden: Float[Tensor, "N d"], chance: Float[Tensor, "N 2"]
    ) -> tuple[Float[Tensor, "N 2"], Float[Tensor, " N"]]:
        """Places from -1 to 1, and the log-probability of each; no gradient leads to a place, or back to `hidden`."""


@final
class RandomPolicy(Policy):
    """Anywhere, whatever was seen."""

    def forward(
        self, hidden: Float[Tensor, "N d"], chance: Float[Tensor, "N 2"]
    ) -> tuple[Float[Tensor, "N 2"], Float[Tensor, " N"]]:
        """Uniform places; the model has no part in them."""
        return 2 * chance - 1, torch.zeros(len(chance), device=chance.device)


@final
class LearnedPolicy(Policy):
    """A Gaussian of fixed spread around tanh(W h + b) (Mnih et al. 2014, 3.1); what falls beside is moved to the edge.

    Args:
        d_hidden: width of what it reads.
        spread: standard deviation, where the picture is 2 wide.
    """

    def __init__(self, d_hidden: int, spread: float) -> None:
        super().__init__()
        self.mean = xavier_linear(d_hidden, 2)
        self.spread = spread

    def forward(
        self, hidden: Float[Tensor, "N d"], chance: Float[Tensor, "N 2"]
    ) -> tuple[Float[Tensor, "N 2"], Float[Tensor, " N"]]:
        """Drawn places; the log-probability is that of the place before it is moved to the edge."""
        mean = torch.tanh(self.mean(hidden.detach()).float())
        away = normal(chance)
        drawn = (mean + self.spread * away).detach()
        constant = math.log(2 * math.pi * self.spread**2)
        log_probability = -((drawn - mean) ** 2).sum(-1) / (2 * self.spread**2) - constant
        return drawn.clamp(-1, 1), log_probability


def normal(chance: Float[Tensor, "N 2"]) -> Float[Tensor, "N 2"]:
    """Two independent standard normal numbers of two uniform ones (Box and Muller 1958)."""
    radius = torch.sqrt(-2 * torch.log1p(-chance[:, 0]))
    angle = 2 * math.pi * chance[:, 1]
    return torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), -1)


class GlimpseNetwork(nn.Module):
    """relu(W relu(what was seen) + V relu(where)): a glimpse as a vector (Mnih et al. 2014, section 3.1)."""

    def __init__(self, retina: Retina, *, channels: int, d_glimpse: int, d_output: int) -> None:
        super().__init__()
        self.retina = retina
        self.seen = xavier_linear(channels * retina.values, d_glimpse)
        self.place = xavier_linear(2, d_glimpse)
        self.what = xavier_linear(d_glimpse, d_output)
        self.where = xavier_linear(d_glimpse, d_output)

    def forward(
        self, pictures: Float[Tensor, "B C H W"], rows: Int[Tensor, " N"], places: Float[Tensor, "N 2"]
    ) -> Float[Tensor, "N d_output"]:
        """See `Retina.forward`."""
        seen = self.retina(pictures, rows, places).flatten(1)
        what = self.what(torch.relu(self.seen(seen)))
        return torch.relu(what + self.where(torch.relu(self.place(places.to(pictures.dtype)))))


class GlimpseClassifier(PictureClassifier):
    """A recurrent network that sees a glimpse at each step and says where the next one is to be.

    The first place is drawn from the whole picture. Policy and baseline read what the core remembers, but leave it
    alone: the core learns to tell classes, the policy to be rewarded, and the baseline to foretell that.

    Args:
        glimpse: from places to vectors.
        cell: the core, which reads such vectors.
        policy: says where to look.
        classes: how many there are.
    """

    def __init__(self, glimpse: GlimpseNetwork, cell: Cell, policy: Policy, *, classes: int) -> None:
        super().__init__()
        self.glimpse = glimpse
        self.sizes = glimpse.retina.sizes
        self.cell = cell
        self.policy = policy
        self.baseline = xavier_linear(cell.d_state, 1)
        self.output = xavier_linear(cell.d_state, classes)
        self.first = RandomPolicy()

    def forward(self, pictures: Float[Tensor, "B C H W"], chance: Float[Tensor, "B M G 2"]) -> Looks:
        """Logits after each glimpse."""
        pictures = pictures.to(self.output.weight.dtype)
        batch, copies, *_ = chance.shape
        rows = torch.arange(batch, device=pictures.device).repeat_interleave(copies)
        state = self.cell.begin(pictures.new_zeros(len(rows), self.cell.d_state))
        policy: Policy = self.first
        found: list[tuple[Tensor, ...]] = []
        for drawn in chance.flatten(0, 1).unbind(1):
            expected = self.baseline(state[0].detach()).squeeze(-1)
            place, log_probability = policy(state[0], drawn)
            state = self.cell.advance(self.cell.input(self.glimpse(pictures, rows, place)), state)
            found.append((self.output(state[0]), place, log_probability, expected))
            policy = self.policy
        parts = (torch.stack(part, 1).float() for part in zip(*found, strict=True))
        return Looks(*(part.view(batch, copies, *part.shape[1:]) for part in parts))
