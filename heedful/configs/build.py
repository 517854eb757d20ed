"""From configs to objects: the one place that knows every family and both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import torch

from heedful.blocks.linear import xavier_linear
from heedful.configs.build_convolutional import convolutional
from heedful.configs.build_recurrent import recurrent, recurrent_language_model, recurrent_tagger
from heedful.configs.build_stack import transformer, transformer_encoder, transformer_language_model
from heedful.configs.convolutional import ConvolutionalConfig
from heedful.configs.model import LanguageModelConfig, ModelConfig, TaggerConfig, TransformerConfig
from heedful.configs.recurrent import RecurrentConfig, RecurrentDecoderConfig, RecurrentEncoderConfig
from heedful.configs.stack import DecoderConfig, EncoderConfig
from heedful.models.encoders import TransformerEncoder
from heedful.models.interface import Encoder
from heedful.models.language_model import LanguageModel
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.models.token_classifier import TokenClassifier
from heedful.values import Tokens

_LONGEST = 512


@dataclass(frozen=True)
class Sizes:
    """What a model must know of its data: entries of both vocabularies, and the longest sentence in tokens."""

    source: int
    target: int
    max_length: int


def build_sequence_to_sequence(config: ModelConfig, sizes: Sizes) -> SequenceToSequence[Tokens]:
    """A freshly initialised model; `torch.device("meta")` as the default device builds it without memory."""
    match config:
        case TransformerConfig():
            return transformer(config, sizes)
        case RecurrentConfig():
            return recurrent(config, sizes)
        case ConvolutionalConfig():
            return convolutional(config, sizes)
    assert_never(config)


def build_language_model(config: LanguageModelConfig, *, vocabulary: int, longest: int = _LONGEST) -> LanguageModel:
    """A freshly initialised decoder that looks at nothing but its own past.

    Args:
        config: its architecture.
        vocabulary: entries.
        longest: tokens of the longest text; parts that have something for each place and no length of their own, such
            as location scores, are made for as many.
    """
    match config:
        case DecoderConfig():
            return transformer_language_model(config, vocabulary=vocabulary, longest=longest)
        case RecurrentDecoderConfig():
            return recurrent_language_model(config, vocabulary=vocabulary)
    assert_never(config)


def build_encoder(config: EncoderConfig, *, vocabulary: int, longest: int = _LONGEST) -> TransformerEncoder:
    """A freshly initialised encoder without a head, as pre-training and fine-tuning share it; see above."""
    return transformer_encoder(config, vocabulary=vocabulary, longest=longest)


def build_tagger(
    config: TaggerConfig,
    *,
    vocabulary: int,
    tags: int,
    longest: int = _LONGEST,
    encoder: Encoder[Tokens] | None = None,
) -> TokenClassifier:
    """A freshly initialised classifier on every token of an encoder: a new one unless a Transformer is given."""
    assert encoder is None or isinstance(config, EncoderConfig), "only Transformers are shared"
    match config:
        case EncoderConfig():
            if encoder is None:
                encoder = transformer_encoder(config, vocabulary=vocabulary, longest=longest)
            return TokenClassifier(encoder, output=xavier_linear(config.d_model, tags))
        case RecurrentEncoderConfig():
            return recurrent_tagger(config, vocabulary=vocabulary, tags=tags)
    assert_never(config)


def default_device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
