"""Configs of Transformer stacks: common keys, and models with a single stack."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.attention import (
    BucketsConfig,
    CausalConfig,
    DecoderVisibilityConfig,
    EncoderVisibilityConfig,
    EverythingConfig,
    HeadsConfig,
    IntegerConfig,
    LearnedConfig,
    LearnedPositionsConfig,
    NoPositionsConfig,
    PositionsConfig,
    RotaryConfig,
    SinusoidalConfig,
    UnitIntervalConfig,
)
from heedful.architectures.interface import (
    EmbeddedConfig,
    EncoderArchitecture,
    LanguageArchitecture,
    MemoryDecoderArchitecture,
)
from heedful.recipes.config import LengthLimit, PositiveInt, Probability, config_error
from heedful.recipes.recipe import ArchitectureConfig

Epsilon = Annotated[float, Field(gt=0, lt=1)]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
_ABSOLUTE_POSITIONS = (LearnedConfig, SinusoidalConfig, IntegerConfig, UnitIntervalConfig, NoPositionsConfig)


class StackConfig(ArchitectureConfig):
    """Abstract: keys of every Transformer.

    The number of layers, and what surrounds them, belong to the model.
    """

    has_heads: ClassVar[bool] = True
    """Whether attention has several heads, which may need decorrelation."""

    kind: Literal["transformer"] = "transformer"
    d_model: PositiveInt = 256
    """width of the embeddings and of all layers"""
    head_width: PositiveInt | None = None
    """width of a query and of a key of each head; d_model / heads if not given"""
    heads: PositiveInt = 4
    """attention heads; must divide d_model, unless head_width is given"""
    key_value_heads: PositiveInt | None = None
    """heads of keys and values, each shared by equally many heads of queries (grouped queries; 1 is multi-query
    attention); as many as heads if not given"""
    query_key_norm: bool = False
    """normalise the queries and keys of each head before they are compared"""
    d_ff: PositiveInt = Field(default_factory=lambda given: 4 * given["d_model"])
    """width inside the feed-forward blocks; 4 * d_model if not given"""
    dropout: Probability = 0.1
    """dropout of each sublayer's output"""
    attention_dropout: Probability = 0.0
    """dropout of the attention weights"""
    activation_dropout: Probability = 0.0
    """dropout inside the feed-forward blocks"""
    embedding_dropout: Probability = Field(default_factory=lambda given: given["dropout"])
    """dropout of the embeddings with their positions; dropout if not given"""
    activation: Activation = "relu"
    """activation of a feed-forward block; gelu_tanh is GPT-2's approximation of gelu"""
    gated: bool = False
    """multiply the activated vector by a second linear map of the input (gated linear unit; with silu it is SwiGLU)"""
    residual: Literal["post_norm", "pre_norm"] = "post_norm"
    """whether the normalisation follows each sublayer (as in the paper) or precedes it"""
    norm: Literal["layer", "rms", "batch"] = "layer"
    """LayerNorm; RMSNorm, which neither subtracts the mean nor adds a bias; or batch normalization, for comparisons: it
    trains in fp32 and in one process"""
    norm_epsilon: Epsilon = 1e-5
    """added to the variance that a norm divides by"""
    bias: bool = True
    """whether the maps and norms inside the layers have biases"""
    query_key_value_bias: bool = Field(default_factory=lambda given: given["bias"])
    """whether the maps to queries, keys and values have biases; bias if not given"""
    aggregation: Literal["mean", "concat", "project"] = "project"
    """how heads are combined: mean, concatenation, or concatenation times W_O (as in the paper)"""
    self_attention: HeadsConfig = HeadsConfig()
    """how tokens weigh each other"""
    shared_key_value: bool = False
    """one matrix for keys and values, W_k = W_v; with the mean of heads, keys are then as wide as the model, like
    values"""
    positions: PositionsConfig = SinusoidalConfig()
    """position encoding"""
    scale_embedding: bool = True
    """multiply the embeddings by the root of d_model"""

    @field_validator("heads")
    @classmethod
    def _require_divisor(cls, heads: int, info: ValidationInfo) -> int:
        """Raise `ValueError` if the number of heads does not divide d_model and their width is not given; otherwise
        return it.
        """
        d_model = info.data.get("d_model")
        if d_model is not None and info.data.get("head_width") is None and d_model % heads:
            raise ValueError(f"must divide model.d_model = {d_model} evenly")
        return heads

    @field_validator("key_value_heads")
    @classmethod
    def _require_shared_heads(cls, key_value_heads: int | None, info: ValidationInfo) -> int | None:
        """Raise `ValueError` if the heads of keys and values do not divide the heads; otherwise return their number."""
        heads = info.data.get("heads")
        if key_value_heads is not None and heads is not None and heads % key_value_heads:
            raise ValueError(f"must divide model.heads = {heads} evenly")
        return key_value_heads

    @field_validator("positions")
    @classmethod
    def _check_position_widths(cls, positions: PositionsConfig, info: ValidationInfo) -> PositionsConfig:
        """Raise an error if d_model is odd with sinusoidal positions, or the width of a head with rotary ones;
        otherwise return the positions.
        """
        d_model, heads = info.data.get("d_model"), info.data.get("heads")
        if d_model is None or heads is None:
            return positions
        if isinstance(positions, SinusoidalConfig) and d_model % 2:
            raise config_error(
                "model.d_model", f"= {d_model} must be even, sinusoidal positions pair sines with cosines"
            )
        width = _compute_d_key(
            d_model,
            heads,
            head_width=info.data.get("head_width"),
            aggregation=info.data.get("aggregation", "project"),
            shared=info.data.get("shared_key_value", False),
        )
        if isinstance(positions, RotaryConfig) and (turned := positions.compute_width(width)) % 2:
            raise config_error(
                "model.heads",
                f"= {heads} gives each head {width} numbers, but rotary positions turn pairs: "
                "choose heads such that d_model / heads is even"
                + (f", and positions.share, of which {turned} follow, likewise" if turned != width else ""),
            )
        return positions

    @property
    def d_key(self) -> int:
        """Width of a query and a key of each head."""
        return _compute_d_key(
            self.d_model,
            self.heads,
            head_width=self.head_width,
            aggregation=self.aggregation,
            shared=self.shared_key_value,
        )

    @property
    def length_limit(self) -> LengthLimit | None:
        """Maximum number of positions; None if unlimited."""
        if not isinstance(self.positions, LearnedConfig):
            return None
        return LengthLimit("model.positions.length", self.positions.length)


