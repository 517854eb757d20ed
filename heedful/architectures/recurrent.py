"""Configs of recurrent models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.attention import ScoredConfig, ScoreName, WeightsName, default_weights
from heedful.architectures.interface import (
    EmbeddedConfig,
    EncoderArchitecture,
    LanguageArchitecture,
    MemoryDecoderArchitecture,
    TiedArchitecture,
)
from heedful.recipes.config import Config, PositiveInt, Probability, add_default_kind, config_error
from heedful.recipes.recipe import ArchitectureConfig

ReadingWeightsName = Literal[WeightsName, "sampled"]
_ONE_WIDTH = ("dot", "scaled_dot", "exp_dot")


class ContextConfig(Config):
    """The source as one vector, without attention (Sutskever et al. 2014; Cho et al. 2014)."""

    kind: Literal["context"] = "context"
    enters: Literal["start", "every_step"] = "every_step"
    """whether that vector only makes the initial state, or is an input of every step as well"""


class _KindConfig(Config):
    """Abstract: one of several tables, in which the key `kind` comes first."""

    kind: str


class _AttentiveConfig(ScoredConfig, _KindConfig):
    """Abstract: attention of a decoder state to the memory."""

    weights: ReadingWeightsName = Field(default_factory=default_weights)
    """how scores become weights; softmax if not given, and proportional, p / sum(p), for the score exp_dot"""
    d_alignment: PositiveInt | None = None
    """hidden width of additive and concat scores; model.d_model if not given"""
    gate: bool = False
    """whether the state computes a gate from 0 to 1 for the context (Xu et al. 2015, 4.2.1)"""
    expected: Annotated[float, Field(ge=0, le=1)] = 0.0
    """with weights = "sampled": share of the steps that use the softmax itself in training (0.5 in the paper, for
    captions)"""

    @field_validator("expected")
    @classmethod
    def _require_sampled_weights(cls, expected: float, info: ValidationInfo) -> float:
        """Raise `ValueError` if `expected` is above 0 without sampled weights; otherwise return it."""
        if expected and info.data.get("weights", "sampled") != "sampled":
            raise ValueError('is only for weights = "sampled": leave it out')
        return expected


class BahdanauConfig(_AttentiveConfig):
    """Attention before each step; the context enters the gates (Bahdanau et al. 2015)."""

    kind: Literal["bahdanau"] = "bahdanau"
    score: ScoreName = "additive"
    """how a state is compared with a memory slot"""


class LuongConfig(_AttentiveConfig):
    """Attention after each step (Luong et al. 2015)."""

    kind: Literal["luong"] = "luong"
    score: ScoreName = "general"
    """how a state is compared with a memory slot"""
    window: Literal["global", "monotonic", "predicted"] = "global"
    """which slots are seen: all, those around the same position (local-m), or a Gaussian window around a learned
    position (local-p)"""
    reach: PositiveInt = 10
    """D, number of slots on both sides of the centre of a window"""
    input_feeding: bool = True
    """whether the attentional vector is an input of the next step"""


ReadingConfig = Annotated[
    ContextConfig | BahdanauConfig | LuongConfig, Field(discriminator="kind"), add_default_kind("bahdanau")
]


class LayersConfig(ArchitectureConfig):
    """Abstract: keys of every recurrent model."""

    kind: Literal["recurrent"] = "recurrent"
    d_model: PositiveInt = 256
    """width of the states; in a bidirectional encoder, of each direction"""
    d_embedding: PositiveInt = Field(default_factory=lambda given: given["d_model"])
    """width of the embeddings; d_model if not given"""
    cell: Literal["elman", "gru", "lstm"] = "lstm"
    """the vanilla recurrent network, or one with gates"""
    dropout: Probability = 0.1
    """dropout between layers and before the output"""
    embedding_dropout: Probability = Field(default_factory=lambda given: given["dropout"])
    """dropout of the embeddings; dropout if not given"""


class RecurrentDecodingConfig(LayersConfig):
    """Abstract: a recurrent decoder that reads a source."""

    if TYPE_CHECKING:  # in the order in which they can be checked
        reading: ReadingConfig
        readout: Literal["maxout", "tanh", "state"]
        initialisation: Literal["modern", "bahdanau", "luong", "sutskever"]

    @property
    def samples_attention(self) -> bool:
        """Whether attention is sampled, so that it must be trained by REINFORCE."""
        return not isinstance(self.reading, ContextConfig) and self.reading.weights == "sampled"


class RecurrentConfig(RecurrentDecodingConfig, TiedArchitecture):
    """Recurrent sequence-to-sequence model, with or without attention.

    `layers` is accepted too and stands for both `encoder_layers` and `decoder_layers`.
    """

    built_by: ClassVar = "heedful.architectures.build_recurrent:build_recurrent_model"

    d_embedding: PositiveInt = Field(default_factory=lambda given: given["d_model"])
    """width of the embeddings and of the input of the output layer; d_model if not given"""
    cell: Literal["elman", "gru", "lstm"] = "gru"
    """the vanilla recurrent network, or one with gates"""
    encoder_layers: PositiveInt = 1
    """layers of the encoder"""
    decoder_layers: PositiveInt = 1
    """layers of the decoder"""
    bidirectional: bool = True
    """whether the encoder reads in both directions"""
    source_order: Literal["as_written", "reversed", "doubled"] = "as_written"
    """how the source is read: the two tricks that helped before there was attention"""
    reading: ReadingConfig = BahdanauConfig()
    """how the decoder uses the source"""
    start: Literal["bridge", "carried"] = "bridge"
    """initial state of the decoder: the tanh of a linear map of the encoder's last state, or a copy of the state of the
    same layer of the encoder"""
    readout: Literal["maxout", "tanh", "state"] = "maxout"
    """input of the output layer: maxout or tanh of state, embedding and context, or the state alone; for Luong's
    decoder always the attentional vector, a tanh"""
    dropout: Probability = 0.1
    """dropout between layers, of the encoder's outputs and before the output"""
    initialisation: Literal["modern", "bahdanau", "luong", "sutskever"] = "modern"
    """initial values: matrices by Xavier's rule and orthogonal ones, or those of a paper"""

    @property
    def d_memory(self) -> int:
        """Width of what the encoder returns for each token: the state of each direction."""
        return self.d_model * (1 + self.bidirectional)

    @field_validator("reading")
    @classmethod
    def _check_score_widths(cls, reading: ReadingConfig, info: ValidationInfo) -> ReadingConfig:
        """Raise an error if the score of the attention `reading` needs states and memory slots of equal width and they
        differ; otherwise return it.
        """
        if isinstance(reading, ContextConfig) or reading.score not in _ONE_WIDTH or not info.data.get("bidirectional"):
            return reading
        raise config_error(
            "model.reading.score",
            f'= "{reading.score}" needs states and memory slots of one width, and a bidirectional encoder makes slots '
            'of two states: set model.reading.score = "general" or model.bidirectional = false',
        )

    @field_validator("start")
    @classmethod
    def _check_copied_state(cls, start: str, info: ValidationInfo) -> str:
        """Raise an error if `start` is "carried" but the encoder's states cannot be copied to the decoder, because it
        is bidirectional or has another number of layers; otherwise return it.
        """
        if start != "carried":
            return start
        if info.data.get("bidirectional"):
            raise config_error(
                "model.start",
                '= "carried" passes on one state of each layer, and a bidirectional encoder ends in two: set '
                'model.bidirectional = false or model.start = "bridge"',
            )
        encoder, decoder = info.data.get("encoder_layers"), info.data.get("decoder_layers")
        if encoder is not None and decoder is not None and encoder != decoder:
            raise config_error(
                "model.decoder_layers",
                f'= {decoder} must equal model.encoder_layers = {encoder} where model.start = "carried": each layer '
                "continues where the same layer of the encoder ended",
            )
        return start

    @field_validator("readout")
    @classmethod
    def _check_readout(cls, readout: str, info: ValidationInfo) -> str:
        """Raise an error if the readout is "state" with Luong's attention, or with tied tables that do not have the
        width of the state; otherwise return it.
        """
        if readout == "state" and isinstance(info.data.get("reading"), LuongConfig):
            raise config_error(
                "model.readout",
                '= "state" would leave out the context, which in model.reading.kind = "luong" comes after the state: '
                'set model.reading.kind = "bahdanau" or "context", or leave model.readout out',
            )
        tie, d_model, d_embedding = (info.data.get(key) for key in ("tie", "d_model", "d_embedding"))
        if readout == "state" and tie not in (None, "none") and d_model != d_embedding:
            raise config_error(
                "model.tie",
                f'= "{tie}" makes the output a table of model.d_embedding = {d_embedding} columns, and with '
                f'model.readout = "state" it reads model.d_model = {d_model} numbers: set model.tie = "none"',
            )
        return readout


