"""Runs are trained over and over."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Runs call what is checked where it has its units, and in the runs that all tests share."""
