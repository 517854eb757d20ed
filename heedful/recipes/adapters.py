"""What of a trained model learns on, where it is not the model itself."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from heedful.recipes.config import Config, PositiveInt, Probability, add_default_kind

AdapterTarget = Literal["query", "key", "value", "output", "feed_forward"]
_DEFAULT_TARGETS: Final[tuple[AdapterTarget, ...]] = ("query", "value")
"""Of Hu et al. 2021, section 7.1: with a given number of weights, better than one kind of map alone."""


class LoraConfig(Config):
    """Low-rank changes of linear maps: W x + (alpha / rank) B A x, of which A and B learn (Hu et al. 2021)."""

    kind: Literal["lora"] = "lora"
    rank: PositiveInt = 8
    """dimensions of a change: rows of A, columns of B"""
    alpha: Annotated[float, Field(gt=0)] = 16.0
    """what a change is multiplied by, over `rank`"""
    dropout: Probability = 0.0
    """of what A reads, in training"""
    on: Annotated[tuple[AdapterTarget, ...], Field(strict=False, min_length=1)] = _DEFAULT_TARGETS
    """which maps of each attention, and "feed_forward" for both of that network; all five are worth their room where a
    model has much to learn (Dettmers et al. 2023, section 4)"""

    @field_validator("on")
    @classmethod
    def _check_duplicates(cls, on: tuple[AdapterTarget, ...]) -> tuple[AdapterTarget, ...]:
        if duplicates := [role for number, role in enumerate(on) if role in on[:number]]:
            raise ValueError(f'names "{duplicates[0]}" twice: leave one of them away')
        return on


class BottleneckConfig(Config):
    """A small network behind each attention and feed-forward network, with a shortcut of its own (Houlsby et al.
    2019)."""

    kind: Literal["bottleneck"] = "bottleneck"
    width: PositiveInt = 64
    """dimensions between its two layers"""


AdapterConfig = Annotated[LoraConfig | BottleneckConfig, Field(discriminator="kind"), add_default_kind("lora")]
