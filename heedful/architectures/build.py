"""Build models from configs of any architecture family, and the parts that several families share; convolutional
models and memory networks are built here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from heedful.architectures.attention import HeadsConfig, ScoredConfig, ScoreName, WeightsName
from heedful.architectures.frames import FrameEncoderArchitecture, HidingConfig, ShortenedConfig
from heedful.architectures.interface import (
    ClassifierArchitecture,
    ConditionalArchitecture,
    DataSizes,
    EncoderArchitecture,
    LanguageArchitecture,
    MemoryDecoderArchitecture,
    TiedArchitecture,
    TranslationArchitecture,
)
from heedful.architectures.model import (
    ConvolutionalConfig,
    DecoderOnlyConfig,
    MemoryNetworkConfig,
    MemoryNetworkDecoderConfig,
)
from heedful.attention import (
    Attention,
    LearnedPosition,
    LinearChain,
    Normalizer,
    ScaledSoftmax,
    ScoredWeights,
    StraightThrough,
    WeightFunction,
    normalize_by_sum,
    scores,
    softmax,
)
from heedful.blocks.convolution import (
    CausalConvolution,
    CentredConvolution,
    ConvSubsampling,
    FrameConvolutions,
    SpecAugment,
)
from heedful.blocks.embedding import TokenEmbedding, build_embedding, build_output_layer
from heedful.blocks.feedforward import build_xavier_linear
from heedful.models.convolutional import ConvolutionalDecoder, ConvolutionalDecoderLayer, ConvolutionalEncoder
from heedful.models.generative import ConditionalModel, DecoderOnly, LanguageModel, SequenceToSequence
from heedful.models.heads import TextClassifier, TokenClassifier
from heedful.models.interface import Decoder, Encoder
from heedful.models.memory_network import (
    ChainedHops,
    HopUpdate,
    MemoryNetwork,
    MemoryNetworkDecoder,
    SentenceEmbedding,
    WeightTying,
)
from heedful.models.pointer_generator import PointerGenerator
from heedful.models.transformer import SubsampledEncoder
from heedful.recipes.recipe import ArchitectureConfig
from heedful.registry import load_object
from heedful.tensors import FeatureBatch, Tokens

_DEFAULT_LENGTH: Final = 512


def build_sequence_to_sequence(config: TranslationArchitecture, sizes: DataSizes) -> SequenceToSequence[Tokens]:
    """Build a newly initialised encoder-decoder model for vocabularies and texts of these sizes; with
    `torch.device("meta")` as the default device it needs no memory.
    """
    model = _add_pointer(config, _call_builder(config, sizes))
    assert isinstance(model, SequenceToSequence)
    return model


def build_memory_decoder(
    config: MemoryDecoderArchitecture, *, vocabulary: int, slots: Mapping[str, int], longest: int = _DEFAULT_LENGTH
) -> tuple[Decoder, nn.Linear]:
    """Build a newly initialised decoder with `vocabulary` entries that attends to one or several memories, and its
    output layer. `slots` is the slot width of each memory by name, `longest` the maximum number of tokens and slots.

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
    return _add_pointer(config, _call_builder(config, sizes))


def _add_pointer(config: ConditionalArchitecture, model: ConditionalModel[Tokens]) -> ConditionalModel[Tokens]:
    """Return the model, with newly initialised copy attention and gate if the config asks for them."""
    if not isinstance(config, TiedArchitecture) or not config.copies_source:
        return model
    assert isinstance(model, SequenceToSequence)
    assert isinstance(model.encoder, Encoder)
    return PointerGenerator(model.encoder, model.decoder, output=model.output, d_memory=config.d_memory)


def build_language_model(
    config: LanguageArchitecture, *, vocabulary: int, longest: int = _DEFAULT_LENGTH
) -> LanguageModel:
    """Build a newly initialised language model, a decoder without a memory, with `vocabulary` entries for at most
    `longest` tokens.

    Args:
        config: its architecture.
        vocabulary: number of entries.
        longest: tokens of the longest text; parts with parameters per position and no length of their own, such as
            location scores, are built for this length.
    """
    model: LanguageModel = _call_builder(config, vocabulary=vocabulary, longest=longest)
    return model


def build_encoder(config: EncoderArchitecture, *, vocabulary: int, longest: int = _DEFAULT_LENGTH) -> Encoder[Tokens]:
    """Build a newly initialised encoder without a head, as pre-training and fine-tuning share it; `vocabulary` is its
    number of entries, `longest` the number of tokens of the longest text.
    """
    encoder: Encoder[Tokens] = _call_builder(config, vocabulary=vocabulary, longest=longest)
    return encoder


