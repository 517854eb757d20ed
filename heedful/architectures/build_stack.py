"""From the table of a Transformer to the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import assert_never

from torch import nn

from heedful.architectures.attention import (
    CausalConfig,
    CausalWindowConfig,
    EverythingConfig,
    HeadsConfig,
    IntegerConfig,
    LearnedConfig,
    NoPositionsConfig,
    RotaryConfig,
    ShawConfig,
    SinusoidalConfig,
    UnitIntervalConfig,
    WindowConfig,
)
from heedful.architectures.build_attention import build_weigher
from heedful.architectures.build_frames import subsampled
from heedful.architectures.frames import FrameTransformerConfig
from heedful.architectures.interface import Sizes
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import (
    Activation,
    AloneConfig,
    DecoderConfig,
    EncoderConfig,
    StackConfig,
    TransformerMemoryDecoderConfig,
)
from heedful.attention import (
    AbsolutePosition,
    Aggregation,
    Concatenation,
    Integer,
    Learned,
    Mean,
    MultiHeadAttention,
    Projection,
    RelativePosition,
    Rotary,
    Shaw,
    Sinusoidal,
    UnitInterval,
    Visibility,
    causal,
    everything,
    window,
)
from heedful.blocks.embedding import TokenEmbedding, VectorEmbedding, embedding_table, output_map
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.residual import PostNorm, PreNorm, Residual
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.models.encoders import Subsampled, Summary, TransformerEncoder
from heedful.models.initialisation import Initialisation, bert, gpt2, modern
from heedful.models.language_model import LanguageModel
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.models.transformer_decoder import TransformerDecoder
from heedful.values import SOURCE, Tokens

_INITIALISATIONS: dict[str, Initialisation] = {"xavier": modern, "gpt2": gpt2, "bert": bert}


def transformer(config: TransformerConfig, sizes: Sizes) -> SequenceToSequence[Tokens]:
    """A freshly initialised encoder-decoder Transformer."""
    longest = sizes.max_length + 1
    target = embedding_table(sizes.target, config.d_model)
    source = target if config.tie == "three_way" else embedding_table(sizes.source, config.d_model)
    encoder = TransformerStack(
        _embedding(config, source, longest=longest, whole=True, factors=sizes.factors),
        [_layer(config, longest=longest) for _ in range(config.encoder_layers)],
        visibility=_visibility(config.encoder_visibility),
        final_norm=_final_norm(config),
    )
    across = {SOURCE: config.cross_attention}
    decoder = TransformerStack(
        _embedding(config, target, longest=longest, whole=False),
        [_layer(config, longest=longest, across=across) for _ in range(config.decoder_layers)],
        visibility=_visibility(config.decoder_visibility),
        final_norm=_final_norm(config),
    )
    output = output_map(target, tied=config.tie != "none", bias=config.output_bias)
    return SequenceToSequence(TransformerEncoder(encoder), TransformerDecoder(decoder), output=output)


def transformer_memory_decoder(
    config: TransformerMemoryDecoderConfig, *, vocabulary: int, slots: Mapping[str, int], longest: int
) -> tuple[TransformerDecoder, nn.Linear]:
    """A freshly initialised decoder, and the map to logits; `longest` is of its texts, in tokens."""
    assert set(slots.values()) <= {config.d_model}, f"slots of {slots} numbers; all must have {config.d_model}"
    table, across = embedding_table(vocabulary, config.d_model), dict.fromkeys(slots, config.cross_attention)
    stack = TransformerStack(
        _embedding(config, table, longest=longest, whole=False),
        [_layer(config, longest=longest, across=across) for _ in range(config.layers)],
        visibility=_visibility(config.visibility),
        final_norm=_final_norm(config),
    )
    return TransformerDecoder(stack), output_map(table, tied=config.tie)


def transformer_language_model(config: DecoderConfig, *, vocabulary: int, longest: int) -> LanguageModel:
    """A freshly initialised decoder-only Transformer; `longest` is of its texts, in tokens."""
    table = embedding_table(vocabulary, config.d_model)
    stack = TransformerStack(
        _embedding(config, table, longest=longest, whole=False),
        [_layer(config, longest=longest) for _ in range(config.layers)],
        visibility=_visibility(config.visibility),
        final_norm=_final_norm(config),
    )
    output = output_map(table, tied=config.tie, bias=config.output_bias)
    model = LanguageModel(TransformerDecoder(stack), output=output)
    initialisation(config)(model)
    return model


def transformer_encoder(
    config: EncoderConfig, *, vocabulary: int, longest: int, summary: Summary | None = None
) -> TransformerEncoder:
    """A freshly initialised encoder-only Transformer, without any head; `longest` is of its texts, in tokens."""
    table = embedding_table(vocabulary, config.d_model)
    stack = TransformerStack(
        _embedding(config, table, longest=longest, whole=True),
        [_layer(config, longest=longest) for _ in range(config.layers)],
        visibility=_visibility(config.visibility),
        final_norm=_final_norm(config),
    )
    encoder = TransformerEncoder(stack, summary=summary)
    initialisation(config)(encoder)
    return encoder


def transformer_frame_encoder(config: FrameTransformerConfig, *, bands: int, longest: int) -> Subsampled:
    """A freshly initialised reader of frames; `longest` is of its memories, in slots."""
    stack = TransformerStack(
        VectorEmbedding(
            position=_absolute(config, longest=longest, whole=True),
            scale=config.d_model**0.5 if config.scale_embedding else 1.0,
            dropout=config.embedding_dropout,
        ),
        [_layer(config, longest=longest) for _ in range(config.layers)],
        visibility=_visibility(config.visibility),
        final_norm=_final_norm(config),
    )
    return subsampled(config, TransformerEncoder(stack), bands=bands, width=config.d_model)


def initialisation(config: DecoderConfig | EncoderConfig) -> Initialisation:
    """What training begins with."""
    return _INITIALISATIONS[config.initialisation]


def _embedding(
    config: StackConfig, table: nn.Embedding, *, longest: int, whole: bool, factors: Sequence[int] = ()
) -> TokenEmbedding:
    """`whole` says whether it always gets texts from begin to end, as a decoder does not."""
    segments = norm = None
    if isinstance(config, EncoderConfig) and config.segments > 1:
        segments = embedding_table(config.segments, config.d_model)
    if isinstance(config, EncoderConfig | TransformerConfig) and config.embedding_norm:
        norm = _norm(config)
    return TokenEmbedding(
        table,
        position=_absolute(config, longest=longest, whole=whole),
        segments=segments,
        norm=norm,
        scaled=config.scale_embedding,
        dropout=config.embedding_dropout,
        factors=[embedding_table(size, config.d_model) for size in factors],
    )


def _layer(
    config: StackConfig, *, longest: int, across: Mapping[str, HeadsConfig] = MappingProxyType({})
) -> TransformerLayer:
    relative = _relative(config)
    attention = _attention(config, config.self_attention, longest=longest, relative=relative)
    network = FeedForward(
        config.d_model,
        config.d_ff,
        activation=activation(config),
        dropout=config.activation_dropout,
        bias=_has_bias(config),
    )
    return TransformerLayer(
        attention,
        network,
        residual=_residual(config),
        across={name: _attention(config, heads, longest=longest, relative=None) for name, heads in across.items()},
    )


def activation(config: StackConfig) -> nn.Module:
    """What stands between two maps."""
    made: dict[Activation, Callable[[], nn.Module]] = {
        "relu": lambda: nn.ReLU(inplace=True),
        "gelu": nn.GELU,
        "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
        "silu": lambda: nn.SiLU(inplace=True),
    }
    return made[config.activation]()


def _attention(
    config: StackConfig, heads: HeadsConfig, *, longest: int, relative: RelativePosition | None
) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        aggregation=_aggregation(config),
        relative=relative,
        weigher=build_weigher(heads, d_k=config.d_key, longest=longest),
        shared_key_value=config.shared_key_value,
        dropout=config.attention_dropout,
        bias=_has_bias(config),
    )


def _aggregation(config: StackConfig) -> Aggregation:
    match config.aggregation:
        case "mean":
            return Mean()
        case "concat":
            return Concatenation()
        case "project":
            return Projection(config.d_model, bias=_has_bias(config))
    assert_never(config.aggregation)


def _residual(config: StackConfig) -> Callable[[], Residual]:
    kind = PostNorm if config.residual == "post_norm" else PreNorm
    return lambda: kind(config.d_model, config.dropout, epsilon=_epsilon(config), bias=_has_bias(config))


def _final_norm(config: StackConfig) -> nn.Module | None:
    return _norm(config) if config.residual == "pre_norm" else None


def _norm(config: StackConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.d_model, eps=_epsilon(config), bias=_has_bias(config))


def _epsilon(config: StackConfig) -> float:
    return config.norm_epsilon if isinstance(config, AloneConfig) else 1e-5


def _has_bias(config: StackConfig) -> bool:
    return config.bias if isinstance(config, AloneConfig) else True


def _absolute(config: StackConfig, *, longest: int, whole: bool) -> AbsolutePosition | None:
    match config.positions:
        case SinusoidalConfig():
            return Sinusoidal(config.d_model)
        case LearnedConfig(length=length, offset=offset):
            return Learned(length, config.d_model, offset=offset)
        case UnitIntervalConfig(of=of):
            return UnitInterval(config.d_model, None if whole and of == "sentence" else longest)
        case IntegerConfig(first=first):
            return Integer(config.d_model, first=first)
        case RotaryConfig() | ShawConfig() | NoPositionsConfig():
            return None
    assert_never(config.positions)


def _relative(config: StackConfig) -> RelativePosition | None:
    match config.positions:
        case RotaryConfig():
            return Rotary(config.d_key)
        case ShawConfig(clip=clip, values=values):
            d_v = config.d_model if config.aggregation == "mean" else config.d_key
            return Shaw(config.d_key, d_v if values else None, clip=clip)
    return None


def _visibility(config: EverythingConfig | WindowConfig | CausalConfig | CausalWindowConfig) -> Visibility:
    match config:
        case EverythingConfig():
            return everything
        case CausalConfig():
            return causal
        case WindowConfig(before=before, after=after):
            return window(before, after)
        case CausalWindowConfig(before=before):
            return window(before, 0)
    assert_never(config)
