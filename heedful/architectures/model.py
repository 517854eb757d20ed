"""Configs of models, the union of families for each task, and models of papers whose sizes are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import Field, field_validator

from heedful.architectures.attention import (
    CausalConfig,
    DecoderVisibilityConfig,
    EncoderVisibilityConfig,
    EverythingConfig,
    HeadsConfig,
    LearnedConfig,
    NoPositionsConfig,
    ScoredConfig,
    ScoreName,
    WeightsName,
    default_weights,
)
from heedful.architectures.classifiers import (
    ConditionalConfig,
    EncoderClassifierConfig,
    RecurrentClassifierConfig,
    SiameseConfig,
    WindowClassifierConfig,
)
from heedful.architectures.interface import (
    ClassifierArchitecture,
    ConditionalArchitecture,
    EncoderArchitecture,
    LanguageArchitecture,
    MemoryDecoderArchitecture,
    TiedArchitecture,
    TranslationArchitecture,
    union_of_families,
)
from heedful.architectures.recurrent import (
    RecurrentConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    RecurrentMemoryDecoderConfig,
)
from heedful.architectures.stack import DecoderConfig, EncoderConfig, StackConfig, TransformerMemoryDecoderConfig
from heedful.recipes.config import LengthLimit, PositiveInt, Probability
from heedful.recipes.recipe import ArchitectureConfig
from heedful.recipes.training import FloatBelowOne


class ConvolutionalConfig(ScoredConfig, TiedArchitecture):
    """Convolutional sequence to sequence learning (Gehring et al. 2017); the paper ties no tables.

    `layers` is accepted too and stands for both `encoder_layers` and `decoder_layers`.
    """

    built_by: ClassVar = "heedful.architectures.build:build_convolutional_model"

    kind: Literal["convolutional"] = "convolutional"
    d_model: PositiveInt = 256
    """width of the embeddings and of what attention compares"""
    d_hidden: PositiveInt = Field(default_factory=lambda given: given["d_model"])
    """width of everything between the convolutions; d_model if not given"""
    kernel_width: PositiveInt = 3
    """tokens in a window; odd, so that the encoder's windows have a centre"""
    encoder_layers: PositiveInt = 4
    """layers of the encoder"""
    decoder_layers: PositiveInt = 3
    """layers of the decoder; each attends to the source"""
    dilation: PositiveInt = 1
    """factor by which the distance between the tokens of a window grows with each layer; 2 as in ByteNet"""
    dilation_cycle: PositiveInt = 5
    """number of layers after which that distance starts again at 1"""
    score: ScoreName = "dot"
    """how a decoder layer compares a token with a memory slot"""
    weights: WeightsName = Field(default_factory=default_weights)
    """how scores become weights; softmax if not given, and proportional, p / sum(p), for the score exp_dot"""
    dropout: Probability = 0.2
    """dropout of each convolution's input and of the decoder's output"""
    embedding_dropout: Probability = Field(default_factory=lambda given: given["dropout"])
    """dropout of the embeddings with their positions; dropout if not given"""
    positions_length: PositiveInt = 512
    """number of learned positions; must exceed data.max_length"""
    weight_norm: bool = True
    """learn the length of each weight vector separately from its direction (Salimans and Kingma 2016)"""
    output_bias: bool = True
    """add a learned bias to the logits"""

    @field_validator("kernel_width")
    @classmethod
    def _require_odd_width(cls, kernel_width: int) -> int:
        """Raise `ValueError` if the kernel width is even; otherwise return it."""
        if kernel_width % 2 == 0:
            raise ValueError("must be odd, so that the encoder's windows have a middle")
        return kernel_width

    @property
    def length_limit(self) -> LengthLimit:
        """Maximum number of positions: the number of learned ones."""
        return LengthLimit("model.positions_length", self.positions_length)


Positive = Annotated[float, Field(gt=0)]
Hops = Annotated[int, Field(ge=1, le=32)]


