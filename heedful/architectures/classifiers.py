"""Configs of text classifiers: encoders with a pooler, and encoders of text pairs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from heedful.architectures.interface import ClassifierArchitecture, EmbeddedConfig
from heedful.architectures.recurrent import RecurrentEncoderConfig
from heedful.architectures.stack import EncoderConfig
from heedful.recipes.config import Config, PositiveInt, Probability, add_default_kind

SummaryActivation = Literal["tanh", "relu", "gelu"]


class FirstTokenConfig(Config):
    """A map of the first token with an activation: BERT's pooler (Devlin et al. 2019)."""

    kind: Literal["first"] = "first"
    activation: SummaryActivation = "tanh"
    """activation after the map: tanh in BERT and RoBERTa, relu in DistilBERT, gelu in ELECTRA"""


class EndsConfig(Config):
    """Final state of a recurrent encoder; of a bidirectional one, both final states concatenated."""

    kind: Literal["ends"] = "ends"


class MeanConfig(Config):
    """Mean over all tokens."""

    kind: Literal["mean"] = "mean"


class SelfAttentiveConfig(Config):
    """Concatenated contexts of several learned hops (Lin et al. 2017); `training.decorrelation` penalises similar
    hops.
    """

    kind: Literal["self_attentive"] = "self_attentive"
    hops: PositiveInt = 30
    """r, number of learned queries over the text"""
    d_alignment: PositiveInt = 350
    """d_a, hidden width of the scores"""


class StrongestConfig(Config):
    """Maximum of each window feature over the text, concatenated with the mean of the embeddings."""

    kind: Literal["strongest"] = "strongest"


EncoderSummaryConfig = Annotated[
    FirstTokenConfig | MeanConfig | SelfAttentiveConfig, Field(discriminator="kind"), add_default_kind("first")
]
RecurrentSummaryConfig = Annotated[
    EndsConfig | MeanConfig | SelfAttentiveConfig, Field(discriminator="kind"), add_default_kind("ends")
]
WindowSummaryConfig = Annotated[
    StrongestConfig | MeanConfig | SelfAttentiveConfig, Field(discriminator="kind"), add_default_kind("strongest")
]


class BagConfig(Config):
    """Logistic regression of n-grams (TF-IDF), which is solved before training and added to the model's prediction."""

    longest: Annotated[int, Field(ge=1, le=5)] = 2
    """maximum number of tokens in an n-gram"""
    buckets: PositiveInt = 65536
    """n-grams of each length above 1 with weights of their own; if there are more, some share their weights"""
    inverse_penalty: Annotated[float, Field(gt=0)] = 10.0
    """C: weight of the texts relative to the penalty |W|^2 / 2"""
    weight: Annotated[float, Field(gt=0)] = 3.0
    """factor of its log-probabilities relative to those of the model"""


class SummarisedConfig(Config):
    """Abstract: a text is pooled to one vector, and that is classified or regressed."""

    summary: Config
    """how the text is pooled to one vector"""
    d_hidden: PositiveInt | None = None
    """width of a layer with ReLU between that vector and the output; no such layer if not given"""
    bag: BagConfig | None = None
    """additional logistic regression of n-grams; none if not given"""

    @property
    def has_hops(self) -> bool:
        """Whether the pooler has several hops, which may need decorrelation."""
        return isinstance(self.summary, SelfAttentiveConfig)

    @property
    def ngram_inverse_penalty(self) -> float | None:
        """C of the additional n-gram classifier, or None without one."""
        return None if self.bag is None else self.bag.inverse_penalty


class EncoderClassifierConfig(SummarisedConfig, EncoderConfig, ClassifierArchitecture):
    """The encoder-only Transformer with a classifier of whole texts (Devlin et al. 2019, BERT)."""

    built_by: ClassVar = "heedful.architectures.build_classifiers:build_transformer_classifier"

    summary: EncoderSummaryConfig = FirstTokenConfig()
    """how the text is pooled to one vector"""


class RecurrentClassifierConfig(SummarisedConfig, RecurrentEncoderConfig, ClassifierArchitecture):
    """Recurrent encoder with a classifier of whole texts."""

    built_by: ClassVar = "heedful.architectures.build_classifiers:build_recurrent_classifier"

    summary: RecurrentSummaryConfig = EndsConfig()
    """how the text is pooled to one vector"""


class WindowClassifierConfig(SummarisedConfig, EmbeddedConfig, ClassifierArchitecture):
    """Convolution windows with max-pooling (Kim 2014), concatenated with the mean embedding, and a classifier."""

    built_by: ClassVar = "heedful.architectures.build_classifiers:build_window_classifier"

    kind: Literal["windows"] = "windows"
    d_model: PositiveInt = 64
    """width of the embeddings"""
    widths: Annotated[tuple[Annotated[int, Field(ge=1, le=20)], ...], Field(min_length=1, strict=False)] = (2, 3)
    """window widths, in tokens"""
    features: PositiveInt = 48
    """number of filters of each window width"""
    dropout: Probability = 0.5
    """dropout of the text's vector"""
    embedding_dropout: Probability = Field(default_factory=lambda given: given["dropout"])
    """dropout of the embeddings; dropout if not given"""
    summary: WindowSummaryConfig = StrongestConfig()
    """how the text is pooled to one vector"""


class SiameseConfig(EmbeddedConfig, ClassifierArchitecture):
    """Siamese encoder of text pairs: common n-grams, aligned tokens and summaries are compared (Conneau et al.
    2017; Parikh et al. 2016).
    """

    built_by: ClassVar = "heedful.architectures.build_classifiers:build_siamese_classifier"
    requires_pairs: ClassVar[bool] = True

    kind: Literal["siamese"] = "siamese"
    d_model: PositiveInt = 64
    """width of the embeddings"""
    features: PositiveInt = 64
    """width of the layer above all comparisons"""
    dropout: Probability = 0.5
    """dropout of the compared vectors, and of that layer"""
    embedding_dropout: Probability = 0.3
    """dropout of the embeddings"""


class ConditionalConfig(EmbeddedConfig, ClassifierArchitecture):
    """Conditional encoding: an LSTM reads the second text, starting from the memory of another one that read the
    first (Rocktäschel et al. 2016).
    """

    built_by: ClassVar = "heedful.architectures.build_classifiers:build_conditional_classifier"
    requires_pairs: ClassVar[bool] = True

    kind: Literal["conditional"] = "conditional"
    d_model: PositiveInt = 100
    """width of the states"""
    d_embedding: PositiveInt = Field(default_factory=lambda given: given["d_model"])
    """width of the embeddings; d_model if not given"""
    layers: PositiveInt = 1
    """layers on top of each other, over each of the texts"""
    attention: Literal["none", "last", "word_by_word"] = "word_by_word"
    """attention to the outputs for the first text: none, by the last output for the second text, or by each of its
    words"""
    dropout: Probability = 0.1
    """dropout between layers, of their outputs and before the output layer"""
    embedding_dropout: Probability = Field(default_factory=lambda given: given["dropout"])
    """dropout of the embeddings; dropout if not given"""
