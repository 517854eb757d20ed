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
from heedful.attention.choice import Choice, Focus, PredictedWindow, proportional, softmax
from heedful.attention.dropout import Dropout
from heedful.attention.hard import Drawn, MovingBaseline, Sampled, StraightThrough, surrogate
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
from heedful.attention.scores import Additive, Concat, Dot, ExpDot, General, Location, ScaledDot, Score
from heedful.attention.sight import Sight, Slots
from heedful.attention.structured import LinearChain
from heedful.attention.visibility import Visibility, causal, everything, window

__all__ = [
    "AbsolutePosition",
    "Additive",
    "Aggregation",
    "Attention",
    "Choice",
    "Concat",
    "Concatenation",
    "Dot",
    "Drawn",
    "Dropout",
    "ExpDot",
    "Focus",
    "General",
    "Integer",
    "KeyValues",
    "Learned",
    "LinearChain",
    "Location",
    "Mean",
    "MovingBaseline",
    "MultiHeadAttention",
    "PredictedWindow",
    "Probe",
    "Projection",
    "RelativePosition",
    "Rotary",
    "Sampled",
    "ScaledDot",
    "Score",
    "Shaw",
    "Sight",
    "Sinusoidal",
    "Slots",
    "StraightThrough",
    "Unaware",
    "UnitInterval",
    "Visibility",
    "causal",
    "everything",
    "proportional",
    "softmax",
    "surrogate",
    "window",
]
