"""Data and weights outside the repository, in ../shared/data; tests that need them are skipped if they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "shared/data"


def find_external_data(path: str) -> Path:
    """Return the path of a file or folder; skip the test if it does not exist."""
    if not (DATA / path).exists():
        pytest.skip(f"needs data or weights that are not in {DATA}")
    return DATA / path
