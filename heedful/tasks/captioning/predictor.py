"""The captioning predictor: pictures in, captions out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from heedful.data.pictures import Picture, SquareResize, read_picture
from heedful.inspection.record import MapAxis
from heedful.tasks.base_captioner import BaseCaptioner, CaptionInput
from heedful.tasks.picture_features import PictureFeatures
from heedful.tensors import SOURCE, GridLayout


class Captioner(BaseCaptioner[np.ndarray]):
    """Captioning predictor with its picture preprocessing, for picture files or RGB arrays [H, W, 3].

    Args:
        args: see `BaseCaptioner`.
        picture_features: converts a picture into the encoder's input.
        framing: crops or scales pictures to squares.
        kwargs: see `BaseCaptioner`.
    """

    input_noun: ClassVar = "picture"
    figure_view: ClassVar = "regions"

    def __init__(self, *args: Any, picture_features: PictureFeatures, framing: SquareResize, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.picture_features = picture_features
        self.framing = framing

    def extract_features(self, input_value: CaptionInput) -> Shaped[np.ndarray, ...]:
        """Load a picture and return its encoder input."""
        return self.picture_features(self.render_picture(input_value))

    def render_picture(self, input_value: CaptionInput) -> Picture:
        """Return the square picture that the model sees."""
        return self.framing(read_picture(Path(input_value)) if isinstance(input_value, str | Path) else input_value)

    def build_source(self, features: Sequence[Shaped[np.ndarray, ...]]) -> Tensor:
        """Stack encoder inputs into a batch on the model's device."""
        return torch.from_numpy(np.stack(features)).to(self.device)

    def build_axis(self, input_value: CaptionInput, features: Shaped[np.ndarray, ...]) -> MapAxis:
        """Return the grid axis of a picture's regions, with the picture."""
        with torch.inference_mode():
            shape = self.model.encoder(self.build_source([features])).layout
        assert isinstance(shape, GridLayout)
        return MapAxis.from_grid(
            SOURCE, rows=shape.rows, columns=shape.columns, pictures=self.render_picture(input_value)[None]
        )
