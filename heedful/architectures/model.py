"""What a model is, as data: the architectures of each task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from heedful.architectures.attention import HeadsConfig
from heedful.architectures.classifiers import ConditionalConfig, EncoderClassifierConfig, RecurrentClassifierConfig
from heedful.architectures.convolutional import ConvolutionalConfig
from heedful.architectures.interface import (
    ClassifierArchitecture,
    EncoderArchitecture,
    LanguageArchitecture,
    TranslationArchitecture,
    one_of,
)
from heedful.architectures.positions import (
    CausalConfig,
    DecoderVisibilityConfig,
    EncoderVisibilityConfig,
    EverythingConfig,
)
from heedful.architectures.recurrent import RecurrentConfig, RecurrentDecoderConfig, RecurrentEncoderConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig, StackConfig
from heedful.recipes.section import Count, FreezeVectors, InputPath


class TransformerConfig(StackConfig, TranslationArchitecture):
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

    @property
    def one_table(self) -> bool:
        """Whether both languages share a table of embeddings."""
        return self.tie == "three_way"

    @property
    def vectors(self) -> tuple[Path | None, Path | None]:
        """Files of word vectors."""
        return self.source_vectors, self.target_vectors

    @property
    def frozen_vectors(self) -> bool:
        """Whether words that have such a vector keep it."""
        return self.freeze_vectors


if TYPE_CHECKING:
    ModelConfig = TranslationArchitecture
    LanguageModelConfig = LanguageArchitecture
    TaggerConfig = EncoderArchitecture
    ClassifierConfig = ClassifierArchitecture
else:
    ModelConfig = one_of(TranslationArchitecture, TransformerConfig, RecurrentConfig, ConvolutionalConfig)
    LanguageModelConfig = one_of(LanguageArchitecture, DecoderConfig, RecurrentDecoderConfig)
    TaggerConfig = one_of(EncoderArchitecture, EncoderConfig, RecurrentEncoderConfig)
    ClassifierConfig = one_of(
        ClassifierArchitecture, EncoderClassifierConfig, RecurrentClassifierConfig, ConditionalConfig
    )
