"""Linear maps with Xavier initialisation."""

from __future__ import annotations

import torch
from torch import nn


def build_xavier_linear(d_input: int, d_output: int, *, bias: bool = True, parts: int = 1) -> nn.Linear:
    """Create a linear map whose `parts` (blocks of output rows) are each initialised by Xavier's rule (Glorot and
    Bengio 2010, eq. 16).
    """
    linear = nn.Linear(d_input, d_output, bias=bias)
    for matrix in torch.split(linear.weight, d_output // parts):
        nn.init.xavier_uniform_(matrix)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
