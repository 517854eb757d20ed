"""Config of convolutional sequence-to-sequence models."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from heedful.architectures.attention import ScoredConfig, ScoreName, WeightsName, default_weights
from heedful.architectures.interface import TiedArchitecture
from heedful.recipes.config import LengthLimit, PositiveInt, Probability


class ConvolutionalConfig(ScoredConfig, TiedArchitecture):
    """Convolutional sequence to sequence learning (Gehring et al. 2017); the paper ties no tables.

    `layers` is accepted too and stands for both `encoder_layers` and `decoder_layers`.
    """

    built_by: ClassVar = "heedful.architectures.build_convolutional:build_convolutional_model"

    kind: Literal["convolutional"] = "convolutional"
    d_model: PositiveInt = 256
    """width of the embeddings and of what attention compares"""
    d_hidden: PositiveInt = Field(default_factory=lambda given: given["d_model"])
    """width of everything between the convolutions; d_model if not given"""
    kernel_width: PositiveInt = 3
    """tokens in a window; odd, so that the encoder's windows have a centre"""
    encoder_layers: PositiveInt = 4
    """layers of the encoder"""
    decoder_layers: PositiveInt = 3
    """layers of the decoder; each attends to the source"""
    dilation: PositiveInt = 1
    """factor by which the distance between the tokens of a window grows with each layer; 2 as in ByteNet"""
    dilation_cycle: PositiveInt = 5
    """number of layers after which that distance starts again at 1"""
    score: ScoreName = "dot"
    """how a decoder layer compares a token with a memory slot"""
    weights: WeightsName = Field(default_factory=default_weights)
    """how scores become weights; softmax if not given, and proportional, p / sum(p), for the score exp_dot"""
    dropout: Probability = 0.2
    """dropout of each convolution's input and of the decoder's output"""
    embedding_dropout: Probability = Field(default_factory=lambda given: given["dropout"])
    """dropout of the embeddings with their positions; dropout if not given"""
    positions_length: PositiveInt = 512
    """number of learned positions; must exceed data.max_length"""
    weight_norm: bool = True
    """learn the length of each weight vector separately from its direction (Salimans and Kingma 2016)"""
    output_bias: bool = True
    """add a learned bias to the logits"""

    @field_validator("kernel_width")
    @classmethod
    def _require_odd_width(cls, kernel_width: int) -> int:
        """Raise `ValueError` if the kernel width is even."""
        if kernel_width % 2 == 0:
            raise ValueError("must be odd, so that the encoder's windows have a middle")
        return kernel_width

    @property
    def length_limit(self) -> LengthLimit:
        """Maximum number of positions: the number of learned ones."""
        return LengthLimit("model.positions_length", self.positions_length)
