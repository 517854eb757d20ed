"""How a model knows where a token is, and who sees whom, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from heedful.recipes.section import Count, Section, default_kind

Distance = Annotated[int, Field(ge=0)]


class SinusoidalConfig(Section):
    """Sines and cosines of growing wavelength, added to the embeddings (Vaswani et al. 2017, 3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"


class LearnedConfig(Section):
    """A learned vector for each position, added to the embeddings."""

    kind: Literal["learned"] = "learned"
    length: Count = 512
    """positions that have a vector: more than data.max_length; of a language model, at least data.length"""
    offset: Distance = 0
    """rows of the table in front of them that nothing reads, 2 in BART"""


class UnitIntervalConfig(Section):
    """0 at the first token and 1 at the last: a rejected idea of the lectures, for comparison; pre-norm hides it."""

    kind: Literal["unit_interval"] = "unit_interval"
    of: Literal["sentence", "longest"] = "sentence"
    """where 1 is: at the end of each sentence, as in the lectures, or at data.max_length; in a decoder, which cannot
    know how long its sentence will be, always at data.max_length"""

    @classmethod
    def formerly(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Encoders, too, counted to the longest sentence."""
        return {"of": "longest"}


class IntegerConfig(Section):
    """The position itself: a rejected idea of the lectures, for comparison; pre-norm hides it."""

    kind: Literal["integer"] = "integer"
    first: Literal[0, 1] = 1
    """the number of the first token; the lectures count from 1"""

    @classmethod
    def formerly(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Tokens were counted from 0."""
        return {"first": 0}


class RotaryConfig(Section):
    """Queries and keys rotated by their positions (Su et al. 2021)."""

    kind: Literal["rotary"] = "rotary"


class ShawConfig(Section):
    """A learned vector for each clipped distance, added to keys and values (Shaw et al. 2018)."""

    kind: Literal["shaw"] = "shaw"
    clip: Count = 16
    """distances beyond this one share its vector"""
    values: bool = True
    """whether the values get vectors too (equation 3), or only the keys (equation 4)"""


class NoPositionsConfig(Section):
    """No position encoding at all."""

    kind: Literal["none"] = "none"


class EverythingConfig(Section):
    """Every token sees every other."""

    kind: Literal["everything"] = "everything"


class WindowConfig(Section):
    """A token sees its neighbours only: the restricted self-attention of Vaswani et al. 2017, section 4."""

    kind: Literal["window"] = "window"
    before: Distance
    """tokens seen to the left"""
    after: Distance
    """tokens seen to the right"""


class CausalConfig(Section):
    """A token sees itself and all earlier ones."""

    kind: Literal["causal"] = "causal"


class CausalWindowConfig(Section):
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
    | NoPositionsConfig
)
PositionsConfig = Annotated[_AnyPositionsConfig, Field(discriminator="kind"), default_kind("sinusoidal")]
LearnedPositionsConfig = Annotated[_AnyPositionsConfig, Field(discriminator="kind"), default_kind("learned")]
EncoderVisibilityConfig = Annotated[
    EverythingConfig | WindowConfig, Field(discriminator="kind"), default_kind("everything")
]
DecoderVisibilityConfig = Annotated[
    CausalConfig | CausalWindowConfig, Field(discriminator="kind"), default_kind("causal")
]
