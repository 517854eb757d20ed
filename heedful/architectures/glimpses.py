"""Configs of image classifiers: glimpse by glimpse, or the whole image at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from heedful.architectures.interface import union_of_families
from heedful.recipes.config import PositiveInt, Probability
from heedful.recipes.recipe import ArchitectureConfig


class PictureArchitecture(ArchitectureConfig):
    """Abstract: an image classifier; `built_by(config, picture=(channels, height, width), classes=)` builds it.

    It returns a `PictureClassifier`.
    """

    @property
    def num_glimpses(self) -> int:
        """Number of sampled locations per image; 0 if the whole image is read at once."""
        return 0


class GlimpsesConfig(PictureArchitecture):
    """A recurrent network that attends to one location after the other (Mnih et al. 2014)."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_glimpse_classifier"

    kind: Literal["glimpses"] = "glimpses"
    d_model: PositiveInt = 256
    """width of the core, and of an encoded glimpse"""
    d_glimpse: PositiveInt = 128
    """width of the encoded patches, and of the encoded location, before they are combined"""
    glimpses: PositiveInt = 6
    """number of glimpses; the first location is drawn from the whole picture"""
    patch: PositiveInt = 8
    """numbers along a side of a patch, at each scale"""
    scales: PositiveInt = 1
    """patches around a location, each twice as wide as the one before, and half as sharp"""
    cell: Literal["rectified", "lstm"] = "rectified"
    """the core: relu(W x + U h + b) as in the paper, or an LSTM"""
    policy: Literal["learned", "random"] = "learned"
    """how locations are chosen: by a network trained with REINFORCE, or at random"""
    spread: Annotated[float, Field(gt=0)] = 0.1
    """standard deviation of locations around the output of the learned policy, where the picture is 2 wide"""

    @property
    def num_glimpses(self) -> int:
        """One location for each glimpse."""
        return self.glimpses


class WholePictureConvolutionConfig(PictureArchitecture):
    """One convolution over the whole picture, then a layer: the paper's convolutional network."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_convolutional_classifier"

    kind: Literal["convolutional"] = "convolutional"
    d_model: PositiveInt = 256
    """width of the layer above the filters"""
    filters: PositiveInt = 8
    """number of filters"""
    width: PositiveInt = 10
    """pixels along a side of a filter"""
    stride: PositiveInt = 5
    """pixels from one filter position to the next"""
    dropout: Probability = 0.0
    """dropout of the input of the output layer"""


class WholePictureFeedForwardConfig(PictureArchitecture):
    """Fully connected layers over all pixels."""

    built_by: ClassVar = "heedful.architectures.build_vision:build_feed_forward_classifier"

    kind: Literal["feed_forward"] = "feed_forward"
    d_model: PositiveInt = 256
    """width of each layer"""
    layers: PositiveInt = 2
    """layers below the output"""
    dropout: Probability = 0.0
    """dropout of the output of each layer"""


if TYPE_CHECKING:
    PictureModelConfig = PictureArchitecture
else:
    PictureModelConfig = union_of_families(
        PictureArchitecture, GlimpsesConfig, WholePictureConvolutionConfig, WholePictureFeedForwardConfig
    )
