"""From the tables of `architectures.glimpses` to models."""

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
from heedful.blocks.linear import xavier_linear
from heedful.blocks.recurrent import LSTM, Cell, Rectified
from heedful.blocks.retina import Retina
from heedful.catalogue import find
from heedful.errors import RecipeError
from heedful.models.glimpses import GlimpseClassifier, GlimpseNetwork, LearnedPolicy, Policy, RandomPolicy
from heedful.models.picture_classifier import PictureClassifier, WholePicture

Picture = tuple[int, int, int]
"""Channels, height and width."""
_CELLS: Final[Mapping[str, type[Cell]]] = {"rectified": Rectified, "lstm": LSTM}


def build_picture_classifier(config: PictureArchitecture, *, picture: Picture, classes: int) -> PictureClassifier:
    """A freshly initialised model of any family.

    Args:
        config: its architecture.
        picture: channels, height and width of what is looked at.
        classes: that there are.
    """
    build = find(config.built_by, about=f"model.kind = {config.kind!r}")
    model: PictureClassifier = build(config, picture=picture, classes=classes)
    return model


def glimpses(config: GlimpsesConfig, *, picture: Picture, classes: int) -> GlimpseClassifier:
    """Of pictures of any height and width."""
    retina = Retina(config.patch, config.scales)
    network = GlimpseNetwork(retina, channels=picture[0], d_glimpse=config.d_glimpse, d_output=config.d_model)
    learned = config.policy == "learned"
    policy: Policy = LearnedPolicy(config.d_model, config.spread) if learned else RandomPolicy()
    return GlimpseClassifier(network, _CELLS[config.cell](config.d_model, config.d_model), policy, classes=classes)


def convolutional(config: WholePictureConvolutionConfig, *, picture: Picture, classes: int) -> WholePicture:
    """Filters, a layer and the output; `RecipeError` where a filter is larger than the picture."""
    channels, *sides = picture
    if config.width > min(sides):
        raise RecipeError(f"model.width = {config.width}: a filter must fit into a picture of {sides[0]} x {sides[1]}")
    places = [(side - config.width) // config.stride + 1 for side in sides]
    return WholePicture(
        [
            nn.Conv2d(channels, config.filters, config.width, config.stride),
            nn.ReLU(),
            nn.Flatten(),
            xavier_linear(config.filters * places[0] * places[1], config.d_model),
            nn.ReLU(),
            Dropout(config.dropout),
            xavier_linear(config.d_model, classes),
        ]
    )


def feed_forward(config: WholePictureFeedForwardConfig, *, picture: Picture, classes: int) -> WholePicture:
    """Layers and the output."""
    channels, height, width = picture
    widths = [channels * height * width, *[config.d_model] * config.layers]
    hidden = [
        layer
        for below, above in pairwise(widths)
        for layer in (xavier_linear(below, above), nn.ReLU(), Dropout(config.dropout))
    ]
    return WholePicture([nn.Flatten(), *hidden, xavier_linear(config.d_model, classes)])