def build_frame_encoder(
    config: FrameEncoderArchitecture, *, bands: int, longest: int = _DEFAULT_LENGTH
) -> Encoder[FeatureBatch]:
    """Build a newly initialised encoder of sound frames of `bands` numbers; `longest` is the maximum number of memory
    slots.
    """
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
    """Build a token classifier with a newly initialised head for `tags` classes, on a given encoder or on a new one. A
    new one has `vocabulary` entries and reads at most `longest` tokens.
    """
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
    """Build a text classifier with a newly initialised head of `outputs` numbers on the summary of the text; it has
    `vocabulary` entries and reads at most `longest` tokens.

    The encoder is a new one unless one is given, which keeps its own pooler; only Transformers can be given.
    """
    options = {} if encoder is None else {"encoder": encoder}
    model: TextClassifier = _call_builder(config, vocabulary=vocabulary, outputs=outputs, longest=longest, **options)
    return model


def _call_builder(config: ArchitectureConfig, *sizes: DataSizes, **options: Any) -> Any:
    """Import and call the function that `config.built_by` names."""
    return load_object(config.built_by, context=f"model.kind = {config.kind!r}")(config, *sizes, **options)


def build_decoder_only(config: DecoderOnlyConfig, sizes: DataSizes) -> DecoderOnly:
    """Build a newly initialised decoder-only model for vocabularies and texts of these sizes; source and target share
    the vocabulary of the target.
    """
    longest = config.count_positions(sizes.max_length, sizes.max_length)
    model = build_language_model(config.decoder, vocabulary=sizes.target, longest=longest)
    return DecoderOnly(model.decoder, output=model.output)


_EMBEDDING_STD = 0.1
"""Initial standard deviation of all embeddings (Gehring et al. 2017, 3.5)."""


def build_convolutional_model(config: ConvolutionalConfig, sizes: DataSizes) -> SequenceToSequence[Tokens]:
    """Build a newly initialised convolutional encoder-decoder model for vocabularies and texts of these sizes; works on
    the meta device.
    """
    table = partial(build_embedding, d_model=config.d_model, deviation=_EMBEDDING_STD)
    target = table(sizes.target)
    source = target if config.shares_embeddings else table(sizes.source)
    encoder = ConvolutionalEncoder(
        _build_embedding(config, source, [table(size) for size in sizes.factors]),
        [
            CentredConvolution(config.d_hidden, config.kernel_width, dilation=dilation, dropout=config.dropout)
            for dilation in _iter_dilations(config, config.encoder_layers)
        ],
        gradient_scale=1 / (2 * config.decoder_layers),
    )
    decoder = ConvolutionalDecoder(
        _build_embedding(config, target),
        [
            ConvolutionalDecoderLayer(
                CausalConvolution(config.d_hidden, config.kernel_width, dilation=dilation, dropout=config.dropout),
                _build_attention(config, sizes),
                d_model=config.d_model,
            )
            for dilation in _iter_dilations(config, config.decoder_layers)
        ],
        dropout=config.dropout,
    )
    if config.weight_norm:
        for linear in [m for part in (encoder, decoder) for m in part.modules() if isinstance(m, nn.Linear)]:
            weight_norm(linear)
    # never with weight norm: it may be an embedding table, and those have none in the paper
    deviation = math.sqrt((1 - config.dropout) / config.d_model)
    output = build_output_layer(target, tied=config.ties_output, bias=config.output_bias, deviation=deviation)
    return SequenceToSequence(encoder, decoder, output=output)


def _build_attention(config: ConvolutionalConfig, sizes: DataSizes) -> Attention:
    """Build the cross-attention of a decoder layer, with the score and the normalizer that the config names; a location
    score has a position for each token of the longest text.
    """
    d = config.d_model
    score = build_score(config, d_query=d, d_key=d, d_hidden=d, longest=sizes.max_length + 1)
    return Attention(score, build_normalizer(config.weights))


def _build_embedding(
    config: ConvolutionalConfig, table: nn.Embedding, factors: Sequence[nn.Embedding] = ()
) -> TokenEmbedding:
    """Build the embedding of tokens from their table, the tables of further factors, and learned positions."""
    position = LearnedPosition(config.positions_length, config.d_model)
    nn.init.normal_(position.table.weight, std=_EMBEDDING_STD)
    return TokenEmbedding(table, position=position, scaled=False, dropout=config.embedding_dropout, factors=factors)


def _iter_dilations(config: ConvolutionalConfig, layers: int) -> Iterator[int]:
    return (config.dilation ** (layer % config.dilation_cycle) for layer in range(layers))


