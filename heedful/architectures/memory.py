"""Memory networks, as data."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from heedful.architectures.interface import LanguageArchitecture
from heedful.recipes.config import PositiveInt
from heedful.recipes.recipe import ArchitectureConfig
from heedful.recipes.training import FloatBelowOne

Positive = Annotated[float, Field(gt=0)]
Hops = Annotated[int, Field(ge=1, le=32)]


class MemoryNetworkConfig(ArchitectureConfig):
    """A question looks at facts again and again (Sukhbaatar et al. 2015)."""

    built_by: ClassVar = "heedful.architectures.build_memory:build_memory_network"

    kind: Literal["memory_network"] = "memory_network"
    d_model: PositiveInt = 50
    """width of embeddings: 20 for one bAbI task in the paper, 50 for all of them together"""
    hops: Hops = 3
    """how often facts are looked at"""
    attention: Literal["hops", "unary_chain", "binary_chain"] = "hops"
    """how: hop after hop, by a softmax; or all at once, by the marginals of a chain whose steps are independent (unary)
    or depend on the step before (binary; Kim et al. 2017)"""
    sentences: Literal["positions", "bag"] = "positions"
    """what a sentence is: its words weighed by their places (position encoding), or a bag of words"""
    tie: Literal["adjacent", "layer_wise"] = "adjacent"
    """which tables of embeddings are one: what a hop reads and what the next one looks for, or those of all hops"""
    temporal: bool = True
    """whether facts have a vector that tells how old they are"""
    deviation: Positive = 0.1
    """of all parameters at first: normal numbers; 0.3 suits chains (Kim et al.'s code)"""


class MemoryNetworkDecoderConfig(LanguageArchitecture):
    """A language model whose facts are the last words that it read (Sukhbaatar et al. 2015, 5)."""

    built_by: ClassVar = "heedful.architectures.build_memory:build_memory_network_language_model"
    is_unbounded: ClassVar[bool] = True

    kind: Literal["memory_network"] = "memory_network"
    d_model: PositiveInt = 150
    """width of embeddings"""
    hops: Hops = 6
    """how often the last words are looked at"""
    memory: PositiveInt = 100
    """how many of them there are"""
    rectified: Annotated[float, Field(ge=0, le=1)] = 0.5
    """share of the numbers that go through a ReLU behind each hop"""
    dropout: FloatBelowOne = 0.0
    """probability of dropping a number of what is remembered, a weight of attention, and what the output reads"""
    deviation: Positive = 0.05
    """of all parameters at first: normal numbers"""
