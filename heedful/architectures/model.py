"""What a model is, as data: the architectures of each task."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from heedful.architectures.attention import (
    CausalConfig,
    DecoderVisibilityConfig,
    EncoderVisibilityConfig,
    EverythingConfig,
    HeadsConfig,
)
from heedful.architectures.classifiers import ConditionalConfig, EncoderClassifierConfig, RecurrentClassifierConfig
from heedful.architectures.convolutional import ConvolutionalConfig
from heedful.architectures.interface import (
    ClassifierArchitecture,
    EncoderArchitecture,
    LanguageArchitecture,
    MemoryDecoderArchitecture,
    TiedArchitecture,
    TranslationArchitecture,
    one_of,
)
from heedful.architectures.recurrent import (
    RecurrentConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    RecurrentMemoryDecoderConfig,
)
from heedful.architectures.stack import DecoderConfig, EncoderConfig, StackConfig, TransformerMemoryDecoderConfig
from heedful.recipes.section import Count


class TransformerConfig(StackConfig, TiedArchitecture):
    """The encoder-decoder Transformer (Vaswani et al. 2017) and its variations.

    `layers` is accepted too and stands for both `encoder_layers` and `decoder_layers`.
    """

    built_by: ClassVar = "heedful.architectures.build_stack:transformer"

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
    ModelConfig = one_of(TranslationArchitecture, TransformerConfig, RecurrentConfig, ConvolutionalConfig)
    LanguageModelConfig = one_of(LanguageArchitecture, DecoderConfig, RecurrentDecoderConfig)
    TaggerConfig = one_of(EncoderArchitecture, EncoderConfig, RecurrentEncoderConfig)
    ClassifierConfig = one_of(
        ClassifierArchitecture, EncoderClassifierConfig, RecurrentClassifierConfig, ConditionalConfig
    )
    MemoryDecoderConfig = one_of(
        MemoryDecoderArchitecture, TransformerMemoryDecoderConfig, RecurrentMemoryDecoderConfig
    )
