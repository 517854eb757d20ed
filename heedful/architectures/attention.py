"""Configs of attention scores, normalizers, position encodings and mask functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from heedful.recipes.config import Config, PositiveInt, add_default_kind

ScoreName = Literal["dot", "scaled_dot", "exp_dot", "general", "concat", "additive", "location"]
WeightsName = Literal["softmax", "proportional", "straight_through", "linear_chain"]
POSITIVE_SCORES: Final[frozenset[ScoreName]] = frozenset({"exp_dot"})
"""Scores that are never negative, so that they may be normalized by their sum."""
Distance = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Factor = Annotated[float, Field(ge=1)]


def _require_additive_score(has_bias: bool, info: ValidationInfo) -> bool:
    """Raise `ValueError` if a bias is set for another score than additive; otherwise return it."""
    if has_bias and info.data.get("score", "additive") != "additive":
        raise ValueError('is only for score = "additive": leave it out')
    return has_bias


AlignmentBias = Annotated[bool, AfterValidator(_require_additive_score)]
"""Type of the key `alignment_bias`, which must follow the key `score`."""


def _require_multiple_of_four(count: int) -> int:
    """Raise `ValueError` if a number of buckets cannot be halved twice; otherwise return it."""
    if count % 4:
        raise ValueError(
            "must be a multiple of 4: half of the buckets are for later tokens, half of these for one distance"
        )
    return count


def default_weights(table: dict[str, Any]) -> Any:
    """Return the normalizer that belongs to the score of a table: proportional for `exp_dot`, softmax for all
    others.
    """
    return "proportional" if table["score"] in POSITIVE_SCORES else "softmax"


class ScoredConfig(Config):
    """Abstract: how queries are compared with keys, and how scores become weights."""

    score: ScoreName = "scaled_dot"
    """how a query is compared with a key"""
    alignment_bias: AlignmentBias = False
    """add a learned bias inside the tanh of additive scores, which the paper does not have"""
    weights: str = Field(default_factory=default_weights)
    """how scores become weights; softmax if not given, and proportional, p / sum(p), for the score exp_dot"""

    @classmethod
    def migrate(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return the values that newer keys have for the stored table of an older recipe: additive scores had a bias
        before the key `alignment_bias` existed, and `exp_dot` used a softmax.
        """
        return {"alignment_bias": table.get("score") == "additive", "weights": "softmax"}

    def find_risks(self, prefix: str) -> Iterator[str]:
        """Warn about normalizers that do not suit the score: exponentials of exponentials, or proportions of negative
        numbers. `prefix` stands before the keys of this table.
        """
        if self.weights == "proportional" and self.score not in POSITIVE_SCORES:
            yield (
                f'{prefix}weights = "proportional" divides by the sum of the scores, and {prefix}score = '
                f'"{self.score}" '
                f"may be negative: the sum may vanish and weights leave the range from 0 to 1; set {prefix}weights = "
                f'"softmax", or {prefix}score = "exp_dot"'
            )
        if self.weights != "proportional" and self.score in POSITIVE_SCORES:
            yield (
                f'{prefix}weights = "{self.weights}" takes exponentials of the exponentials of {prefix}score = '
                f'"{self.score}", whose gradients overflow where states are wide: set {prefix}weights = '
                '"proportional", '
                f'or {prefix}score = "dot"'
            )


class HeadsConfig(ScoredConfig):
    """How each head weighs keys; the defaults are the paper's and have fast kernels."""

    weights: WeightsName = Field(default_factory=default_weights)
    """how scores become weights; softmax if not given, and proportional, p / sum(p), for the score exp_dot"""
    d_alignment: PositiveInt | None = None
    """hidden width of additive and concat scores; the width of a head if not given"""


class SinusoidalConfig(Config):
    """Sines and cosines of growing wavelength, added to the embeddings (Vaswani et al. 2017, 3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    first: Distance = 0
    """the number of the first token; 2 in M2M100"""
    longest_included: bool = False
    """let wavelengths reach 10000 * 2 pi, as in tensor2tensor and M2M100; in the paper they stay just below"""


class LearnedConfig(Config):
    """A learned vector for each position, added to the embeddings."""

    kind: Literal["learned"] = "learned"
    length: PositiveInt = 512
    """number of positions with a vector: more than data.max_length; for a language model, at least data.length"""
    offset: Distance = 0
    """unused rows at the start of the table, 2 in BART"""


class UnitIntervalConfig(Config):
    """Positions from 0 at the first token to 1 at the last: a rejected idea of the lectures, for comparison;
    pre-norm hides it.
    """

    kind: Literal["unit_interval"] = "unit_interval"
    of: Literal["sentence", "longest"] = "sentence"
    """where 1 is: at the end of each sentence, as in the lectures, or at data.max_length; in a decoder, which does not
    know the length of its sentence, always at data.max_length"""

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return the keys that older recipes implied: encoders, too, counted to the longest sentence."""
        return {"of": "longest"}


