"""A trained captioner as its users see it: pictures in, captions out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from heedful.data.pictures import Framing, Picture, read_picture
from heedful.inspection.record import Axis
from heedful.tasks.caption_writer import CaptionWriter, Shown
from heedful.tasks.sight import Sight
from heedful.values import SOURCE, Grid


class Captioner(CaptionWriter[np.ndarray]):
    """A model with what looks at pictures for it: at files, or at red, green and blue bytes [H, W, 3].

    Args:
        given: see `CaptionWriter`.
        sight: what is kept of a picture.
        framing: how pictures become squares.
        named: see `CaptionWriter`.
    """

    seen: ClassVar = "picture"
    view: ClassVar = "regions"

    def __init__(self, *given: Any, sight: Sight, framing: Framing, **named: Any) -> None:
        super().__init__(*given, **named)
        self.sight = sight
        self.framing = framing

    def see(self, shown: Shown) -> Shaped[np.ndarray, ...]:
        """What is kept of a picture."""
        return self.sight(self.photograph(shown))

    def photograph(self, shown: Shown) -> Picture:
        """The square that the model sees."""
        return self.framing(read_picture(Path(shown)) if isinstance(shown, str | Path) else shown)

    def source(self, kept: Sequence[Shaped[np.ndarray, ...]]) -> Tensor:
        """Side by side."""
        return torch.from_numpy(np.stack(kept)).to(self.device)

    def axis(self, shown: Shown, kept: Shaped[np.ndarray, ...]) -> Axis:
        """The regions of the square."""
        with torch.inference_mode():
            shape = self.model.encoder(self.source([kept])).shape
        assert isinstance(shape, Grid)
        return Axis.grid(SOURCE, rows=shape.rows, columns=shape.columns, pictures=self.photograph(shown)[None])