class RecurrentMemoryDecoderConfig(RecurrentDecodingConfig, MemoryDecoderArchitecture):
    """Recurrent decoder that attends to any memory, or starts from its summary (Vinyals et al. 2015; Xu et al.
    2015).
    """

    built_by: ClassVar = "heedful.architectures.build_recurrent:build_recurrent_memory_decoder"

    layers: PositiveInt = 1
    """layers on top of each other"""
    reading: ReadingConfig = BahdanauConfig()
    """how the decoder uses its memories"""
    readout: Literal["maxout", "tanh"] = "tanh"
    """input of the output layer: maxout or tanh of state, embedding and context; for Luong's decoder always a tanh"""
    start: Literal["bridge", "mlp"] = "bridge"
    """initial state of the decoder: the tanh of a linear map of the summary, or a network of two layers for each part
    of the state (Xu et al. 2015, 3.1.2)"""
    initialisation: Literal["modern", "bahdanau", "luong", "sutskever"] = "modern"
    """initial values: matrices by Xavier's rule and orthogonal ones, or those of a paper"""
    tie: bool = True
    """whether embedding and output share one table"""

    @field_validator("reading")
    @classmethod
    def _check_score_widths(cls, reading: ReadingConfig) -> ReadingConfig:
        """Raise an error if the score of the attention `reading` needs states and memory slots of equal width, because
        slots may have any width; otherwise return it.
        """
        if isinstance(reading, ContextConfig) or reading.score not in _ONE_WIDTH:
            return reading
        raise config_error(
            "model.decoder.reading.score",
            f'= "{reading.score}" needs states and memory slots of one width: set model.decoder.reading.score = '
            '"general"',
        )


