"""Build Transformers from their configs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import assert_never

from torch import nn

from heedful.architectures.attention import (
    AlibiConfig,
    BandScalingConfig,
    BucketsConfig,
    CausalConfig,
    CausalWindowConfig,
    DecoderVisibilityConfig,
    EncoderVisibilityConfig,
    EverythingConfig,
    HeadsConfig,
    IntegerConfig,
    LearnedConfig,
    LinearScalingConfig,
    NoPositionsConfig,
    RotaryConfig,
    RotaryScalingConfig,
    ShawConfig,
    SinusoidalConfig,
    UnitIntervalConfig,
    WindowConfig,
    YarnScalingConfig,
)
from heedful.architectures.build import build_subsampled_encoder, build_weight_function
from heedful.architectures.classifiers import SummaryActivation
from heedful.architectures.frames import FrameTransformerConfig
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import (
    Activation,
    DecoderConfig,
    EncoderConfig,
    StackConfig,
    TransformerMemoryDecoderConfig,
)
from heedful.architectures.vision import PatchPositionsConfig, PatchTransformerConfig
from heedful.attention import (
    AbsolutePosition,
    ConcatAggregation,
    HeadAggregation,
    IntegerPosition,
    LearnedPosition,
    MaskFunction,
    MeanAggregation,
    MultiHeadAttention,
    ProjectionAggregation,
    RelativePosition,
    RotaryPosition,
    ShawPosition,
    SinusoidalPosition,
    UnitIntervalPosition,
    bidirectional,
    causal,
    sliding_window,
)
from heedful.attention.positions import (
    BandScaling,
    BucketBias,
    LinearBias,
    LinearScaling,
    RotaryScaling,
    YarnScaling,
)
from heedful.blocks.embedding import (
    InputEmbedding,
    TokenEmbedding,
    VectorEmbedding,
    build_embedding,
    build_output_layer,
)
from heedful.blocks.feedforward import FeedForward, GatedFeedForward
from heedful.blocks.residual import PostNorm, PreNorm, ResidualConnection, TokenBatchNorm
from heedful.blocks.transformer import ParallelTransformerLayer, TransformerLayer, TransformerStack
from heedful.blocks.vision import PatchProjection
from heedful.errors import RecipeError
from heedful.fused_operators import LayerNorm
from heedful.models.generative import LanguageModel, SequenceToSequence
from heedful.models.parameters import Initializer, init_bert, init_gpt2, init_modern
from heedful.models.transformer import Pooler, SubsampledEncoder, TransformerDecoder, TransformerEncoder
from heedful.models.vision import VisionTransformer
from heedful.tensors import SOURCE, Tokens

PictureShape = tuple[int, int, int]
"""Channels, height and width."""
_INITIALIZERS: dict[str, Initializer] = {"xavier": init_modern, "gpt2": init_gpt2, "bert": init_bert}


def build_transformer(config: TransformerConfig, sizes: DataSizes) -> SequenceToSequence[Tokens]:
    """Build a newly initialised encoder-decoder Transformer for vocabularies and texts of these sizes."""
    longest = sizes.max_length + 1
    target = build_embedding(sizes.target, config.d_model)
    source = target if config.shares_embeddings else build_embedding(sizes.source, config.d_model)
    encoder = _build_stack(
        config,
        _build_embedding(config, source, longest=longest, full_texts=True, factors=sizes.factors),
        layers=config.encoder_layers,
        visibility=config.encoder_visibility,
        longest=longest,
    )
    decoder = _build_stack(
        config,
        _build_embedding(config, target, longest=longest, full_texts=False),
        layers=config.decoder_layers,
        visibility=config.decoder_visibility,
        longest=longest,
        cross_attentions={SOURCE: config.cross_attention},
    )
    output = build_output_layer(target, tied=config.ties_output, bias=config.output_bias)
    return SequenceToSequence(TransformerEncoder(encoder), TransformerDecoder(decoder), output=output)


def build_transformer_memory_decoder(
    config: TransformerMemoryDecoderConfig, *, vocabulary: int, slots: Mapping[str, int], longest: int
) -> tuple[TransformerDecoder, nn.Linear]:
    """Build a newly initialised Transformer decoder with `vocabulary` entries, and its output layer. `slots` is the
    width of the slots of each memory by name, `longest` the maximum number of tokens.
    """
    assert set(slots.values()) <= {config.d_model}, f"slots of {slots} numbers; all must have {config.d_model}"
    table = build_embedding(vocabulary, config.d_model)
    cross_attentions = dict.fromkeys(slots, config.cross_attention)
    stack = _build_token_stack(config, table, longest=longest, full_texts=False, cross_attentions=cross_attentions)
    return TransformerDecoder(stack), build_output_layer(table, tied=config.tie, bias=config.output_bias)


def build_transformer_language_model(config: DecoderConfig, *, vocabulary: int, longest: int) -> LanguageModel:
    """Build a newly initialised decoder-only Transformer with `vocabulary` entries; `longest` is the maximum number of
    tokens.
    """
    table = build_embedding(vocabulary, config.d_model)
    stack = _build_token_stack(config, table, longest=longest, full_texts=False)
    output = build_output_layer(table, tied=config.tie, bias=config.output_bias)
    model = LanguageModel(TransformerDecoder(stack), output=output)
    get_initializer(config)(model)
    return model


def build_transformer_encoder(
    config: EncoderConfig, *, vocabulary: int, longest: int, summary: Pooler | None = None
) -> TransformerEncoder:
    """Build a newly initialised encoder-only Transformer with `vocabulary` entries, without a head. `longest` is the
    maximum number of tokens; `summary` pools a text to one vector, by default the mean of its tokens.
    """
    table = build_embedding(vocabulary, config.d_embedding or config.d_model)
    encoder = TransformerEncoder(_build_token_stack(config, table, longest=longest, full_texts=True), summary=summary)
    get_initializer(config)(encoder)
    return encoder


def build_transformer_frame_encoder(config: FrameTransformerConfig, *, bands: int, longest: int) -> SubsampledEncoder:
    """Build a newly initialised Transformer encoder of frames of `bands` numbers; `longest` is the maximum number of
    memory slots.
    """
    embedding = VectorEmbedding(
        position=_build_absolute_position(config, config.d_model, longest=longest, full_texts=True),
        scale=config.d_model**0.5 if config.scale_embedding else 1.0,
        dropout=config.embedding_dropout,
    )
    stack = _build_stack(config, embedding, layers=config.layers, visibility=config.visibility, longest=longest)
    return build_subsampled_encoder(config, TransformerEncoder(stack), bands=bands, width=config.d_model)


def build_vision_transformer(config: PatchTransformerConfig, *, picture: PictureShape) -> VisionTransformer:
    """Build a newly initialised vision transformer for pictures of this shape, without a classifier; raise
    `RecipeError` if patches do not fit the picture.
    """
    channels, *sides = picture
    if any(side % config.patch for side in sides):
        raise RecipeError(
            f"model.patch = {config.patch}: patches must divide a picture of {sides[0]} x {sides[1]} evenly"
        )
    for key in ("mean", "deviation"):
        if len(numbers := getattr(config, key)) not in (1, channels):
            raise RecipeError(f"model.{key} = {list(numbers)}: give one number, or one for each of {channels} channels")
    rows, columns = (side // config.patch for side in sides)
    longest = 1 + rows * columns
    stack_config: StackConfig = config
    if isinstance(config.positions, PatchPositionsConfig):
        stack_config = config.model_copy(update={"positions": LearnedConfig(length=longest)})
    embedding = VectorEmbedding(
        position=_build_absolute_position(stack_config, config.d_model, longest=longest, full_texts=True),
        scale=config.d_model**0.5 if config.scale_embedding else 1.0,
        dropout=config.embedding_dropout,
    )
    stack = _build_stack(stack_config, embedding, layers=config.layers, visibility=EverythingConfig(), longest=longest)
    patches = PatchProjection(channels, config.d_model, patch=config.patch)
    return VisionTransformer(patches, stack, grid=(rows, columns), mean=config.mean, deviation=config.deviation)


def _build_token_stack(
    config: EncoderConfig | DecoderConfig | TransformerMemoryDecoderConfig,
    table: nn.Embedding,
    *,
    longest: int,
    full_texts: bool,
    cross_attentions: Mapping[str, HeadsConfig] = MappingProxyType({}),
) -> TransformerStack:
    """Build the stack of a model that has only one, which reads tokens through `table`. `longest` is the maximum number
    of tokens, `cross_attentions` the attention to each memory by name; for `full_texts` see `_build_embedding`.
    """
    return _build_stack(
        config,
        _build_embedding(config, table, longest=longest, full_texts=full_texts),
        layers=config.layers,
        visibility=config.visibility,
        longest=longest,
        cross_attentions=cross_attentions,
    )


def _build_stack(
    config: StackConfig,
    embedding: InputEmbedding,
    *,
    layers: int,
    visibility: EncoderVisibilityConfig | DecoderVisibilityConfig,
    longest: int,
    cross_attentions: Mapping[str, HeadsConfig] = MappingProxyType({}),
) -> TransformerStack:
    """Build a stack of `layers` Transformer layers on an embedding, for at most `longest` tokens, with a final norm
    only for pre-norm layers. `visibility` says which tokens a token sees, `cross_attentions` how it attends to each
    memory, by name.
    """
    build_relative = _relative_position_factory(config, visibility)
    built: list[TransformerLayer] = []
    for _ in range(layers):
        built.append(
            _build_layer(config, longest=longest, relative=build_relative(), cross_attentions=cross_attentions)
        )
        if isinstance(config, EncoderConfig) and config.share_layers:
            built[-1].share_weights(built[0])
    return TransformerStack(
        embedding,
        built,
        visibility=_build_mask_function(visibility),
        final_norm=build_norm(config, config.d_model) if config.residual == "pre_norm" else None,
    )


def get_initializer(config: DecoderConfig | EncoderConfig) -> Initializer:
    """Return the initializer that a config names."""
    return _INITIALIZERS[config.initialisation]


def _build_embedding(
    config: StackConfig, table: nn.Embedding, *, longest: int, full_texts: bool, factors: Sequence[int] = ()
) -> TokenEmbedding:
    """Build the embedding of tokens by `table`, for at most `longest` tokens; `factors` are the sizes of further
    tables. `full_texts` says whether it always reads complete texts, which a decoder does not.
    """
    segments = norm = projection = None
    width = table.embedding_dim
    if isinstance(config, EncoderConfig):
        segments = build_embedding(config.segments, width) if config.segments > 1 else None
        projection = None if config.d_embedding is None else nn.Linear(width, config.d_model)
    if isinstance(config, EncoderConfig | TransformerConfig) and config.embedding_norm:
        norm = build_norm(config, width)
    return TokenEmbedding(
        table,
        position=_build_absolute_position(config, width, longest=longest, full_texts=full_texts),
        segments=segments,
        norm=norm,
        projection=projection,
        scaled=config.scale_embedding,
        dropout=config.embedding_dropout,
        factors=[build_embedding(size, config.d_model) for size in factors],
    )


def _build_layer(
    config: StackConfig,
    *,
    longest: int,
    relative: RelativePosition | None,
    cross_attentions: Mapping[str, HeadsConfig],
) -> TransformerLayer:
    """Build a Transformer layer with cross-attention to each of the named memories; `longest` is the maximum number of
    tokens, `relative` the position encoding of self-attention, None for none.
    """
    attention = _build_attention(config, config.self_attention, longest=longest, relative=relative)
    feed_forward = (GatedFeedForward if config.gated else FeedForward)(
        config.d_model,
        config.d_ff,
        activation=build_activation(config.activation),
        dropout=config.activation_dropout,
        bias=config.bias,
    )
    is_parallel = isinstance(config, DecoderConfig) and config.parallel
    return (ParallelTransformerLayer if is_parallel else TransformerLayer)(
        attention,
        feed_forward,
        residual=_residual_factory(config),
        across={
            name: _build_attention(config, heads, longest=longest, relative=None)
            for name, heads in cross_attentions.items()
        },
    )


def build_activation(name: Activation | SummaryActivation) -> nn.Module:
    """Build the activation of this name."""
    builders: dict[Activation | SummaryActivation, Callable[[], nn.Module]] = {
        "relu": nn.ReLU,
        "gelu": nn.GELU,
        "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
        "silu": nn.SiLU,
        "tanh": nn.Tanh,
    }
    return builders[name]()


def _build_attention(
    config: StackConfig, heads: HeadsConfig, *, longest: int, relative: RelativePosition | None
) -> MultiHeadAttention:
    """Build an attention whose heads weigh keys as `heads` says, for at most `longest` tokens; `relative` is its
    relative position encoding, None for none.
    """
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        d_head=config.head_width,
        key_value_heads=config.key_value_heads,
        aggregation=_build_aggregation(config),
        relative=relative,
        weigher=build_weight_function(heads, d_k=config.d_key, longest=longest),
        shared_key_value=config.shared_key_value,
        norm_heads=partial(build_norm, config) if config.query_key_norm else None,
        dropout=config.attention_dropout,
        bias=config.query_key_value_bias,
    )


def _build_aggregation(config: StackConfig) -> HeadAggregation:
    """Build the module that combines the outputs of the heads: their mean, their concatenation, or a linear map of
    it.
    """
    match config.aggregation:
        case "mean":
            return MeanAggregation()
        case "concat":
            return ConcatAggregation()
        case "project":
            return ProjectionAggregation(config.d_model, d_heads=config.heads * config.d_key, bias=config.bias)
    assert_never(config.aggregation)


def _residual_factory(config: StackConfig) -> Callable[[], ResidualConnection]:
    residual_type = PostNorm if config.residual == "post_norm" else PreNorm
    return lambda: residual_type(config.d_model, config.dropout, norm=build_norm(config, config.d_model))


def build_norm(config: StackConfig, width: int) -> nn.Module:
    """Build the norm of a config for vectors of this width: LayerNorm (Ba et al. 2016), RMSNorm (Zhang and Sennrich
    2019) or batch normalization (Ioffe and Szegedy 2015).
    """
    match config.norm:
        case "layer":
            return LayerNorm(width, eps=config.norm_epsilon, bias=config.bias)
        case "rms":
            return nn.RMSNorm(width, eps=config.norm_epsilon)
        case "batch":
            return TokenBatchNorm(width, eps=config.norm_epsilon, bias=config.bias)
    assert_never(config.norm)


def _build_absolute_position(
    config: StackConfig, width: int, *, longest: int, full_texts: bool
) -> AbsolutePosition | None:
    """Build the position encoding that is added to embeddings of this width; None if the config chooses a relative one
    or none. With `full_texts`, positions in the unit interval depend on each text's length, otherwise on `longest`.
    """
    match config.positions:
        case SinusoidalConfig(first=first, longest_included=longest_included):
            return SinusoidalPosition(width, first=first, longest_included=longest_included)
        case LearnedConfig(length=length, offset=offset):
            return LearnedPosition(length, width, offset=offset)
        case UnitIntervalConfig(of=unit_length):
            return UnitIntervalPosition(width, None if full_texts and unit_length == "sentence" else longest)
        case IntegerConfig(first=first):
            return IntegerPosition(width, first=first)
        case RotaryConfig() | ShawConfig() | AlibiConfig() | BucketsConfig() | NoPositionsConfig():
            return None
    assert_never(config.positions)


def _relative_position_factory(
    config: StackConfig, visibility: EncoderVisibilityConfig | DecoderVisibilityConfig
) -> Callable[[], RelativePosition | None]:
    """Return what builds the position encoding that the attention of each layer uses, for tokens that see as
    `visibility` says; it gives None if the config chooses another one.
    """
    bias = config.distance_bias if isinstance(config, EncoderConfig) else None
    match bias or config.positions:
        case RotaryConfig(base=base, scaling=scaling) as rotary:
            width = rotary.compute_width(config.d_key)
            built = None if scaling is None else _build_rotary_scaling(scaling, base=base)
            return lambda: RotaryPosition(config.d_key, width=width, base=base, scaling=built)
        case ShawConfig(clip=clip, values=values):
            d_v = config.d_model if config.aggregation == "mean" else config.d_key
            return lambda: ShawPosition(config.d_key, d_v if values else None, clip=clip)
        case AlibiConfig():
            return lambda: LinearBias(config.heads)
        case BucketsConfig(count=count, max_distance=max_distance):
            is_causal = isinstance(visibility, CausalConfig | CausalWindowConfig)
            shared = BucketBias(config.heads, buckets=count, max_distance=max_distance, causal=is_causal)
            return lambda: shared
    return lambda: None


def _build_rotary_scaling(config: RotaryScalingConfig, *, base: float) -> RotaryScaling:
    """Build the change of the frequencies of rotary positions, whose wavelengths have this base."""
    match config:
        case LinearScalingConfig(factor=factor):
            return LinearScaling(factor)
        case BandScalingConfig(factor=factor, low=low, high=high, length=length):
            return BandScaling(factor, low, high, length)
        case YarnScalingConfig() as yarn:
            return YarnScaling(yarn.factor, yarn.fast, yarn.slow, yarn.length, base, yarn.amplitude, yarn.rounded)
    assert_never(config)


def _build_mask_function(config: EncoderVisibilityConfig | DecoderVisibilityConfig) -> MaskFunction:
    """Build the function that says which tokens a token sees: all, earlier ones, or those in a window."""
    match config:
        case EverythingConfig():
            return bidirectional
        case CausalConfig():
            return causal
        case WindowConfig(before=before, after=after):
            return sliding_window(before, after)
        case CausalWindowConfig(before=before):
            return sliding_window(before, 0)
    assert_never(config)
