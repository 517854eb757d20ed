"""A trained model as its user sees it: clips in, what happens in them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from heedful.data.clips import Clip, Frames
from heedful.data.corpus import Items
from heedful.data.pictures import Picture
from heedful.inspection.record import Axis
from heedful.models.clips import Clips
from heedful.tasks.caption_writer import CaptionWriter, Shown
from heedful.tasks.video.data import beside
from heedful.values import SOURCE, move


@final
class VideoCaptioner(CaptionWriter[Clip]):
    """A model that says what happens in clips: files, or what was kept of them.

    Args:
        given: see `CaptionWriter`.
        read: what is kept of the clip at a path; raises `DataError` where it cannot be read.
        show: how one sees it.
        size: bytes of all that is decoded to read it.
        memory: bytes of memory that this takes at one time.
        items: type and shape of what is kept of a frame.
        named: see `CaptionWriter`.
    """

    seen: ClassVar = "clip"
    view: ClassVar = "frames"

    def __init__(
        self,
        *given: Any,
        read: Callable[[Path], Clip],
        show: Callable[[Path], Clip],
        size: Callable[[Path], int],
        memory: Callable[[Path], int],
        items: Items,
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        self.read = read
        self.show = show
        self.size = size
        self.memory = memory
        self.items = items

    def see(self, shown: Shown) -> Clip:
        """Its frames, or what others made of them."""
        return shown if isinstance(shown, Clip) else self.read(Path(shown))

    def source(self, kept: Sequence[Clip]) -> Clips:
        """Side by side."""
        return move(beside(kept), self.device)

    def axis(self, shown: Shown, kept: Clip) -> Axis:
        """Its frames, as one sees them where there are pictures."""
        return Axis.frames(SOURCE, len(kept.frames), pictures=self._pictures(shown, kept))

    def photograph(self, shown: Shown) -> Picture | None:
        """The frames side by side."""
        pictures = self._pictures(shown, self.see(shown))
        return None if pictures is None else np.concatenate(list(pictures), 1)

    def _pictures(self, shown: Shown, kept: Clip) -> Frames | None:
        clip = kept if isinstance(shown, Clip) else self.show(Path(shown))
        return clip.frames if clip.frames.dtype == np.uint8 else None
