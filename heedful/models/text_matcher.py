"""Dual encoder: text vectors that are compared by their cosine."""

from __future__ import annotations

import math
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.models.encoders import mean_pool
from heedful.models.interface import Encoder
from heedful.tensors import Tokens

MAX_SCALE: Final = 100.0
"""Maximum factor of the cosines (Radford et al. 2021, 2.5)."""


class TextMatcher(nn.Module):
    """Text vectors of length 1, the mean over tokens, with a learnable temperature of their similarities.

    Args:
        encoder: reads the texts of both sides.
        temperature: initial divisor of the cosines.
        is_trainable: whether the temperature is trained.
    """

    def __init__(self, encoder: Encoder[Tokens], *, temperature: float, is_trainable: bool) -> None:
        super().__init__()
        self.encoder = encoder
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)), requires_grad=is_trainable)

    @property
    def scale(self) -> Float[Tensor, ""]:
        """Factor of the cosines, 1 / temperature."""
        return self.log_scale.float().exp().clamp(max=MAX_SCALE)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B d_output"]:
        """Return a vector of length 1 for each text, in single precision."""
        memory = self.encoder(tokens)
        return functional.normalize(mean_pool(memory.values, memory.positions).float(), dim=-1)
