"""Tests that train models for a longer time."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _disable_shape_checks(unchecked: None) -> None:
    """Disable the checks of shapes, because training repeats the same calls."""