class RecurrentDecoderConfig(EmbeddedConfig, LayersConfig, LanguageArchitecture):
    """Vanilla recurrent language model (Mikolov et al. 2010)."""

    built_by: ClassVar = "heedful.architectures.build_recurrent:build_recurrent_language_model"
    is_unbounded: ClassVar[bool] = True

    layers: PositiveInt = 2
    """layers on top of each other"""
    tie: bool = Field(default_factory=lambda given: given["d_embedding"] == given["d_model"])
    """whether embedding and output share one table; true if not given where d_embedding = d_model"""

    @field_validator("tie")
    @classmethod
    def _check_tied_widths(cls, tie: bool, info: ValidationInfo) -> bool:
        """Raise `ValueError` if `tie` is true but d_embedding differs from d_model; otherwise return it."""
        d_model, d_embedding = info.data.get("d_model"), info.data.get("d_embedding")
        if tie and d_model != d_embedding:
            raise ValueError(f"must be false where model.d_embedding = {d_embedding} is not model.d_model = {d_model}")
        return tie


class RecurrentEncoderConfig(EmbeddedConfig, LayersConfig, EncoderArchitecture):
    """Recurrent encoder with an output for each token."""

    built_by: ClassVar = "heedful.architectures.build_recurrent:build_recurrent_encoder"

    layers: PositiveInt = 1
    """layers on top of each other"""
    bidirectional: bool = True
    """whether the sentence is read in both directions"""

    @property
    def d_output(self) -> int:
        """Width of the outputs of both directions."""
        return self.d_model * (1 + self.bidirectional)
