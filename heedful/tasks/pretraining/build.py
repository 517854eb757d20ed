"""From the tables of a pre-training run to its model and to what it is asked."""

from __future__ import annotations

from typing import assert_never

from torch import nn

from heedful.architectures.build_stack import activation, initialisation, transformer_encoder
from heedful.architectures.stack import EncoderConfig
from heedful.models.encoders import FirstToken, TransformerEncoder
from heedful.models.masked_language_model import MaskedHead, MaskedLanguageModel
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.tasks.pretraining.masked_objective import HiddenTokens
from heedful.tasks.pretraining.masking import Masking, SingleTokens, Spans, WholeWords
from heedful.tasks.pretraining.passages import Alone, NextSentence, Pairing, SentenceOrder
from heedful.tasks.pretraining.problem import Objective
from heedful.tasks.pretraining.recipe import (
    HiddenTokensConfig,
    MaskingConfig,
    PretrainingTrainingConfig,
    ReplacedTokensConfig,
)
from heedful.tasks.pretraining.replaced_objective import ReplacedTokens

_MASKINGS: dict[str, type[Masking]] = {"tokens": SingleTokens, "words": WholeWords, "spans": Spans}
_PAIRINGS: dict[str, type[Pairing]] = {
    "next_sentence": NextSentence,
    "sentence_order": SentenceOrder,
    "alone": Alone,
}


def build_masked_language_model(
    config: EncoderConfig, *, vocabulary: int, longest: int, paired: bool
) -> MaskedLanguageModel:
    """A freshly initialised encoder with BERT's heads; that for pairs where `paired`."""
    summary = FirstToken(config.d_model) if paired else None
    encoder = transformer_encoder(config, vocabulary=vocabulary, longest=longest, summary=summary)
    output = nn.Linear(config.d_model, vocabulary)
    output.weight = encoder.stack.embedding.table.weight
    head = MaskedHead(config.d_model, output=output, activation=activation(config), epsilon=config.norm_epsilon)
    model = MaskedLanguageModel(encoder, masked=head, relation=nn.Linear(config.d_model, 2) if paired else None)
    initialisation(config)(model)
    return model


def build_detector(
    config: EncoderConfig, *, vocabulary: int, longest: int, generator_layers: int
) -> ReplacedTokenDetector:
    """A freshly initialised pair of models that share their embedding."""
    encoder = transformer_encoder(config, vocabulary=vocabulary, longest=longest)
    smaller = config.model_copy(update={"layers": generator_layers})
    generator = build_masked_language_model(smaller, vocabulary=vocabulary, longest=longest, paired=False)
    assert isinstance(generator.encoder, TransformerEncoder)
    generator.encoder.stack.embedding = encoder.stack.embedding
    generator.masked.output.weight = encoder.stack.embedding.table.weight
    model = ReplacedTokenDetector(generator, encoder=encoder, d_model=config.d_model, activation=activation(config))
    initialisation(config)(model)
    return model


def build_pretrained(
    config: EncoderConfig, training: PretrainingTrainingConfig, *, vocabulary: int, longest: int
) -> MaskedLanguageModel | ReplacedTokenDetector:
    """The freshly initialised model that an objective needs."""
    match training.objective:
        case HiddenTokensConfig():
            paired = build_pairing(training).asks
            return build_masked_language_model(config, vocabulary=vocabulary, longest=longest, paired=paired)
        case ReplacedTokensConfig(generator_layers=layers):
            return build_detector(config, vocabulary=vocabulary, longest=longest, generator_layers=layers)
    assert_never(training.objective)


def build_objective(config: PretrainingTrainingConfig, *, max_length: int) -> Objective:
    """What is asked; a question about a pair counts as all that is hidden in a full passage."""
    match config.objective:
        case HiddenTokensConfig():
            return HiddenTokens(weight=config.masking.share * max_length)
        case ReplacedTokensConfig(weight=weight):
            return ReplacedTokens(weight=weight, share=config.masking.share)
    assert_never(config.objective)


def build_masking(config: MaskingConfig) -> Masking:
    """Which tokens are asked for."""
    return _MASKINGS[config.kind](config.share)


def build_pairing(config: PretrainingTrainingConfig) -> Pairing:
    """What stands in a passage's second part."""
    return _PAIRINGS[config.pairing]()
