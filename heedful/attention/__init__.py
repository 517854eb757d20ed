"""Attention as mathematics: scores, choices, positions, multi-head attention; knows tensors only.

>>> import torch
>>> from heedful.attention import Additive, Attention
>>> attention = Attention(Additive(6, 4, 8))
>>> query, memory = torch.randn(2, 1, 6), torch.randn(2, 5, 4)
>>> visible = torch.ones(2, 1, 5, dtype=torch.bool)
>>> attention(query, attention.score.project(memory), value=memory, visible=visible).shape
torch.Size([2, 1, 4])
"""

from heedful.attention.attention import Attention
from heedful.attention.choice import Choice, proportional, softmax
from heedful.attention.dropout import Dropout
from heedful.attention.multihead import (
    Aggregation,
    Concatenation,
    KeyValues,
    Mean,
    MultiHeadAttention,
    Projection,
)
from heedful.attention.positions import (
    AbsolutePosition,
    Integer,
    Learned,
    RelativePosition,
    Rotary,
    Shaw,
    Sinusoidal,
    Unaware,
    UnitInterval,
)
from heedful.attention.probe import Probe
from heedful.attention.scores import Additive, Dot, General, ScaledDot, Score
from heedful.attention.sight import Sight, Slots
from heedful.attention.visibility import Visibility, causal, everything, window

__all__ = [
    "AbsolutePosition",
    "Additive",
    "Aggregation",
    "Attention",
    "Choice",
    "Concatenation",
    "Dot",
    "Dropout",
    "General",
    "Integer",
    "KeyValues",
    "Learned",
    "Mean",
    "MultiHeadAttention",
    "Probe",
    "Projection",
    "RelativePosition",
    "Rotary",
    "ScaledDot",
    "Score",
    "Shaw",
    "Sight",
    "Sinusoidal",
    "Slots",
    "Unaware",
    "UnitInterval",
    "Visibility",
    "causal",
    "everything",
    "proportional",
    "softmax",
    "window",
]
