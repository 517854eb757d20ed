"""Old name of `heedful.serving.ray_serve`, which works for one version with a `DeprecationWarning`."""

from __future__ import annotations

import warnings

from heedful.serving.ray_serve import build

__all__ = ["build"]

warnings.warn(
    "heedful.serving.spread is now called heedful.serving.ray_serve; the old name will be removed in the next version",
    DeprecationWarning,
    stacklevel=2,
)
