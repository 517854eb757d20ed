"""From configs to models: the front doors, which know no family."""

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
    """A freshly initialised model; `torch.device("meta")` as the default device builds it without memory."""
    model: SequenceToSequence[Tokens] = _call_builder(config, sizes)
    return model


def build_memory_decoder(
    config: MemoryDecoderArchitecture, *, vocabulary: int, slots: Mapping[str, int], longest: int = _DEFAULT_LENGTH
) -> tuple[Decoder, nn.Linear]:
    """A freshly initialised decoder that looks at memories, and the map from its outputs to logits.

    Args:
        config: its architecture.
        vocabulary: entries.
        slots: widths of each memory's slots, by its name; summaries are as wide.
        longest: tokens of the longest text, and slots of the longest memory; see below.
    """
    decoder_and_output: tuple[Decoder, nn.Linear] = _call_builder(
        config, vocabulary=vocabulary, slots=slots, longest=longest
    )
    return decoder_and_output


def build_conditional_model(config: ConditionalArchitecture, sizes: DataSizes) -> ConditionalModel[Tokens]:
    """A freshly initialised model that writes given a text, whichever way it reads that; see above."""
    model: ConditionalModel[Tokens] = _call_builder(config, sizes)
    return model


def build_language_model(
    config: LanguageArchitecture, *, vocabulary: int, longest: int = _DEFAULT_LENGTH
) -> LanguageModel:
    """A freshly initialised decoder that looks at nothing but its own past.

    Args:
        config: its architecture.
        vocabulary: entries.
        longest: tokens of the longest text; parts that have something for each place and no length of their own, such
            as location scores, are made for as many.
    """
    model: LanguageModel = _call_builder(config, vocabulary=vocabulary, longest=longest)
    return model


def build_encoder(config: EncoderArchitecture, *, vocabulary: int, longest: int = _DEFAULT_LENGTH) -> Encoder[Tokens]:
    """A freshly initialised encoder without a head, as pre-training and fine-tuning share it; see above."""
    encoder: Encoder[Tokens] = _call_builder(config, vocabulary=vocabulary, longest=longest)
    return encoder


def build_frame_encoder(
    config: FrameEncoderArchitecture, *, bands: int, longest: int = _DEFAULT_LENGTH
) -> Encoder[FeatureBatch]:
    """A freshly initialised reader of frames; `longest` is of its memories, in slots."""
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
    """A freshly initialised classifier on every token of an encoder: a new one unless one is given; see above."""
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
    """A freshly initialised head on what an encoder says of the whole text.

    The encoder is a new one unless one is given, which keeps its own summary; only Transformers are shared.
    """
    options = {} if encoder is None else {"encoder": encoder}
    model: TextClassifier = _call_builder(config, vocabulary=vocabulary, outputs=outputs, longest=longest, **options)
    return model


def _call_builder(config: ArchitectureConfig, *sizes: DataSizes, **options: Any) -> Any:
    return load_object(config.built_by, context=f"model.kind = {config.kind!r}")(config, *sizes, **options)
