"""What is learned for long."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Training calls the same parts with the same shapes again and again."""
