"""Models that tell classes of pictures, as data: glimpse after glimpse, or all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from heedful.architectures.interface import union_of_families
from heedful.recipes.config import PositiveInt, Probability
from heedful.recipes.recipe import ArchitectureConfig


class PictureArchitecture(ArchitectureConfig):
    """A classifier of pictures; `built_by(config, picture=(channels, height, width), classes=)` builds it.

    It gives a `PictureClassifier`.
    """

    @property
    def num_glimpses(self) -> int:
        """Places that are drawn in a look at a picture; none where it is seen whole."""
        return 0


class GlimpsesConfig(PictureArchitecture):
    """A recurrent network that looks at one place after the other (Mnih et al. 2014)."""

    built_by: ClassVar = "heedful.architectures.build_glimpses:build_glimpse_classifier"

    kind: Literal["glimpses"] = "glimpses"
    d_model: PositiveInt = 256
    """width of the core, and of a glimpse as a vector"""
    d_glimpse: PositiveInt = 128
    """width of what was seen, and of where, before they become one vector"""
    glimpses: PositiveInt = 6
    """how often it looks; the first place is drawn from the whole picture"""
    patch: PositiveInt = 8
    """numbers along a side of what is seen, at each scale"""
    scales: PositiveInt = 1
    """patches around a place, each twice as wide as the one before, and half as sharp"""
    cell: Literal["rectified", "lstm"] = "rectified"
    """the core: relu(W x + U h + b) as in the paper, or an LSTM"""
    policy: Literal["learned", "random"] = "learned"
    """who says where to look: a network that learns by REINFORCE, or chance"""
    spread: Annotated[float, Field(gt=0)] = 0.1
    """standard deviation of places around what the learned policy says, where the picture is 2 wide"""

    @property
    def num_glimpses(self) -> int:
        """One place for each glimpse."""
        return self.glimpses


class WholePictureConvolutionConfig(PictureArchitecture):
    """Filters over the whole picture, then a layer: the paper's convolutional network."""

    built_by: ClassVar = "heedful.architectures.build_glimpses:build_convolutional_classifier"

    kind: Literal["convolutional"] = "convolutional"
    d_model: PositiveInt = 256
    """width of the layer above the filters"""
    filters: PositiveInt = 8
    """how many there are"""
    width: PositiveInt = 10
    """pixels along a side of a filter"""
    stride: PositiveInt = 5
    """pixels from a filter's place to the next one"""
    dropout: Probability = 0.0
    """of what the output reads"""


class WholePictureFeedForwardConfig(PictureArchitecture):
    """Fully connected layers over all pixels."""

    built_by: ClassVar = "heedful.architectures.build_glimpses:build_feed_forward_classifier"

    kind: Literal["feed_forward"] = "feed_forward"
    d_model: PositiveInt = 256
    """width of each layer"""
    layers: PositiveInt = 2
    """layers below the output"""
    dropout: Probability = 0.0
    """of what each layer gives"""


if TYPE_CHECKING:
    PictureModelConfig = PictureArchitecture
else:
    PictureModelConfig = union_of_families(
        PictureArchitecture, GlimpsesConfig, WholePictureConvolutionConfig, WholePictureFeedForwardConfig
    )
