"""Attention mechanisms on plain tensors: scores, normalizers, positions and multi-head attention.

>>> import torch
>>> from heedful.attention import AdditiveScore, Attention
>>> attention = Attention(AdditiveScore(6, 4, 8))
>>> query, memory = torch.randn(2, 1, 6), torch.randn(2, 5, 4)
>>> visible = torch.ones(2, 1, 5, dtype=torch.bool)
>>> attention(query, attention.score.project(memory), value=memory, visible=visible).shape
torch.Size([2, 1, 4])
"""

from heedful.attention.attention import Attention, MultiHopAttention
from heedful.attention.dropout import Dropout
from heedful.attention.hooks import AttentionRole, HookPoint, TraceableAttention, assign_roles
from heedful.attention.kv_cache import KVCache, PendingSelection
from heedful.attention.mask import AttentionMask, BandedMask, CacheLayout
from heedful.attention.mask_functions import MaskFunction, SlidingWindow, bidirectional, causal, sliding_window
from heedful.attention.multihead import (
    ConcatAggregation,
    HeadAggregation,
    MeanAggregation,
    MultiHeadAttention,
    ProjectionAggregation,
)
from heedful.attention.normalizers import (
    HardSampling,
    LocalWindow,
    MovingBaseline,
    Normalizer,
    PredictedWindow,
    SampleStatistics,
    StraightThrough,
    compute_reinforce_loss,
    normalize_by_sum,
    softmax,
)
from heedful.attention.positions import (
    AbsolutePosition,
    IntegerPosition,
    LearnedPosition,
    NoPosition,
    QuadraticPosition,
    RelativePosition,
    RotaryPosition,
    ShawPosition,
    SinusoidalPosition,
    UnitIntervalPosition,
)
from heedful.attention.scores import (
    AdditiveScore,
    AttentionScore,
    ConcatScore,
    DotScore,
    ExpDotScore,
    GeneralScore,
    LocationScore,
    ScaledDotScore,
    ScaledSoftmax,
    ScoredWeights,
    WeightFunction,
)
from heedful.attention.structured import DependencyTree, LinearChain
from heedful.deprecation import module_getattr

__all__ = [
    "AbsolutePosition",
    "AdditiveScore",
    "Attention",
    "AttentionMask",
    "AttentionRole",
    "AttentionScore",
    "BandedMask",
    "CacheLayout",
    "ConcatAggregation",
    "ConcatScore",
    "DependencyTree",
    "DotScore",
    "Dropout",
    "ExpDotScore",
    "GeneralScore",
    "HardSampling",
    "HeadAggregation",
    "HookPoint",
    "IntegerPosition",
    "KVCache",
    "LearnedPosition",
    "LinearChain",
    "LocalWindow",
    "LocationScore",
    "MaskFunction",
    "MeanAggregation",
    "MovingBaseline",
    "MultiHeadAttention",
    "MultiHopAttention",
    "NoPosition",
    "Normalizer",
    "PendingSelection",
    "PredictedWindow",
    "ProjectionAggregation",
    "QuadraticPosition",
    "RelativePosition",
    "RotaryPosition",
    "SampleStatistics",
    "ScaledDotScore",
    "ScaledSoftmax",
    "ScoredWeights",
    "ShawPosition",
    "SinusoidalPosition",
    "SlidingWindow",
    "StraightThrough",
    "TraceableAttention",
    "UnitIntervalPosition",
    "WeightFunction",
    "assign_roles",
    "bidirectional",
    "causal",
    "compute_reinforce_loss",
    "normalize_by_sum",
    "sliding_window",
    "softmax",
]

__getattr__ = module_getattr(
    __name__,
    {
        "Additive": "AdditiveScore",
        "Aggregation": "HeadAggregation",
        "Band": "BandedMask",
        "Choice": "Normalizer",
        "Concat": "ConcatScore",
        "Concatenation": "ConcatAggregation",
        "Dot": "DotScore",
        "Drawn": "SampleStatistics",
        "ExpDot": "ExpDotScore",
        "Explaining": "TraceableAttention",
        "Focus": "LocalWindow",
        "General": "GeneralScore",
        "Hops": "MultiHopAttention",
        "Integer": "IntegerPosition",
        "KeyValues": "KVCache",
        "Learned": "LearnedPosition",
        "Location": "LocationScore",
        "Look": "AttentionRole",
        "Mean": "MeanAggregation",
        "Picks": "PendingSelection",
        "Probe": "HookPoint",
        "Projection": "ProjectionAggregation",
        "Quadratic": "QuadraticPosition",
        "Rotary": "RotaryPosition",
        "Sampled": "HardSampling",
        "ScaledDot": "ScaledDotScore",
        "Score": "AttentionScore",
        "Scored": "ScoredWeights",
        "Shaw": "ShawPosition",
        "Sight": "AttentionMask",
        "Sinusoidal": "SinusoidalPosition",
        "Slots": "CacheLayout",
        "Unaware": "NoPosition",
        "UnitInterval": "UnitIntervalPosition",
        "Visibility": "MaskFunction",
        "Weigher": "WeightFunction",
        "Window": "SlidingWindow",
        "declare": "assign_roles",
        "everything": "bidirectional",
        "proportional": "normalize_by_sum",
        "surrogate": "compute_reinforce_loss",
        "window": "sliding_window",
    },
)
"""Names of version 0.1, each with its new name; they are kept for one version."""
