"""Architectures of classifiers, as data: encoders with a summary of the whole text, and readers of pairs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from heedful.architectures.interface import ClassifierArchitecture, EmbeddedConfig
from heedful.architectures.recurrent import RecurrentEncoderConfig
from heedful.architectures.stack import EncoderConfig
from heedful.recipes.config import Config, PositiveInt, Probability, add_default_kind


class FirstTokenConfig(Config):
    """tanh of a map of the first token: BERT's pooler (Devlin et al. 2019)."""

    kind: Literal["first"] = "first"


class EndsConfig(Config):
    """Where a recurrent encoder ends; of a bidirectional one, both ends side by side."""

    kind: Literal["ends"] = "ends"


class MeanConfig(Config):
    """The mean over all tokens."""

    kind: Literal["mean"] = "mean"


class SelfAttentiveConfig(Config):
    """What several hops take from the tokens, side by side (Lin et al. 2017); `training.decorrelation` pushes them
    apart."""

    kind: Literal["self_attentive"] = "self_attentive"
    hops: PositiveInt = 30
    """r, how many queries look at the text, each learned"""
    d_alignment: PositiveInt = 350
    """d_a, hidden width of the scores"""


class StrongestConfig(Config):
    """What windows found most strongly anywhere in the text, beside the mean of the embeddings."""

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
    """Logistic regression of n-grams (TF-IDF), which is solved before training and votes beside the model."""

    longest: Annotated[int, Field(ge=1, le=5)] = 2
    """tokens in an n-gram at most"""
    buckets: PositiveInt = 65536
    """n-grams of each length above 1 that have weights of their own; where there are more of them, some share theirs"""
    inverse_penalty: Annotated[float, Field(gt=0)] = 10.0
    """C: how much the texts count beside the penalty |W|^2 / 2"""
    weight: Annotated[float, Field(gt=0)] = 3.0
    """what the logarithms of its probabilities are multiplied by, where those of the model count once"""


class SummarisedConfig(Config):
    """Abstract: a text becomes one vector, and that a class or a number."""

    summary: Config
    """how the text becomes one vector"""
    d_hidden: PositiveInt | None = None
    """width of a layer with ReLU between that vector and the output; there is none if not given"""
    bag: BagConfig | None = None
    """logistic regression of n-grams that votes for classes beside; there is none if not given"""

    @property
    def has_hops(self) -> bool:
        """Whether the summary has hops that may look alike."""
        return isinstance(self.summary, SelfAttentiveConfig)

    @property
    def ngram_inverse_penalty(self) -> float | None:
        """C of the logistic regression that votes beside, where there is one."""
        return None if self.bag is None else self.bag.inverse_penalty


class EncoderClassifierConfig(SummarisedConfig, EncoderConfig, ClassifierArchitecture):
    """The encoder-only Transformer with a classifier of whole texts (Devlin et al. 2019, BERT)."""

    built_by: ClassVar = "heedful.architectures.build_fine_tuning:build_transformer_classifier"

    summary: EncoderSummaryConfig = FirstTokenConfig()
    """how the text becomes one vector"""


class RecurrentClassifierConfig(SummarisedConfig, RecurrentEncoderConfig, ClassifierArchitecture):
    """Recurrent layers over a text with a classifier of the whole."""

    built_by: ClassVar = "heedful.architectures.build_fine_tuning:build_recurrent_classifier"

    summary: RecurrentSummaryConfig = EndsConfig()
    """how the text becomes one vector"""


class WindowClassifierConfig(SummarisedConfig, EmbeddedConfig, ClassifierArchitecture):
    """Convolutions over a text, of which the strongest find of each feature counts (Kim 2014), beside its mean word."""

    built_by: ClassVar = "heedful.architectures.build_fine_tuning:build_window_classifier"

    kind: Literal["windows"] = "windows"
    d_model: PositiveInt = 64
    """width of the embeddings"""
    widths: Annotated[tuple[Annotated[int, Field(ge=1, le=20)], ...], Field(min_length=1, strict=False)] = (2, 3)
    """tokens in a window, for each kind of windows"""
    features: PositiveInt = 48
    """how many things windows of each width look for"""
    dropout: Probability = 0.5
    """dropout of the text's vector"""
    embedding_dropout: Probability = Field(default_factory=lambda given: given["dropout"])
    """dropout of the embeddings; dropout if not given"""
    summary: WindowSummaryConfig = StrongestConfig()
    """how the text becomes one vector"""


class SiameseConfig(EmbeddedConfig, ClassifierArchitecture):
    """One encoder reads both texts of a pair; n-grams in common, aligned tokens and summaries are compared (Conneau et
    al. 2017; Parikh et al. 2016)."""

    built_by: ClassVar = "heedful.architectures.build_fine_tuning:build_siamese_classifier"
    requires_pairs: ClassVar[bool] = True

    kind: Literal["siamese"] = "siamese"
    d_model: PositiveInt = 64
    """width of the embeddings"""
    features: PositiveInt = 64
    """width of the layer that all comparisons enter"""
    dropout: Probability = 0.5
    """dropout of the vectors that are compared, and of that layer"""
    embedding_dropout: Probability = 0.3
    """dropout of the embeddings"""


class ConditionalConfig(EmbeddedConfig, ClassifierArchitecture):
    """An LSTM reads the second text with what the memory of another one kept of the first (Rocktäschel et al. 2016)."""

    built_by: ClassVar = "heedful.architectures.build_fine_tuning:build_conditional_classifier"
    requires_pairs: ClassVar[bool] = True

    kind: Literal["conditional"] = "conditional"
    d_model: PositiveInt = 100
    """width of the states"""
    d_embedding: PositiveInt = Field(default_factory=lambda given: given["d_model"])
    """width of the embeddings; d_model if not given"""
    layers: PositiveInt = 1
    """layers on top of each other, over each of the texts"""
    attention: Literal["none", "last", "word_by_word"] = "word_by_word"
    """what looks at the outputs for the first text: nothing, the last output for the second, or each of its words"""
    dropout: Probability = 0.1
    """dropout between layers, of the outputs and before the output"""
    embedding_dropout: Probability = Field(default_factory=lambda given: given["dropout"])
    """dropout of the embeddings; dropout if not given"""
