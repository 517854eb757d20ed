"""Attention as mathematics: scores, choices, positions, multi-head attention; knows tensors only.

>>> import torch
>>> from heedful.attention import Additive, Attention
>>> attention = Attention(Additive(6, 4, 8))
>>> query, memory = torch.randn(2, 1, 6), torch.randn(2, 5, 4)
>>> visible = torch.ones(2, 1, 5, dtype=torch.bool)
>>> attention(query, attention.score.project(memory), value=memory, visible=visible).shape
torch.Size([2, 1, 4])
"""

from heedful.attention.attention import Attention, Hops
from heedful.attention.choice import Choice, Focus, PredictedWindow, proportional, softmax
from heedful.attention.dropout import Dropout
from heedful.attention.explained import Explaining, declare
from heedful.attention.hard import Drawn, MovingBaseline, Sampled, StraightThrough, surrogate
from heedful.attention.keys import KeyValues, Picks
from heedful.attention.multihead import Aggregation, Concatenation, Mean, MultiHeadAttention, Projection
from heedful.attention.positions import (
    AbsolutePosition,
    Integer,
    Learned,
    Quadratic,
    RelativePosition,
    Rotary,
    Shaw,
    Sinusoidal,
    Unaware,
    UnitInterval,
)
from heedful.attention.probe import Look, Probe
from heedful.attention.scores import Additive, Concat, Dot, ExpDot, General, Location, ScaledDot, Score
from heedful.attention.sight import Band, Sight, Slots
from heedful.attention.structured import DependencyTree, LinearChain
from heedful.attention.visibility import Visibility, Window, causal, everything, window
from heedful.attention.weigher import ScaledSoftmax, Scored, Weigher

__all__ = [
    "AbsolutePosition",
    "Additive",
    "Aggregation",
    "Attention",
    "Band",
    "Choice",
    "Concat",
    "Concatenation",
    "DependencyTree",
    "Dot",
    "Drawn",
    "Dropout",
    "ExpDot",
    "Explaining",
    "Focus",
    "General",
    "Hops",
    "Integer",
    "KeyValues",
    "Learned",
    "LinearChain",
    "Location",
    "Look",
    "Mean",
    "MovingBaseline",
    "MultiHeadAttention",
    "Picks",
    "PredictedWindow",
    "Probe",
    "Projection",
    "Quadratic",
    "RelativePosition",
    "Rotary",
    "Sampled",
    "ScaledDot",
    "ScaledSoftmax",
    "Score",
    "Scored",
    "Shaw",
    "Sight",
    "Sinusoidal",
    "Slots",
    "StraightThrough",
    "Unaware",
    "UnitInterval",
    "Visibility",
    "Weigher",
    "Window",
    "causal",
    "declare",
    "everything",
    "proportional",
    "softmax",
    "surrogate",
    "window",
]
