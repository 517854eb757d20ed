"""The table [model] of recurrent models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.configs.section import Count, InputPath, Layered, Probability, Section, default_kind, misfit

ScoreName = Literal["dot", "scaled_dot", "exp_dot", "general", "concat", "additive", "location"]
WeightsName = Literal["softmax", "proportional", "straight_through", "linear_chain"]
_ONE_WIDTH = ("dot", "scaled_dot", "exp_dot")


class ContextConfig(Section):
    """The source as one vector, without attention (Sutskever et al. 2014; Cho et al. 2014)."""

    kind: Literal["context"] = "context"
    enters: Literal["start", "every_step"] = "every_step"
    """whether that vector only makes the first state, or enters every step as well"""


class BahdanauConfig(Section):
    """Attention before each step; the context enters the gates (Bahdanau et al. 2015)."""

    kind: Literal["bahdanau"] = "bahdanau"
    score: ScoreName = "additive"
    """how a state is compared with a memory slot"""
    d_alignment: Count | None = None
    """hidden width of additive and concat scores; model.d_model if not given"""
    weights: WeightsName = "softmax"
    """how scores become weights"""


class LuongConfig(Section):
    """Attention after each step (Luong et al. 2015)."""

    kind: Literal["luong"] = "luong"
    score: ScoreName = "general"
    """how a state is compared with a memory slot"""
    d_alignment: Count | None = None
    """hidden width of additive and concat scores; model.d_model if not given"""
    weights: WeightsName = "softmax"
    """how scores become weights"""
    window: Literal["global", "monotonic", "predicted"] = "global"
    """which slots are seen: all, those around the same place (local-m), or a bell around a learned place (local-p)"""
    reach: Count = 10
    """D, how many slots a window reaches to both sides"""
    input_feeding: bool = True
    """whether the attentional vector enters the next step"""


ReadingConfig = Annotated[
    ContextConfig | BahdanauConfig | LuongConfig, Field(discriminator="kind"), default_kind("bahdanau")
]


class RecurrentConfig(Layered):
    """Recurrent sequence to sequence, without and with attention.

    `layers` is accepted too and stands for both `encoder_layers` and `decoder_layers`.
    """

    kind: Literal["recurrent"] = "recurrent"
    d_model: Count = 256
    """width of the states; in a bidirectional encoder, of each direction"""
    d_embedding: Count = Field(default_factory=lambda given: given["d_model"])
    """width of the embeddings and of what the output reads; d_model if not given"""
    cell: Literal["elman", "gru", "lstm"] = "gru"
    """the vanilla recurrent network, or one with gates"""
    encoder_layers: Count = 1
    """layers of the encoder"""
    decoder_layers: Count = 1
    """layers of the decoder"""
    bidirectional: bool = True
    """whether the encoder reads from both ends"""
    source_order: Literal["as_written", "reversed", "doubled"] = "as_written"
    """how the source is read: the two tricks that helped before there was attention"""
    reading: ReadingConfig = BahdanauConfig()
    """how the decoder uses the source"""
    readout: Literal["maxout", "tanh"] = "maxout"
    """between state, context and output; Luong's attentional vector is always a tanh"""
    dropout: Probability = 0.1
    """dropout between layers, of the encoder's outputs and before the output"""
    embedding_dropout: Probability = Field(default_factory=lambda given: given["dropout"])
    """dropout of the embeddings; dropout if not given"""
    tie: Literal["three_way", "two_way", "none"] = "three_way"
    """which tables are one: decoder input and output (two_way), the encoder's as well (three_way), or none"""
    source_vectors: InputPath | None = None
    """pre-trained word vectors (word2vec or GloVe text) that the source embeddings start from"""
    target_vectors: InputPath | None = None
    """pre-trained word vectors that the target embeddings start from"""

    @field_validator("reading")
    @classmethod
    def _comparable(cls, reading: ReadingConfig, info: ValidationInfo) -> ReadingConfig:
        if isinstance(reading, ContextConfig) or reading.score not in _ONE_WIDTH or not info.data.get("bidirectional"):
            return reading
        raise misfit(
            "model.reading.score",
            f'= "{reading.score}" needs states and memory slots of one width, and a bidirectional encoder makes slots '
            'of two states: set model.reading.score = "general" or model.bidirectional = false',
        )

    @property
    def has_heads(self) -> bool:
        """One attention is one head."""
        return False

    @property
    def longest(self) -> None:
        """Nothing: a recurrent network has no end."""
