"""What a model is, as data: architecture, positions, visibility."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.configs.attention import HeadsConfig
from heedful.configs.convolutional import ConvolutionalConfig
from heedful.configs.recurrent import RecurrentConfig, RecurrentDecoderConfig, RecurrentEncoderConfig
from heedful.configs.section import Count, InputPath, Layered, Longest, Probability, Section, default_kind, misfit

Distance = Annotated[int, Field(ge=0)]


class SinusoidalConfig(Section):
    """Sines and cosines of growing wavelength, added to the embeddings (Vaswani et al. 2017, 3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"


class LearnedConfig(Section):
    """A learned vector for each position, added to the embeddings."""

    kind: Literal["learned"] = "learned"
    length: Count = 512
    """positions that have a vector; must exceed data.max_length"""


class UnitIntervalConfig(Section):
    """The position divided by data.max_length: a rejected idea of the lectures, for comparison; pre-norm hides it."""

    kind: Literal["unit_interval"] = "unit_interval"


class IntegerConfig(Section):
    """The position itself: a rejected idea of the lectures, for comparison; pre-norm hides it."""

    kind: Literal["integer"] = "integer"


class RotaryConfig(Section):
    """Queries and keys rotated by their positions (Su et al. 2021)."""

    kind: Literal["rotary"] = "rotary"


class ShawConfig(Section):
    """A learned vector for each clipped distance, added to keys and values (Shaw et al. 2018)."""

    kind: Literal["shaw"] = "shaw"
    clip: Count = 16
    """distances beyond this one share its vector"""
    values: bool = True
    """whether the values get vectors too (equation 3), or only the keys (equation 4)"""


class NoPositionsConfig(Section):
    """No position encoding at all."""

    kind: Literal["none"] = "none"


class EverythingConfig(Section):
    """Every token sees every other."""

    kind: Literal["everything"] = "everything"


class WindowConfig(Section):
    """A token sees its neighbours only: the restricted self-attention of Vaswani et al. 2017, section 4."""

    kind: Literal["window"] = "window"
    before: Distance
    """tokens seen to the left"""
    after: Distance
    """tokens seen to the right"""


class CausalConfig(Section):
    """A token sees itself and all earlier ones."""

    kind: Literal["causal"] = "causal"


class CausalWindowConfig(Section):
    """A token sees itself and the `before` tokens to its left."""

    kind: Literal["window"] = "window"
    before: Distance
    """tokens seen to the left"""


PositionsConfig = Annotated[
    SinusoidalConfig
    | LearnedConfig
    | UnitIntervalConfig
    | IntegerConfig
    | RotaryConfig
    | ShawConfig
    | NoPositionsConfig,
    Field(discriminator="kind"),
    default_kind("sinusoidal"),
]
EncoderVisibilityConfig = Annotated[
    EverythingConfig | WindowConfig, Field(discriminator="kind"), default_kind("everything")
]
DecoderVisibilityConfig = Annotated[
    CausalConfig | CausalWindowConfig, Field(discriminator="kind"), default_kind("causal")
]


class TransformerConfig(Layered):
    """The encoder-decoder Transformer (Vaswani et al. 2017) and its variations.

    `layers` is accepted too and stands for both `encoder_layers` and `decoder_layers`.
    """

    kind: Literal["transformer"] = "transformer"
    d_model: Count = 256
    """width of the embeddings and of everything between the layers"""
    heads: Count = 4
    """attention heads; must divide d_model"""
    d_ff: Count = Field(default_factory=lambda given: 4 * given["d_model"])
    """width inside the feed-forward blocks; 4 * d_model if not given"""
    encoder_layers: Count = 3
    """layers of the encoder"""
    decoder_layers: Count = 3
    """layers of the decoder"""
    dropout: Probability = 0.1
    """dropout of each sublayer's output"""
    attention_dropout: Probability = 0.0
    """dropout of the attention weights"""
    activation_dropout: Probability = 0.0
    """dropout inside the feed-forward blocks"""
    embedding_dropout: Probability = Field(default_factory=lambda given: given["dropout"])
    """dropout of the embeddings with their positions; dropout if not given"""
    activation: Literal["relu", "gelu"] = "relu"
    """between the two maps of a feed-forward block"""
    residual: Literal["post_norm", "pre_norm"] = "post_norm"
    """whether the normalisation follows each sublayer (as in the paper) or precedes it"""
    aggregation: Literal["mean", "concat", "project"] = "project"
    """how heads are joined: mean, concatenation, or concatenation times W_O (as in the paper)"""
    self_attention: HeadsConfig = HeadsConfig()
    """how tokens weigh each other, on both sides"""
    cross_attention: HeadsConfig = HeadsConfig()
    """how target tokens weigh source tokens"""
    shared_key_value: bool = False
    """one matrix for keys and values, W_k = W_v"""
    positions: PositionsConfig = SinusoidalConfig()
    """how the model knows where a token is"""
    encoder_visibility: EncoderVisibilityConfig = EverythingConfig()
    """which source tokens a source token sees"""
    decoder_visibility: DecoderVisibilityConfig = CausalConfig()
    """which target tokens a target token sees"""
    tie: Literal["three_way", "two_way", "none"] = "three_way"
    """which tables are one: decoder input and output (two_way), the encoder's as well (three_way), or none"""
    scale_embedding: bool = True
    """multiply the embeddings by the root of d_model"""
    output_bias: bool = False
    """add a learned bias to the logits"""
    source_vectors: InputPath | None = None
    """pre-trained word vectors (word2vec or GloVe text) that the source embeddings start from"""
    target_vectors: InputPath | None = None
    """pre-trained word vectors that the target embeddings start from"""

    @field_validator("heads")
    @classmethod
    def _divides(cls, heads: int, info: ValidationInfo) -> int:
        d_model = info.data.get("d_model")
        if d_model is not None and d_model % heads:
            raise ValueError(f"must divide model.d_model = {d_model} evenly")
        return heads

    @field_validator("positions")
    @classmethod
    def _even(cls, positions: PositionsConfig, info: ValidationInfo) -> PositionsConfig:
        d_model, heads = info.data.get("d_model"), info.data.get("heads")
        if d_model is None or heads is None:
            return positions
        if isinstance(positions, SinusoidalConfig) and d_model % 2:
            raise misfit("model.d_model", f"= {d_model} must be even, sinusoidal positions pair sines with cosines")
        if isinstance(positions, RotaryConfig) and d_model // heads % 2:
            raise misfit(
                "model.heads",
                f"= {heads} gives each head {d_model // heads} numbers, but rotary positions turn pairs: "
                "choose heads such that d_model / heads is even",
            )
        return positions

    @property
    def has_heads(self) -> bool:
        """Whether attention has several heads that may look alike."""
        return True

    @property
    def longest(self) -> Longest | None:
        """How many places the positions have; None where they have no end."""
        if not isinstance(self.positions, LearnedConfig):
            return None
        return Longest("model.positions.length", self.positions.length)


ModelConfig = Annotated[
    TransformerConfig | RecurrentConfig | ConvolutionalConfig, Field(discriminator="kind"), default_kind("transformer")
]
LanguageModelConfig = RecurrentDecoderConfig
TaggerConfig = RecurrentEncoderConfig
AnyModelConfig = ModelConfig | LanguageModelConfig | TaggerConfig