def build_memory_network(config: MemoryNetworkConfig, *, vocabulary: int, answers: int, facts: int) -> MemoryNetwork:
    """Build a newly initialised memory network of `vocabulary` words for stories of at most `facts` facts. The network
    chooses one of `answers` answers to a question.

    Args:
        config: its config.
        vocabulary: number of words; the first ids are answers.
        answers: number of answers.
        facts: maximum number of facts in a story.
    """
    width, hops = config.d_model, config.hops
    tying = WeightTying.adjacent(hops) if config.tie == "adjacent" else WeightTying.layer_wise()
    model = MemoryNetwork(
        SentenceEmbedding(vocabulary, width, tying.num_tables, ordered=config.sentences == "positions"),
        tying,
        HopUpdate(hops, width, has_hop_map=tying.has_hop_map)
        if config.attention == "hops"
        else ChainedHops(hops, width, has_links=config.attention == "binary_chain"),
        answers=answers,
        hops=hops,
        ages=facts if config.temporal else 0,
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=config.deviation)
    return model


def build_memory_network_language_model(
    config: MemoryNetworkDecoderConfig,
    *,
    vocabulary: int,
    longest: int = 0,  # noqa: ARG001 - it encodes ages instead of positions
) -> LanguageModel:
    """Build a newly initialised memory network as a language model with `vocabulary` entries, for texts of any length
    (`longest` is ignored).
    """
    decoder = MemoryNetworkDecoder(
        vocabulary,
        config.d_model,
        hops=config.hops,
        memory=config.memory,
        rectified=config.rectified,
        dropout=config.dropout,
    )
    model = LanguageModel(decoder, output=nn.Linear(config.d_model, vocabulary, bias=False))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=config.deviation)
    return model


def build_score(
    config: ScoredConfig, *, d_query: int, d_key: int, d_hidden: int, longest: int
) -> scores.AttentionScore:
    """Build the score for queries and keys of the widths `d_query` and `d_key`; `d_hidden` is the hidden width of
    additive and concat scores, `longest` the number of positions of a location score.
    """
    builders: dict[ScoreName, Callable[[], scores.AttentionScore]] = {
        "dot": scores.DotScore,
        "scaled_dot": scores.ScaledDotScore,
        "exp_dot": scores.ExpDotScore,
        "general": lambda: scores.GeneralScore(d_query, d_key),
        "concat": lambda: scores.ConcatScore(d_query, d_key, d_hidden),
        "additive": lambda: scores.AdditiveScore(d_query, d_key, d_hidden, bias=config.alignment_bias),
        "location": lambda: scores.LocationScore(d_query, longest),
    }
    return builders[config.score]()


def build_normalizer(name: WeightsName) -> Normalizer:
    """Build the function of this name that turns scores into weights."""
    builders: dict[WeightsName, Callable[[], Normalizer]] = {
        "softmax": lambda: softmax,
        "proportional": lambda: normalize_by_sum,
        "straight_through": StraightThrough,
        "linear_chain": LinearChain,
    }
    return builders[name]()


def build_weight_function(config: HeadsConfig, *, d_k: int, longest: int) -> WeightFunction | None:
    """Build the function that turns queries and keys `d_k` wide into weights; None for scaled softmax, the default.
    `longest` is the number of positions of a location score.
    """
    if (config.score, config.weights) == ("scaled_dot", "softmax"):
        return None
    if (config.score, config.weights) == ("dot", "softmax"):
        return ScaledSoftmax(1.0)
    score = build_score(config, d_query=d_k, d_key=d_k, d_hidden=config.d_alignment or d_k, longest=longest)
    return ScoredWeights(score, build_normalizer(config.weights))


def build_subsampled_encoder(
    config: ShortenedConfig, encoder: Encoder[FeatureBatch], *, bands: int, width: int
) -> SubsampledEncoder:
    """Put newly initialised convolutions before an encoder: they read frames of `bands` numbers and return fewer
    vectors, `width` wide.
    """
    front: nn.Module
    if config.front == "grid":
        front = ConvSubsampling(bands, channels=config.channels, d_model=width)
    else:
        front = FrameConvolutions(bands, d_model=width)
    return SubsampledEncoder(front, encoder, hidden=None if config.hide is None else _build_spec_augment(config.hide))


def _build_spec_augment(config: HidingConfig) -> SpecAugment:
    bands, frames = (config.band_masks, config.bands), (config.frame_masks, config.frames)
    return SpecAugment(bands=bands, frames=frames, share=config.share)
