"""The video captioning predictor: clips in, captions out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from heedful.data.clips import Clip, Frames
from heedful.data.corpus import ArraySpec
from heedful.data.pictures import Picture
from heedful.inspection.record import MapAxis
from heedful.models.clips import ClipBatch
from heedful.tasks.base_captioner import BaseCaptioner, CaptionInput
from heedful.tasks.video.data import batch_clips
from heedful.tensors import SOURCE, move_to_device


@final
class VideoCaptioner(BaseCaptioner[Clip]):
    """Video captioning predictor, for clip files or `Clip` objects.

    Args:
        args: see `BaseCaptioner`.
        read_clip: returns the encoder's input for the clip at a path; raises `DataError` if it cannot be read.
        read_frames: returns the clip as it is shown to people.
        decoded_size: bytes of the decoded clip.
        peak_memory: bytes of memory that reading takes at most.
        array_spec: type and shape of a frame's encoder input.
        kwargs: see `BaseCaptioner`.
    """

    input_noun: ClassVar = "clip"
    figure_view: ClassVar = "frames"

    def __init__(
        self,
        *args: Any,
        read_clip: Callable[[Path], Clip],
        read_frames: Callable[[Path], Clip],
        decoded_size: Callable[[Path], int],
        peak_memory: Callable[[Path], int],
        array_spec: ArraySpec,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.read_clip = read_clip
        self.read_frames = read_frames
        self.decoded_size = decoded_size
        self.peak_memory = peak_memory
        self.array_spec = array_spec

    def extract_features(self, input_value: CaptionInput) -> Clip:
        """Return the encoder's input for a clip: its frames or their features."""
        return input_value if isinstance(input_value, Clip) else self.read_clip(Path(input_value))

    def build_source(self, features: Sequence[Clip]) -> ClipBatch:
        """Pad and stack clips on the model's device."""
        return move_to_device(batch_clips(features), self.device)

    def build_axis(self, input_value: CaptionInput, features: Clip) -> MapAxis:
        """Return the frame axis of a clip, with pictures if there are any."""
        return MapAxis.from_frames(SOURCE, len(features.frames), pictures=self._get_pictures(input_value, features))

    def render_picture(self, input_value: CaptionInput) -> Picture | None:
        """Return the frames side by side as one picture, or None if there are no pictures."""
        pictures = self._get_pictures(input_value, self.extract_features(input_value))
        return None if pictures is None else np.concatenate(list(pictures), 1)

    def _get_pictures(self, shown: CaptionInput, kept: Clip) -> Frames | None:
        """Return the frames as pictures, or None if only features are known."""
        clip = kept if isinstance(shown, Clip) else self.read_frames(Path(shown))
        return clip.frames if clip.frames.dtype == np.uint8 else None