class MemoryNetworkConfig(ArchitectureConfig):
    """A memory network: a question attends to facts in several hops (Sukhbaatar et al. 2015)."""

    built_by: ClassVar = "heedful.architectures.build:build_memory_network"

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

    built_by: ClassVar = "heedful.architectures.build:build_memory_network_language_model"
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


class TransformerConfig(StackConfig, TiedArchitecture):
    """The encoder-decoder Transformer (Vaswani et al. 2017) and its variations.

    `layers` is accepted too and stands for both `encoder_layers` and `decoder_layers`.
    """

    built_by: ClassVar = "heedful.architectures.build_stack:build_transformer"

    encoder_layers: PositiveInt = 3
    """layers of the encoder"""
    decoder_layers: PositiveInt = 3
    """layers of the decoder"""
    cross_attention: HeadsConfig = HeadsConfig()
    """how target tokens weigh source tokens"""
    encoder_visibility: EncoderVisibilityConfig = EverythingConfig()
    """which source tokens a source token sees"""
    decoder_visibility: DecoderVisibilityConfig = CausalConfig()
    """which target tokens a target token sees"""
    output_bias: bool = False
    """add a learned bias to the logits"""
    embedding_norm: bool = False
    """normalise the sum of embeddings, as BART does"""


if TYPE_CHECKING:
    ModelConfig = TranslationArchitecture
    LanguageModelConfig = LanguageArchitecture
    TaggerConfig = EncoderArchitecture
    ClassifierConfig = ClassifierArchitecture
    MemoryDecoderConfig = MemoryDecoderArchitecture
else:
    ModelConfig = union_of_families(TranslationArchitecture, TransformerConfig, RecurrentConfig, ConvolutionalConfig)
    LanguageModelConfig = union_of_families(
        LanguageArchitecture, DecoderConfig, RecurrentDecoderConfig, MemoryNetworkDecoderConfig
    )
    TaggerConfig = union_of_families(EncoderArchitecture, EncoderConfig, RecurrentEncoderConfig)
    ClassifierConfig = union_of_families(
        ClassifierArchitecture,
        EncoderClassifierConfig,
        RecurrentClassifierConfig,
        WindowClassifierConfig,
        SiameseConfig,
        ConditionalConfig,
    )
    MemoryDecoderConfig = union_of_families(
        MemoryDecoderArchitecture, TransformerMemoryDecoderConfig, RecurrentMemoryDecoderConfig
    )


class DecoderOnlyConfig(ConditionalArchitecture):
    """A decoder-only model that reads source and target as one text (Liu et al. 2018)."""

    built_by: ClassVar = "heedful.architectures.build:build_decoder_only"
    is_single_text: ClassVar[bool] = True

    kind: Literal["decoder_only"] = "decoder_only"
    decoder: LanguageModelConfig = DecoderConfig()
    """the language model"""

    @property
    def d_model(self) -> int:
        """Width of the language model."""
        return self.decoder.d_model

    @property
    def length_limit(self) -> LengthLimit | None:
        """Maximum number of positions of the language model."""
        decoder_limit = self.decoder.length_limit
        return decoder_limit and replace(decoder_limit, key=decoder_limit.key.replace("model.", "model.decoder.", 1))

    @property
    def word_vectors(self) -> Mapping[str, Path]:
        """Files of word vectors of the language model."""
        return {f"decoder.{key}": path for key, path in self.decoder.word_vectors.items()}

    @property
    def freezes_vectors(self) -> bool:
        """Whether pre-trained word vectors stay fixed."""
        return self.decoder.freezes_vectors


if TYPE_CHECKING:
    ConditionalModelConfig = ConditionalArchitecture
else:
    ConditionalModelConfig = union_of_families(
        ConditionalArchitecture, TransformerConfig, RecurrentConfig, ConvolutionalConfig, DecoderOnlyConfig
    )


