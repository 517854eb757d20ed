"""Models that tell classes of pictures, as data: glimpse after glimpse, or all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from heedful.architectures.interface import one_of
from heedful.recipes.recipe import Architecture
from heedful.recipes.section import Count, Probability


class PictureArchitecture(Architecture):
    """A classifier of pictures; `built_by(config, picture=(channels, height, width), classes=)` builds it.

    It gives a `PictureClassifier`.
    """

    @property
    def draws(self) -> int:
        """Places that are drawn in a look at a picture; none where it is seen whole."""
        return 0


class GlimpsesConfig(PictureArchitecture):
    """A recurrent network that looks at one place after the other (Mnih et al. 2014)."""

    built_by: ClassVar = "heedful.architectures.build_glimpses:glimpses"

    kind: Literal["glimpses"] = "glimpses"
    d_model: Count = 256
    """width of the core, and of a glimpse as a vector"""
    d_glimpse: Count = 128
    """width of what was seen, and of where, before they become one vector"""
    glimpses: Count = 6
    """how often it looks; the first place is drawn from the whole picture"""
    patch: Count = 8
    """numbers along a side of what is seen, at each scale"""
    scales: Count = 1
    """patches around a place, each twice as wide as the one before, and half as sharp"""
    cell: Literal["rectified", "lstm"] = "rectified"
    """the core: relu(W x + U h + b) as in the paper, or an LSTM"""
    policy: Literal["learned", "random"] = "learned"
    """who says where to look: a network that learns by REINFORCE, or chance"""
    spread: Annotated[float, Field(gt=0)] = 0.1
    """standard deviation of places around what the learned policy says, where the picture is 2 wide"""

    @property
    def draws(self) -> int:
        """One place for each glimpse."""
        return self.glimpses


class WholePictureConvolutionConfig(PictureArchitecture):
    """Filters over the whole picture, then a layer: the paper's convolutional network."""

    built_by: ClassVar = "heedful.architectures.build_glimpses:convolutional"

    kind: Literal["convolutional"] = "convolutional"
    d_model: Count = 256
    """width of the layer above the filters"""
    filters: Count = 8
    """how many there are"""
    width: Count = 10
    """pixels along a side of a filter"""
    stride: Count = 5
    """pixels from a filter's place to the next one"""
    dropout: Probability = 0.0
    """of what the output reads"""


class WholePictureFeedForwardConfig(PictureArchitecture):
    """Fully connected layers over all pixels."""

    built_by: ClassVar = "heedful.architectures.build_glimpses:feed_forward"

    kind: Literal["feed_forward"] = "feed_forward"
    d_model: Count = 256
    """width of each layer"""
    layers: Count = 2
    """layers below the output"""
    dropout: Probability = 0.0
    """of what each layer gives"""


if TYPE_CHECKING:
    PictureModelConfig = PictureArchitecture
else:
    PictureModelConfig = one_of(
        PictureArchitecture, GlimpsesConfig, WholePictureConvolutionConfig, WholePictureFeedForwardConfig
    )
