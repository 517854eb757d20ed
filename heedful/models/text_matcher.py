"""An encoder whose vectors of texts are compared."""

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
"""What cosines are multiplied by at most (Radford et al. 2021, 2.5)."""


class TextMatcher(nn.Module):
    """The mean of what one encoder says of a text's tokens, of length 1, and how sharply such vectors are compared.

    Args:
        encoder: reads the texts of both sides.
        temperature: what cosines are divided by, at the start.
        is_trainable: whether that changes with training.
    """

    def __init__(self, encoder: Encoder[Tokens], *, temperature: float, is_trainable: bool) -> None:
        super().__init__()
        self.encoder = encoder
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)), requires_grad=is_trainable)

    @property
    def scale(self) -> Float[Tensor, ""]:
        """1 / temperature."""
        return self.log_scale.float().exp().clamp(max=MAX_SCALE)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B d_output"]:
        """In single precision."""
        memory = self.encoder(tokens)
        return functional.normalize(mean_pool(memory.values, memory.positions).float(), dim=-1)
