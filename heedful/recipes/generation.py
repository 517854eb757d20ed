"""How a model answers, as data: search or sampling, and when it must end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.recipes.config import Config, PositiveInt, add_default_kind

NonEmptyText = Annotated[str, Field(min_length=1)]
StopString = NonEmptyText


class RepetitionConfig(Config):
    """What is held against repetition; abstract."""

    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    """what the logits of tokens that were there before are divided by, or multiplied where they are negative (Keskar et
    al. 2019): above 1 against repetition, 1 for nothing"""
    no_repeat_ngram: Annotated[int, Field(ge=1)] | None = None
    """no so many tokens follow each other twice (Paulus et al. 2018); 1 allows each token once"""


class LengthLimitedConfig(RepetitionConfig):
    """Answers hold at most max_ratio * (source tokens) + max_extra tokens; abstract."""

    kind: str
    max_ratio: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """longest answer, as a multiple of the source"""
    max_extra: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """tokens granted on top of that"""
    min_ratio: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """shortest answer, as a multiple of the source; what is longest goes before"""
    min_length: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """shortest answer in tokens, likewise"""
    forbid: Annotated[tuple[NonEmptyText, ...], Field(strict=False)] = ()
    """words that are not written, however they are cut into tokens; one in lower case is meant in any case, and one
    with a star at its end also where a longer word begins so"""

    @field_validator("max_extra")
    @classmethod
    def _check_max_extra(cls, max_extra: int, info: ValidationInfo) -> int:
        if max_extra == 0 and info.data.get("max_ratio") == 0:
            raise ValueError("must be above 0 when generation.max_ratio = 0, or every answer is empty")
        return max_extra


class MinimumRiskConfig(LengthLimitedConfig):
    """What is found is compared before one of it is the answer; abstract."""

    risk: Literal["chrf", "bleu"] | None = None
    """the answer is what is most like all that was found, by this measure: minimum Bayes risk (Eikema and Aziz 2020);
    samples count alike, and what a beam found by its score"""
    candidates: Annotated[int, Field(ge=1)] | None = None
    """with risk: how many are found and compared; 32 samples, or all that a beam holds, unless given"""

    @field_validator("candidates")
    @classmethod
    def _check_candidates(cls, candidates: int | None, info: ValidationInfo) -> int | None:
        if candidates is not None and info.data.get("risk") is None:
            raise ValueError('is for generation.risk, which is not given; add risk = "chrf", or leave it out')
        return candidates


class GreedyConfig(LengthLimitedConfig):
    """Always the most probable token."""

    kind: Literal["greedy"] = "greedy"


class BeamConfig(MinimumRiskConfig):
    """The best of `width` hypotheses that grow side by side."""

    kind: Literal["beam"] = "beam"
    width: Annotated[int, Field(ge=1, le=500)] = 5
    """hypotheses of each sentence"""
    length_penalty: Annotated[float, Field(ge=0)] = 0.6
    """alpha of Wu et al. 2016, equation 14: 0 prefers short answers, 1 divides by the length"""
    normalisation: Literal["wu", "power"] = "wu"
    """what log-probabilities are divided by: Wu's ((5 + length) / 6)^alpha, or length^alpha as in transformers"""
    groups: Annotated[int, Field(ge=1)] = 1
    """groups that share the beam evenly and avoid each other's tokens (Vijayakumar et al. 2018), for lists of answers
    that differ"""
    diversity: Annotated[float, Field(ge=0)] | None = None
    """with groups: what is taken off a token's log-probability for each hypothesis of an earlier group that took it at
    the same step; 0.5 unless given"""
    coverage: Annotated[float, Field(ge=0)] = 0.0
    """beta of Wu et al. 2016, equation 14: how much it counts, when what the beam found is ranked, that the whole
    source was attended to; for translation"""

    @field_validator("groups")
    @classmethod
    def _check_groups(cls, groups: int, info: ValidationInfo) -> int:
        if (width := info.data.get("width")) is not None and width % groups:
            raise ValueError(f"cannot share a beam of {width} evenly; give a width that it divides")
        return groups

    @field_validator("diversity")
    @classmethod
    def _check_diversity(cls, diversity: float | None, info: ValidationInfo) -> float | None:
        if diversity is not None and info.data.get("groups") == 1:
            raise ValueError("is between groups, and there is one; give 2 groups or more")
        return diversity

    @field_validator("coverage")
    @classmethod
    def _check_coverage(cls, coverage: float, info: ValidationInfo) -> float:
        if coverage and info.data.get("risk") is not None:
            raise ValueError("and risk both rank what was found; leave one of them out")
        return coverage


class TokenSamplingConfig(Config):
    """How tokens are drawn at random; abstract."""

    temperature: Annotated[float, Field(gt=0)] = 1.0
    """what the logits are divided by: below 1 favours probable tokens, above 1 is more varied"""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """draw from this many most probable tokens only"""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """draw from the fewest tokens that together have this probability (Holtzman et al. 2020)"""
    min_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """draw only tokens that are at least so many times as probable as the most probable one (Nguyen et al. 2024)"""


class SamplingConfig(TokenSamplingConfig, MinimumRiskConfig):
    """Tokens drawn at random."""

    kind: Literal["sampling"] = "sampling"


GenerationConfig = Annotated[
    BeamConfig | GreedyConfig | SamplingConfig, Field(discriminator="kind"), add_default_kind("beam")
]


class ContinuationBaseConfig(RepetitionConfig):
    """What all ways to write share; abstract."""

    kind: str
    tokens: Annotated[PositiveInt, Field(le=1_000_000)] = 200
    """longest continuation"""
    stop: Annotated[tuple[StopString, ...], Field(strict=False)] = ()
    """strings before which a continuation ends"""


class GreedyContinuationConfig(ContinuationBaseConfig):
    """Always the most probable token."""

    kind: Literal["greedy"] = "greedy"


class SampledContinuationConfig(TokenSamplingConfig, ContinuationBaseConfig):
    """Tokens drawn at random: after the penalty and the temperature, top_k, top_p and min_p leave tokens out."""

    kind: Literal["sampling"] = "sampling"


ContinuationConfig = Annotated[
    SampledContinuationConfig | GreedyContinuationConfig, Field(discriminator="kind"), add_default_kind("sampling")
]
