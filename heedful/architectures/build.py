"""Build models from configs of any architecture family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import nn

from heedful.architectures.frames import FrameEncoderArchitecture
from heedful.architectures.interface import (
    ClassifierArchitecture,
    ConditionalArchitecture,
    DataSizes,
    EncoderArchitecture,
    LanguageArchitecture,
    MemoryDecoderArchitecture,
    TranslationArchitecture,
)
from heedful.blocks.linear import build_xavier_linear
from heedful.models.conditional import ConditionalModel
from heedful.models.interface import Decoder, Encoder
from heedful.models.language_model import LanguageModel
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.models.text_classifier import TextClassifier
from heedful.models.token_classifier import TokenClassifier
from heedful.recipes.recipe import ArchitectureConfig
from heedful.registry import load_object
from heedful.tensors import FeatureBatch, Tokens

_DEFAULT_LENGTH: Final = 512


def build_sequence_to_sequence(config: TranslationArchitecture, sizes: DataSizes) -> SequenceToSequence[Tokens]:
    """Build a newly initialised encoder-decoder model; with `torch.device("meta")` as the default device it needs
    no memory.
    """
    model: SequenceToSequence[Tokens] = _call_builder(config, sizes)
    return model


def build_memory_decoder(
    config: MemoryDecoderArchitecture, *, vocabulary: int, slots: Mapping[str, int], longest: int = _DEFAULT_LENGTH
) -> tuple[Decoder, nn.Linear]:
    """Build a newly initialised decoder that attends to memories, and its output layer.

    Args:
        config: its architecture.
        vocabulary: number of entries.
        slots: slot width of each memory, by its name; summaries have the same width.
        longest: tokens of the longest text, and slots of the longest memory; see `build_language_model`.
    """
    decoder_and_output: tuple[Decoder, nn.Linear] = _call_builder(
        config, vocabulary=vocabulary, slots=slots, longest=longest
    )
    return decoder_and_output


def build_conditional_model(config: ConditionalArchitecture, sizes: DataSizes) -> ConditionalModel[Tokens]:
    """Build a newly initialised model that generates text given a source, encoder-decoder or decoder-only."""
    model: ConditionalModel[Tokens] = _call_builder(config, sizes)
    return model


def build_language_model(
    config: LanguageArchitecture, *, vocabulary: int, longest: int = _DEFAULT_LENGTH
) -> LanguageModel:
    """Build a newly initialised language model, a decoder without a memory.

    Args:
        config: its architecture.
        vocabulary: number of entries.
        longest: tokens of the longest text; parts with parameters per position and no length of their own, such as
            location scores, are built for this length.
    """
    model: LanguageModel = _call_builder(config, vocabulary=vocabulary, longest=longest)
    return model


def build_encoder(config: EncoderArchitecture, *, vocabulary: int, longest: int = _DEFAULT_LENGTH) -> Encoder[Tokens]:
    """Build a newly initialised encoder without a head, as pre-training and fine-tuning share it."""
    encoder: Encoder[Tokens] = _call_builder(config, vocabulary=vocabulary, longest=longest)
    return encoder


def build_frame_encoder(
    config: FrameEncoderArchitecture, *, bands: int, longest: int = _DEFAULT_LENGTH
) -> Encoder[FeatureBatch]:
    """Build a newly initialised encoder of sound frames; `longest` is the maximum number of memory slots."""
    encoder: Encoder[FeatureBatch] = _call_builder(config, bands=bands, longest=longest)
    return encoder


def build_tagger(
    config: EncoderArchitecture,
    *,
    vocabulary: int,
    tags: int,
    longest: int = _DEFAULT_LENGTH,
    encoder: Encoder[Tokens] | None = None,
) -> TokenClassifier:
    """Build a token classifier with a newly initialised head on a given encoder, or on a new one."""
    if encoder is None:
        encoder = build_encoder(config, vocabulary=vocabulary, longest=longest)
    return TokenClassifier(encoder, output=build_xavier_linear(config.d_output, tags))


def build_text_classifier(
    config: ClassifierArchitecture,
    *,
    vocabulary: int,
    outputs: int,
    longest: int,
    encoder: Encoder[Tokens] | None = None,
) -> TextClassifier:
    """Build a text classifier with a newly initialised head on the summary of the text.

    The encoder is a new one unless one is given, which keeps its own pooler; only Transformers can be given.
    """
    options = {} if encoder is None else {"encoder": encoder}
    model: TextClassifier = _call_builder(config, vocabulary=vocabulary, outputs=outputs, longest=longest, **options)
    return model


def _call_builder(config: ArchitectureConfig, *sizes: DataSizes, **options: Any) -> Any:
    """Import and call the function that `config.built_by` names."""
    return load_object(config.built_by, context=f"model.kind = {config.kind!r}")(config, *sizes, **options)
