"""Build what several families share: attention scores and weights, and the subsampling of frames."""

from __future__ import annotations

from collections.abc import Callable

from heedful.architectures.attention import HeadsConfig, ScoredConfig, ScoreName, WeightsName
from heedful.architectures.frames import HidingConfig, ShortenedConfig
from heedful.attention import (
    LinearChain,
    Normalizer,
    ScaledSoftmax,
    ScoredWeights,
    StraightThrough,
    WeightFunction,
    normalize_by_sum,
    scores,
    softmax,
)
from heedful.blocks.convolution import ConvSubsampling, SpecAugment
from heedful.models.interface import Encoder
from heedful.models.transformer import SubsampledEncoder
from heedful.tensors import FeatureBatch


def build_score(
    config: ScoredConfig, *, d_query: int, d_key: int, d_hidden: int, longest: int
) -> scores.AttentionScore:
    """Build the score for queries and keys of the widths `d_query` and `d_key`; `d_hidden` is the hidden width of
    additive and concat scores, `longest` the number of positions of a location score.
    """
    builders: dict[ScoreName, Callable[[], scores.AttentionScore]] = {
        "dot": scores.DotScore,
        "scaled_dot": scores.ScaledDotScore,
        "exp_dot": scores.ExpDotScore,
        "general": lambda: scores.GeneralScore(d_query, d_key),
        "concat": lambda: scores.ConcatScore(d_query, d_key, d_hidden),
        "additive": lambda: scores.AdditiveScore(d_query, d_key, d_hidden, bias=config.alignment_bias),
        "location": lambda: scores.LocationScore(d_query, longest),
    }
    return builders[config.score]()


def build_normalizer(name: WeightsName) -> Normalizer:
    """Build the function of this name that turns scores into weights."""
    builders: dict[WeightsName, Callable[[], Normalizer]] = {
        "softmax": lambda: softmax,
        "proportional": lambda: normalize_by_sum,
        "straight_through": StraightThrough,
        "linear_chain": LinearChain,
    }
    return builders[name]()


def build_weight_function(config: HeadsConfig, *, d_k: int, longest: int) -> WeightFunction | None:
    """Build the function that turns queries and keys `d_k` wide into weights; None for scaled softmax, the default.
    `longest` is the number of positions of a location score.
    """
    if (config.score, config.weights) == ("scaled_dot", "softmax"):
        return None
    if (config.score, config.weights) == ("dot", "softmax"):
        return ScaledSoftmax(1.0)
    score = build_score(config, d_query=d_k, d_key=d_k, d_hidden=config.d_alignment or d_k, longest=longest)
    return ScoredWeights(score, build_normalizer(config.weights))


def build_subsampled_encoder(
    config: ShortenedConfig, encoder: Encoder[FeatureBatch], *, bands: int, width: int
) -> SubsampledEncoder:
    """Put a newly initialised convolutional subsampling before an encoder: it reads frames of `bands` numbers and
    returns vectors `width` wide.
    """
    subsampling = ConvSubsampling(bands, channels=config.channels, d_model=width)
    return SubsampledEncoder(
        subsampling, encoder, hidden=None if config.hide is None else _build_spec_augment(config.hide)
    )


def _build_spec_augment(config: HidingConfig) -> SpecAugment:
    bands, frames = (config.band_masks, config.bands), (config.frame_masks, config.frames)
    return SpecAugment(bands=bands, frames=frames, share=config.share)
