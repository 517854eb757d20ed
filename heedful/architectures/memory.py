"""Configs of memory networks."""

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
    """A memory network: a question attends to facts in several hops (Sukhbaatar et al. 2015)."""

    built_by: ClassVar = "heedful.architectures.build_memory:build_memory_network"

    kind: Literal["memory_network"] = "memory_network"
    d_model: PositiveInt = 50
    """width of embeddings: 20 for one bAbI task in the paper, 50 for all of them together"""
    hops: Hops = 3
    """number of hops over the facts"""
    attention: Literal["hops", "unary_chain", "binary_chain"] = "hops"
    """attention to facts: hop after hop, by a softmax; or all hops at once, by the marginals of a chain whose steps are
    independent (unary) or depend on the step before (binary; Kim et al. 2017)"""
    sentences: Literal["positions", "bag"] = "positions"
    """sentence encoding: words weighted by their positions (position encoding), or a bag of words"""
    tie: Literal["adjacent", "layer_wise"] = "adjacent"
    """which embedding tables are shared: values of a hop and keys of the next one, or those of all hops"""
    temporal: bool = True
    """whether facts have a vector for their age"""
    deviation: Positive = 0.1
    """initial standard deviation of all parameters; 0.3 suits chains (Kim et al.'s code)"""


class MemoryNetworkDecoderConfig(LanguageArchitecture):
    """A memory network as a language model, whose facts are the last words read (Sukhbaatar et al. 2015, 5)."""

    built_by: ClassVar = "heedful.architectures.build_memory:build_memory_network_language_model"
    is_unbounded: ClassVar[bool] = True

    kind: Literal["memory_network"] = "memory_network"
    d_model: PositiveInt = 150
    """width of embeddings"""
    hops: Hops = 6
    """number of hops over the last words"""
    memory: PositiveInt = 100
    """number of last words in the memory"""
    rectified: Annotated[float, Field(ge=0, le=1)] = 0.5
    """share of the query's numbers that go through a ReLU after each hop"""
    dropout: FloatBelowOne = 0.0
    """probability of dropping a number of a remembered word, an attention weight, or an input of the output layer"""
    deviation: Positive = 0.05
    """initial standard deviation of all parameters"""