@dataclass(frozen=True)
class PublishedModel:
    """A model of a paper.

    Attributes:
        config: its architecture.
        vocabulary: number of entries.
        reported_parameters: its parameters in millions, as the paper or the publisher of its weights counts them.
        source: reference for this count.
    """

    config: TransformerConfig | DecoderConfig | EncoderConfig
    vocabulary: int
    reported_parameters: str
    source: str


def _bert_config(layers: int, d_model: int, heads: int) -> EncoderConfig:
    return EncoderConfig(layers=layers, d_model=d_model, heads=heads, positions=LearnedConfig(length=512))


def _gpt_config(layers: int, d_model: int, heads: int, *, length: int) -> DecoderConfig:
    positions = LearnedConfig(length=length)
    return DecoderConfig(layers=layers, d_model=d_model, heads=heads, activation="gelu_tanh", positions=positions)


_GPT1 = DecoderConfig(
    layers=12, d_model=768, heads=12, activation="gelu_tanh", positions=LearnedConfig(length=512), residual="post_norm"
)
_GOPHER = DecoderConfig(
    layers=80, d_model=16384, heads=128, activation="gelu_tanh", positions=NoPositionsConfig(), bias=False
)
"""Gopher; its norms have only gains (RMSNorm), and its positions are those of Transformer-XL, whose maps of 16384 x
16384 in each layer are not modelled here: 21,475 million."""
_TRANSFORMER_BASE = TransformerConfig(d_model=512, heads=8, encoder_layers=6, decoder_layers=6)
_TRANSFORMER_BIG = TransformerConfig(d_model=1024, heads=16, encoder_layers=6, decoder_layers=6)
_GOPHER_SOURCE = (
    "Rae et al. 2021, table 1; 21,475 million of them are maps of relative positions, which the count here leaves out"
)
_BERT_SOURCE, _GPT2_SOURCE = "Devlin et al. 2019, 3", "Radford et al. 2019, table 2"

PUBLISHED_MODELS: Final[Mapping[str, PublishedModel]] = MappingProxyType(
    {
        "transformer-base": PublishedModel(_TRANSFORMER_BASE, 37_000, "65", "Vaswani et al. 2017, table 3"),
        "transformer-big": PublishedModel(_TRANSFORMER_BIG, 37_000, "213", "Vaswani et al. 2017, table 3"),
        "bert-base": PublishedModel(_bert_config(12, 768, 12), 30_522, "110", _BERT_SOURCE),
        "bert-large": PublishedModel(_bert_config(24, 1024, 16), 30_522, "340", _BERT_SOURCE),
        "gpt-1": PublishedModel(_GPT1, 40_478, "117", "Radford et al. 2018, 4.1; counted in 2019, table 2"),
        "gpt-2": PublishedModel(
            _gpt_config(12, 768, 12, length=1024), 50_257, "117, later corrected to 124", _GPT2_SOURCE
        ),
        "gpt-2-medium": PublishedModel(
            _gpt_config(24, 1024, 16, length=1024), 50_257, "345, later corrected to 355", _GPT2_SOURCE
        ),
        "gpt-2-large": PublishedModel(
            _gpt_config(36, 1280, 20, length=1024), 50_257, "762, later corrected to 774", _GPT2_SOURCE
        ),
        "gpt-2-xl": PublishedModel(
            _gpt_config(48, 1600, 25, length=1024), 50_257, "1542, later corrected to 1558", _GPT2_SOURCE
        ),
        "gpt-3": PublishedModel(
            _gpt_config(96, 12288, 96, length=2048), 50_257, "175,000", "Brown et al. 2020, table 2.1"
        ),
        "gopher": PublishedModel(_GOPHER, 32_000, "280,000", _GOPHER_SOURCE),
        "megatron-turing": PublishedModel(
            _gpt_config(105, 20480, 128, length=2048), 50_257, "530,000", "Smith et al. 2022"
        ),
    }
)
"""Published models by name; BERT's include the pooler of the first token for next-sentence prediction."""
