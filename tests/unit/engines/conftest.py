"""Runs are trained over and over."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """What is checked is called where it has its units."""
