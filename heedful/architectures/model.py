"""What a model is, as data: the architectures of each task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from heedful.architectures.attention import (
    CausalConfig,
    DecoderVisibilityConfig,
    EncoderVisibilityConfig,
    EverythingConfig,
    HeadsConfig,
)
from heedful.architectures.classifiers import (
    ConditionalConfig,
    EncoderClassifierConfig,
    RecurrentClassifierConfig,
    SiameseConfig,
    WindowClassifierConfig,
)
from heedful.architectures.convolutional import ConvolutionalConfig
from heedful.architectures.interface import (
    ClassifierArchitecture,
    ConditionalArchitecture,
    EncoderArchitecture,
    LanguageArchitecture,
    MemoryDecoderArchitecture,
    TiedArchitecture,
    TranslationArchitecture,
    one_of,
)
from heedful.architectures.memory import MemoryNetworkDecoderConfig
from heedful.architectures.recurrent import (
    RecurrentConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    RecurrentMemoryDecoderConfig,
)
from heedful.architectures.stack import DecoderConfig, EncoderConfig, StackConfig, TransformerMemoryDecoderConfig
from heedful.recipes.section import Count, Longest


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
    LanguageModelConfig = one_of(
        LanguageArchitecture, DecoderConfig, RecurrentDecoderConfig, MemoryNetworkDecoderConfig
    )
    TaggerConfig = one_of(EncoderArchitecture, EncoderConfig, RecurrentEncoderConfig)
    ClassifierConfig = one_of(
        ClassifierArchitecture,
        EncoderClassifierConfig,
        RecurrentClassifierConfig,
        WindowClassifierConfig,
        SiameseConfig,
        ConditionalConfig,
    )
    MemoryDecoderConfig = one_of(
        MemoryDecoderArchitecture, TransformerMemoryDecoderConfig, RecurrentMemoryDecoderConfig
    )


class DecoderOnlyConfig(ConditionalArchitecture):
    """A language model that reads source and target as one text (Liu et al. 2018)."""

    built_by: ClassVar = "heedful.architectures.build_decoder_only:decoder_only"
    one_text: ClassVar[bool] = True

    kind: Literal["decoder_only"] = "decoder_only"
    decoder: LanguageModelConfig = DecoderConfig()
    """the language model"""

    @property
    def d_model(self) -> int:
        """The language model's."""
        return self.decoder.d_model

    @property
    def longest(self) -> Longest | None:
        """The language model's."""
        found = self.decoder.longest
        return found and replace(found, key=found.key.replace("model.", "model.decoder.", 1))

    @property
    def word_vectors(self) -> Mapping[str, Path]:
        """The language model's."""
        return {f"decoder.{key}": path for key, path in self.decoder.word_vectors.items()}

    @property
    def frozen_vectors(self) -> bool:
        """Whether words that have such a vector keep it."""
        return self.decoder.frozen_vectors


if TYPE_CHECKING:
    ConditionalModelConfig = ConditionalArchitecture
else:
    ConditionalModelConfig = one_of(
        ConditionalArchitecture, TransformerConfig, RecurrentConfig, ConvolutionalConfig, DecoderOnlyConfig
    )
