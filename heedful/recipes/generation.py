"""How a model answers, as data: search or sampling, and when it must end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.recipes.section import Count, Section, default_kind

Word = Annotated[str, Field(min_length=1)]
StopString = Word


class Unrepeated(Section):
    """What is held against repetition; abstract."""

    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    """what the logits of tokens that were there before are divided by, or multiplied where they are negative (Keskar et
    al. 2019): above 1 against repetition, 1 for nothing"""
    no_repeat_ngram: Annotated[int, Field(ge=1)] | None = None
    """no so many tokens follow each other twice (Paulus et al. 2018); 1 allows each token once"""


class Limited(Unrepeated):
    """Answers hold at most max_ratio * (source tokens) + max_extra tokens; abstract."""

    kind: str
    max_ratio: Annotated[float, Field(ge=0)] = 1.0
    """longest answer, as a multiple of the source"""
    max_extra: Annotated[int, Field(ge=0)] = 50
    """tokens granted on top of that"""
    min_ratio: Annotated[float, Field(ge=0)] = 0.0
    """shortest answer, as a multiple of the source; what is longest goes before"""
    min_length: Annotated[int, Field(ge=0)] = 0
    """shortest answer in tokens, likewise"""
    forbid: Annotated[tuple[Word, ...], Field(strict=False)] = ()
    """words that are not written, however they are cut into tokens; one in lower case is meant in any case, and one
    with a star at its end also where a longer word begins so"""

    @field_validator("max_extra")
    @classmethod
    def _some(cls, max_extra: int, info: ValidationInfo) -> int:
        if max_extra == 0 and info.data.get("max_ratio") == 0:
            raise ValueError("must be above 0 when generation.max_ratio = 0, or every answer is empty")
        return max_extra


class GreedyConfig(Limited):
    """Always the most probable token."""

    kind: Literal["greedy"] = "greedy"


class BeamConfig(Limited):
    """The best of `width` hypotheses that grow side by side."""

    kind: Literal["beam"] = "beam"
    width: Annotated[int, Field(ge=1, le=500)] = 5
    """hypotheses of each sentence"""
    length_penalty: Annotated[float, Field(ge=0)] = 0.6
    """alpha of Wu et al. 2016, equation 14: 0 prefers short answers, 1 divides by the length"""
    normalisation: Literal["wu", "power"] = "wu"
    """what log-probabilities are divided by: Wu's ((5 + length) / 6)^alpha, or length^alpha as in transformers"""


class Drawing(Section):
    """How tokens are drawn at random; abstract."""

    temperature: Annotated[float, Field(gt=0)] = 1.0
    """what the logits are divided by: below 1 is bolder, above 1 more varied"""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """draw from this many most probable tokens only"""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """draw from the fewest tokens that together have this probability (Holtzman et al. 2020)"""
    min_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """draw only tokens that are at least so many times as probable as the most probable one (Nguyen et al. 2024)"""


class SamplingConfig(Drawing, Limited):
    """Tokens drawn at random."""

    kind: Literal["sampling"] = "sampling"


GenerationConfig = Annotated[
    BeamConfig | GreedyConfig | SamplingConfig, Field(discriminator="kind"), default_kind("beam")
]


class Continuing(Unrepeated):
    """What all ways to write share; abstract."""

    kind: str
    tokens: Count = 200
    """longest continuation"""
    stop: Annotated[tuple[StopString, ...], Field(strict=False)] = ()
    """strings before which a continuation ends"""


class GreedyContinuationConfig(Continuing):
    """Always the most probable token."""

    kind: Literal["greedy"] = "greedy"


class SampledContinuationConfig(Drawing, Continuing):
    """Tokens drawn at random: after the penalty and the temperature, top_k, top_p and min_p leave tokens out."""

    kind: Literal["sampling"] = "sampling"


ContinuationConfig = Annotated[
    SampledContinuationConfig | GreedyContinuationConfig, Field(discriminator="kind"), default_kind("sampling")
]
