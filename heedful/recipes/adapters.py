"""Configs of adapters, which are trained instead of the weights of a model."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from heedful.recipes.config import Config, PositiveInt, Probability, add_default_kind

AdapterTarget = Literal["query", "key", "value", "output", "feed_forward"]
_DEFAULT_TARGETS: Final[tuple[AdapterTarget, ...]] = ("query", "value")
"""Default of Hu et al. 2021, section 7.1: for a given number of weights, better than adapting one kind of projection
alone."""


class LoraConfig(Config):
    """Low-rank updates of linear maps: W x + (alpha / rank) B A x, where A and B are trained (Hu et al. 2021)."""

    kind: Literal["lora"] = "lora"
    rank: PositiveInt = 8
    """rank of an update: rows of A, columns of B"""
    alpha: Annotated[float, Field(gt=0)] = 16.0
    """scale of an update, divided by `rank`"""
    dropout: Probability = 0.0
    """dropout on the input of A, in training"""
    on: Annotated[tuple[AdapterTarget, ...], Field(strict=False, min_length=1)] = _DEFAULT_TARGETS
    """which projections of each attention are adapted, and "feed_forward" for both layers of that network; all five are
    worth their memory if a model has much to learn (Dettmers et al. 2023, section 4)"""

    @field_validator("on")
    @classmethod
    def _check_duplicates(cls, on: tuple[AdapterTarget, ...]) -> tuple[AdapterTarget, ...]:
        """Raise `ValueError` if a projection is named twice."""
        if duplicates := [role for number, role in enumerate(on) if role in on[:number]]:
            raise ValueError(f'names "{duplicates[0]}" twice: leave one of them out')
        return on


class BottleneckConfig(Config):
    """A small network after each attention and feed-forward network, with a residual connection (Houlsby et al.
    2019).
    """

    kind: Literal["bottleneck"] = "bottleneck"
    width: PositiveInt = 64
    """dimension of its hidden layer"""


AdapterConfig = Annotated[LoraConfig | BottleneckConfig, Field(discriminator="kind"), add_default_kind("lora")]