def _compute_d_key(d_model: int, heads: int, *, head_width: int | None, aggregation: str, shared: bool) -> int:
    return d_model if shared and aggregation == "mean" else head_width or d_model // heads


class SingleStackConfig(EmbeddedConfig, StackConfig):
    """Abstract: an encoder-only or decoder-only Transformer, as BERT and GPT."""

    layers: PositiveInt = 4
    """layers on top of each other"""
    activation: Activation = "gelu"
    """activation of a feed-forward block; gelu_tanh is GPT-2's approximation of gelu"""
    positions: LearnedPositionsConfig = LearnedConfig()
    """position encoding"""
    scale_embedding: bool = False
    """multiply the embeddings by the root of d_model"""


class TransformerMemoryDecoderConfig(StackConfig, MemoryDecoderArchitecture):
    """Transformer decoder that attends to any memory, or to several, one after the other in each layer."""

    built_by: ClassVar = "heedful.architectures.build_stack:build_transformer_memory_decoder"

    layers: PositiveInt = 3
    """layers on top of each other"""
    cross_attention: HeadsConfig = HeadsConfig()
    """how tokens weigh the slots of a memory"""
    visibility: DecoderVisibilityConfig = CausalConfig()
    """which tokens a token sees"""
    residual: Literal["post_norm", "pre_norm"] = "pre_norm"
    """whether the normalisation follows each sublayer (as in the paper) or precedes it"""
    tie: bool = True
    """whether embedding and output share one table"""
    output_bias: bool = True
    """add a learned bias to the logits"""

    @property
    def d_slot(self) -> int:
        """Required slot width: that of the model."""
        return self.d_model


