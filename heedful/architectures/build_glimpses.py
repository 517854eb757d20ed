"""Build image classifiers from configs of `architectures.glimpses`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from torch import nn

from heedful.architectures.glimpses import (
    GlimpsesConfig,
    PictureArchitecture,
    WholePictureConvolutionConfig,
    WholePictureFeedForwardConfig,
)
from heedful.attention.dropout import Dropout
from heedful.blocks.linear import build_xavier_linear
from heedful.blocks.recurrent import LSTM, RecurrentCell, ReLUCell
from heedful.blocks.retina import Retina
from heedful.errors import RecipeError
from heedful.models.glimpses import GlimpseClassifier, GlimpseNetwork, GlimpsePolicy, LearnedPolicy, RandomPolicy
from heedful.models.picture_classifier import PictureClassifier, WholePictureClassifier
from heedful.registry import load_object

PictureShape = tuple[int, int, int]
"""Channels, height and width."""
_CELLS: Final[Mapping[str, type[RecurrentCell]]] = {"rectified": ReLUCell, "lstm": LSTM}


def build_picture_classifier(config: PictureArchitecture, *, picture: PictureShape, classes: int) -> PictureClassifier:
    """Build a newly initialised image classifier of any family.

    Args:
        config: its architecture.
        picture: channels, height and width of the images.
        classes: number of classes.
    """
    build = load_object(config.built_by, context=f"model.kind = {config.kind!r}")
    model: PictureClassifier = build(config, picture=picture, classes=classes)
    return model


def build_glimpse_classifier(config: GlimpsesConfig, *, picture: PictureShape, classes: int) -> GlimpseClassifier:
    """Build a glimpse classifier, for pictures of any height and width."""
    retina = Retina(config.patch, config.scales)
    network = GlimpseNetwork(retina, channels=picture[0], d_glimpse=config.d_glimpse, d_output=config.d_model)
    is_learned = config.policy == "learned"
    policy: GlimpsePolicy = LearnedPolicy(config.d_model, config.spread) if is_learned else RandomPolicy()
    return GlimpseClassifier(network, _CELLS[config.cell](config.d_model, config.d_model), policy, classes=classes)


def build_convolutional_classifier(
    config: WholePictureConvolutionConfig, *, picture: PictureShape, classes: int
) -> WholePictureClassifier:
    """Build a convolutional classifier of whole pictures; raise `RecipeError` if a filter is larger than the
    picture.
    """
    channels, *sides = picture
    if config.width > min(sides):
        raise RecipeError(f"model.width = {config.width}: a filter must fit into a picture of {sides[0]} x {sides[1]}")
    output_sizes = [(side - config.width) // config.stride + 1 for side in sides]
    return WholePictureClassifier(
        [
            nn.Conv2d(channels, config.filters, config.width, config.stride),
            nn.ReLU(),
            nn.Flatten(),
            build_xavier_linear(config.filters * output_sizes[0] * output_sizes[1], config.d_model),
            nn.ReLU(),
            Dropout(config.dropout),
            build_xavier_linear(config.d_model, classes),
        ]
    )


def build_feed_forward_classifier(
    config: WholePictureFeedForwardConfig, *, picture: PictureShape, classes: int
) -> WholePictureClassifier:
    """Build a fully connected classifier of whole pictures."""
    channels, height, width = picture
    widths = [channels * height * width, *[config.d_model] * config.layers]
    hidden = [
        layer
        for d_input, d_output in pairwise(widths)
        for layer in (build_xavier_linear(d_input, d_output), nn.ReLU(), Dropout(config.dropout))
    ]
    return WholePictureClassifier([nn.Flatten(), *hidden, build_xavier_linear(config.d_model, classes)])
