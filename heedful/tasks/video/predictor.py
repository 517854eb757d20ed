"""A trained model as its user sees it: clips in, what happens in them out."""

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
    """A model that says what happens in clips: files, or what was kept of them.

    Args:
        args: see `BaseCaptioner`.
        read_clip: what is kept of the clip at a path; raises `DataError` where it cannot be read.
        read_frames: how one sees it.
        decoded_size: bytes of all that is decoded to read it.
        peak_memory: bytes of memory that this takes at one time.
        array_spec: type and shape of what is kept of a frame.
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
        """Its frames, or what others made of them."""
        return input_value if isinstance(input_value, Clip) else self.read_clip(Path(input_value))

    def build_source(self, features: Sequence[Clip]) -> ClipBatch:
        """Side by side."""
        return move_to_device(batch_clips(features), self.device)

    def build_axis(self, input_value: CaptionInput, features: Clip) -> MapAxis:
        """Its frames, as one sees them where there are pictures."""
        return MapAxis.from_frames(SOURCE, len(features.frames), pictures=self._get_pictures(input_value, features))

    def render_picture(self, input_value: CaptionInput) -> Picture | None:
        """The frames side by side."""
        pictures = self._get_pictures(input_value, self.extract_features(input_value))
        return None if pictures is None else np.concatenate(list(pictures), 1)

    def _get_pictures(self, shown: CaptionInput, kept: Clip) -> Frames | None:
        clip = kept if isinstance(shown, Clip) else self.read_frames(Path(shown))
        return clip.frames if clip.frames.dtype == np.uint8 else None