class IntegerConfig(Config):
    """The position as an integer: a rejected idea of the lectures, for comparison; pre-norm hides it."""

    kind: Literal["integer"] = "integer"
    first: Literal[0, 1] = 1
    """the number of the first token; the lectures count from 1"""

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return the keys that older recipes implied: tokens were counted from 0."""
        return {"first": 0}


class LinearScalingConfig(Config):
    """All positions are divided by a factor (Chen et al. 2023)."""

    kind: Literal["linear"] = "linear"
    factor: Factor
    """divisor of the positions"""


class BandScalingConfig(Config):
    """Long wavelengths are divided by a factor, short ones kept, as in Llama 3.1."""

    kind: Literal["band"] = "band"
    factor: Factor
    """divisor of the frequencies with long wavelengths"""
    low: Positive = 1.0
    """waves in the original length up to which a frequency is divided"""
    high: Positive = 4.0
    """waves in the original length from which on it is kept"""
    length: PositiveInt
    """positions in the original training"""


class YarnScalingConfig(Config):
    """Slow rotations are divided by a factor, fast ones kept, and scores are sharpened (YaRN; Peng et al. 2024)."""

    kind: Literal["yarn"] = "yarn"
    factor: Factor
    """divisor of slow frequencies"""
    fast: Positive = 32.0
    """turns in the original length of the last kept pair"""
    slow: Positive = 1.0
    """turns in the original length of the first pair that is divided by the whole factor"""
    length: PositiveInt
    """positions in the original training"""
    amplitude: Positive = Field(default_factory=lambda given: 0.1 * math.log(given["factor"]) + 1.0)
    """factor of queries and keys; 0.1 ln(factor) + 1 if not given, as in the paper"""
    rounded: bool = True
    """whether the ends of the ramp between fast and slow are rounded to whole pairs"""


RotaryScalingConfig = Annotated[
    LinearScalingConfig | BandScalingConfig | YarnScalingConfig, Field(discriminator="kind")
]


class RotaryConfig(Config):
    """Queries and keys rotated by their positions (Su et al. 2021)."""

    kind: Literal["rotary"] = "rotary"
    base: Positive = 10000.0
    """base of the wavelengths"""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """share of each head's numbers that are rotated, the first ones"""
    scaling: RotaryScalingConfig | None = None
    """change of the frequencies for texts longer than in training"""

    def compute_width(self, d_key: int) -> int:
        """Return how many numbers of a head that is `d_key` wide are rotated."""
        return int(d_key * self.share)


class AlibiConfig(Config):
    """A penalty on scores that grows with the distance, without parameters (ALiBi; Press et al. 2022)."""

    kind: Literal["alibi"] = "alibi"


class BucketsConfig(Config):
    """A learned number per head and bucket of distances, added to scores and shared by all layers (T5; Raffel et al.
    2020).
    """

    kind: Literal["buckets"] = "buckets"
    count: Annotated[int, Field(ge=4), AfterValidator(_require_multiple_of_four)] = 32
    """buckets of distances; where later tokens are visible, half of them are for these"""
    max_distance: PositiveInt = 128
    """distances from this one on share the last bucket"""


class ShawConfig(Config):
    """A learned vector for each clipped distance, added to keys and values (Shaw et al. 2018)."""

    kind: Literal["shaw"] = "shaw"
    clip: PositiveInt = 16
    """distances beyond this one share its vector"""
    values: bool = True
    """whether the values get vectors too (equation 3), or only the keys (equation 4)"""


class NoPositionsConfig(Config):
    """No position encoding."""

    kind: Literal["none"] = "none"


class EverythingConfig(Config):
    """Every token sees every other token."""

    kind: Literal["everything"] = "everything"


class WindowConfig(Config):
    """A token sees only its neighbours: the restricted self-attention of Vaswani et al. 2017, section 4."""

    kind: Literal["window"] = "window"
    before: Distance
    """tokens seen to the left"""
    after: Distance
    """tokens seen to the right"""


class CausalConfig(Config):
    """A token sees itself and all earlier ones."""

    kind: Literal["causal"] = "causal"


class CausalWindowConfig(Config):
    """A token sees itself and the `before` tokens to its left."""

    kind: Literal["window"] = "window"
    before: Distance
    """tokens seen to the left"""


_AnyPositionsConfig = (
    SinusoidalConfig
    | LearnedConfig
    | UnitIntervalConfig
    | IntegerConfig
    | RotaryConfig
    | ShawConfig
    | AlibiConfig
    | BucketsConfig
    | NoPositionsConfig
)
PositionsConfig = Annotated[_AnyPositionsConfig, Field(discriminator="kind"), add_default_kind("sinusoidal")]
LearnedPositionsConfig = Annotated[_AnyPositionsConfig, Field(discriminator="kind"), add_default_kind("learned")]
EncoderVisibilityConfig = Annotated[
    EverythingConfig | WindowConfig, Field(discriminator="kind"), add_default_kind("everything")
]
DecoderVisibilityConfig = Annotated[
    CausalConfig | CausalWindowConfig, Field(discriminator="kind"), add_default_kind("causal")
]