class DecoderConfig(SingleStackConfig, LanguageArchitecture):
    """Decoder-only Transformer: each token sees those before it (Radford et al. 2019, GPT-2)."""

    built_by: ClassVar = "heedful.architectures.build_stack:build_transformer_language_model"

    residual: Literal["post_norm", "pre_norm"] = "pre_norm"
    """whether the normalisation precedes each sublayer, with one more after the last, or follows it"""
    visibility: DecoderVisibilityConfig = CausalConfig()
    """which tokens a token sees"""
    tie: bool = True
    """whether embedding and output share one table"""
    output_bias: bool = False
    """add a learned bias to the logits"""
    parallel: bool = False
    """let attention and feed-forward network read the same input, instead of one after the other; needs pre_norm"""
    initialisation: Literal["gpt2", "xavier"] = "gpt2"
    """initial values: normal numbers of deviation 0.02, smaller where a sublayer joins the residual stream, or Xavier's
    rule"""

    @field_validator("parallel")
    @classmethod
    def _require_pre_norm(cls, parallel: bool, info: ValidationInfo) -> bool:
        """Raise `ValueError` if sublayers are parallel and their norms follow them; otherwise return the setting."""
        if parallel and info.data.get("residual") == "post_norm":
            raise ValueError('needs model.residual = "pre_norm": with post_norm, each sublayer reads the one before it')
        return parallel


class EncoderConfig(SingleStackConfig, EncoderArchitecture):
    """Encoder-only Transformer: each token sees all others (Devlin et al. 2019, BERT)."""

    built_by: ClassVar = "heedful.architectures.build_stack:build_transformer_encoder"
    adds_special_tokens: ClassVar[bool] = True
    """Texts are wrapped in begin and end tokens, as in pre-training."""

    visibility: EncoderVisibilityConfig = EverythingConfig()
    """which tokens a token sees"""
    segments: PositiveInt = 2
    """number of text segments, each with a vector that is added to its tokens; with 1 nothing is added"""
    d_embedding: PositiveInt | None = None
    """width of the embeddings, which a linear map brings to d_model (Lan et al. 2020, ALBERT); d_model, without a map,
    if not given"""
    share_layers: bool = False
    """whether all layers have the same weights (Lan et al. 2020, ALBERT)"""
    distance_bias: BucketsConfig | None = None
    """learned biases of distances, as in T5, beside the positions of the embeddings (Song et al. 2020, MPNet); none if
    not given"""
    embedding_norm: bool = True
    """normalise the sum of embeddings"""
    norm_epsilon: Epsilon = 1e-12
    """added to the variance that a norm divides by"""
    initialisation: Literal["bert", "xavier"] = "bert"
    """initial values: normal numbers of deviation 0.02, none beyond two deviations, or Xavier's rule"""

    @field_validator("d_embedding")
    @classmethod
    def _require_pairs(cls, d_embedding: int | None, info: ValidationInfo) -> int | None:
        """Raise `ValueError` if embeddings of odd width have sinusoidal positions; otherwise return the width."""
        if d_embedding is not None and d_embedding % 2 and isinstance(info.data.get("positions"), SinusoidalConfig):
            raise ValueError("must be even: sinusoidal positions pair sines with cosines")
        return d_embedding

    @field_validator("distance_bias")
    @classmethod
    def _require_absolute_positions(cls, bias: BucketsConfig | None, info: ValidationInfo) -> BucketsConfig | None:
        """Raise `ValueError` if the attention has relative positions of its own; otherwise return the biases."""
        positions = info.data.get("positions")
        if bias is not None and positions is not None and not isinstance(positions, _ABSOLUTE_POSITIONS):
            raise ValueError(
                f'needs positions of the embeddings, and model.positions.kind = "{positions.kind}" is one of the '
                "attention: leave one of them out"
            )
        return bias
