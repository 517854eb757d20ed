"""Configs of models, and the union of families for each task."""

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
    union_of_families,
)
from heedful.architectures.memory import MemoryNetworkDecoderConfig
from heedful.architectures.recurrent import (
    RecurrentConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    RecurrentMemoryDecoderConfig,
)
from heedful.architectures.stack import DecoderConfig, EncoderConfig, StackConfig, TransformerMemoryDecoderConfig
from heedful.recipes.config import LengthLimit, PositiveInt


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

    built_by: ClassVar = "heedful.architectures.build_decoder_only:build_decoder_only"
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
