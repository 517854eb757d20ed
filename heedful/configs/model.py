"""What a model is, as data: the architectures of each task."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from heedful.configs.attention import HeadsConfig
from heedful.configs.classifiers import ConditionalConfig, EncoderClassifierConfig, RecurrentClassifierConfig
from heedful.configs.convolutional import ConvolutionalConfig
from heedful.configs.positions import CausalConfig, DecoderVisibilityConfig, EncoderVisibilityConfig, EverythingConfig
from heedful.configs.recurrent import RecurrentConfig, RecurrentDecoderConfig, RecurrentEncoderConfig
from heedful.configs.section import Count, FreezeVectors, InputPath, Layered, default_kind
from heedful.configs.stack import DecoderConfig, EncoderConfig, StackConfig


class TransformerConfig(StackConfig, Layered):
    """The encoder-decoder Transformer (Vaswani et al. 2017) and its variations.

    `layers` is accepted too and stands for both `encoder_layers` and `decoder_layers`.
    """

    encoder_layers: Count = 3
    """layers of the encoder"""
    decoder_layers: Count = 3
    """layers of the decoder"""
    cross_attention: HeadsConfig = HeadsConfig()
    """how target tokens weigh source tokens"""
    encoder_visibility: EncoderVisibilityConfig = EverythingConfig()
    """which source tokens a source token sees"""
    decoder_visibility: DecoderVisibilityConfig = CausalConfig()
    """which target tokens a target token sees"""
    tie: Literal["three_way", "two_way", "none"] = "three_way"
    """which tables are one: decoder input and output (two_way), the encoder's as well (three_way), or none"""
    output_bias: bool = False
    """add a learned bias to the logits"""
    embedding_norm: bool = False
    """normalise the sum of embeddings, as BART does"""
    source_vectors: InputPath | None = None
    """pre-trained word vectors (word2vec or GloVe text) that the source embeddings start from"""
    target_vectors: InputPath | None = None
    """pre-trained word vectors that the target embeddings start from"""
    freeze_vectors: FreezeVectors = False
    """keep words that have a pre-trained vector as they are, while all other pieces learn"""


ModelConfig = Annotated[
    TransformerConfig | RecurrentConfig | ConvolutionalConfig, Field(discriminator="kind"), default_kind("transformer")
]
LanguageModelConfig = Annotated[
    DecoderConfig | RecurrentDecoderConfig, Field(discriminator="kind"), default_kind("transformer")
]
TaggerConfig = Annotated[
    EncoderConfig | RecurrentEncoderConfig, Field(discriminator="kind"), default_kind("transformer")
]
ClassifierConfig = Annotated[
    EncoderClassifierConfig | RecurrentClassifierConfig | ConditionalConfig,
    Field(discriminator="kind"),
    default_kind("transformer"),
]
AnyModelConfig = ModelConfig | LanguageModelConfig | EncoderConfig | TaggerConfig | ClassifierConfig
