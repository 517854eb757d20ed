"""The numbers that training of a recurrent model begins with, as papers have them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from heedful.attention.scores import Additive, Concat, Score
from heedful.blocks.recurrent import Cell


class Initialisation(ABC):
    """What a model that was just built begins with."""

    @abstractmethod
    def apply(self, model: nn.Module) -> None:
        """Gives every parameter its first value, in place."""


@final
class Modern(Initialisation):
    """What the parts themselves begin with: Xavier's rule, orthogonal recurrent matrices, gates that remember."""

    def apply(self, model: nn.Module) -> None:
        """Nothing is left to do."""


@final
@dataclass(frozen=True)
class Uniform(Initialisation):
    """U(-bound, bound) for all parameters alike: 0.08 in Sutskever et al. 2014, 3.4, 0.1 in Luong et al. 2015, 4.1."""

    bound: float

    def apply(self, model: nn.Module) -> None:
        """Matrices, biases and embeddings."""
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -self.bound, self.bound)


@final
class Bahdanau(Initialisation):
    """Bahdanau et al. 2015, B.1: tiny Gaussian matrices, recurrent ones orthogonal, no preference for any slot.

    V_a begins with zeros, so that attention begins uniform, W_a and U_a with deviations of 0.001, biases with zeros,
    every other matrix with deviations of 0.01. Other scores than the paper's have matrices like W_a.
    """

    def apply(self, model: nn.Module) -> None:
        """The gates of a recurrent matrix are orthogonal one by one."""
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.01) if parameter.dim() > 1 else nn.init.zeros_(parameter)
        for module in model.modules():
            if isinstance(module, Cell):
                for gate in torch.split(module.recurrent.weight, module.d_state):
                    nn.init.orthogonal_(gate)
            elif isinstance(module, Score):
                for matrix in (parameter for parameter in module.parameters() if parameter.dim() > 1):
                    nn.init.normal_(matrix, std=0.001)
                if isinstance(module, Additive | Concat):
                    nn.init.zeros_(module.energy.weight)
