"""The table of the family: `model.kind = "averaging"` wherever an encoder may stand."""

from __future__ import annotations

from typing import ClassVar, Literal

from heedful.architectures.interface import EncoderArchitecture
from heedful.recipes.config import PositiveInt, Probability


class AveragingConfig(EncoderArchitecture):
    """A map of each embedding, and the mean of a text (Iyyer et al. 2015, deep averaging networks)."""

    built_by: ClassVar = "own_task.averager:averager"

    kind: Literal["averaging"] = "averaging"
    d_model: PositiveInt = 64
    """width of the embeddings and of everything above"""
    layers: PositiveInt = 1
    """maps on top of each other"""
    dropout: Probability = 0.1
    """of the embeddings"""
