"""Tests check shapes at run time; this disables the checks where other tests check the same calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import config


@contextmanager
def disable_shape_checks() -> Iterator[None]:
    """Disable the checks of shapes during the block; with small models they take two thirds of the time."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)
