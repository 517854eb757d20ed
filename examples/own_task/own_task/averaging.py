"""The recipe table of the architecture: `model.kind = "averaging"` for any encoder."""

from __future__ import annotations

from typing import ClassVar, Literal

from heedful.architectures.interface import EncoderArchitecture
from heedful.recipes.config import PositiveInt, Probability


class AveragingConfig(EncoderArchitecture):
    """Linear layers on each embedding, and the mean over a text (Iyyer et al. 2015, deep averaging networks)."""

    built_by: ClassVar = "own_task.averaging_encoder:build_averaging_encoder"

    kind: Literal["averaging"] = "averaging"
    d_model: PositiveInt = 64
    """width of the embeddings and of all layers"""
    layers: PositiveInt = 1
    """number of layers"""
    dropout: Probability = 0.1
    """dropout of the embeddings"""
