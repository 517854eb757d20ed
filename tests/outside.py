"""Data and weights that are not of the repository: they lie beside it, in ../shared/data, or tests do without."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "shared/data"


def outside(path: str) -> Path:
    """A file or folder of them; a test that asks for what is not there is skipped."""
    if not (DATA / path).exists():
        pytest.skip(f"needs data or weights that are not in {DATA}")
    return DATA / path
