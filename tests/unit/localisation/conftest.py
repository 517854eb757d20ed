"""Documents of every format, in files."""

from __future__ import annotations

from pathlib import Path

import pytest
from localisation_documents import SAMPLES


@pytest.fixture(params=SAMPLES)
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / request.param
    path.write_text(SAMPLES[request.param], encoding="utf-8")
    return path


@pytest.fixture
def write(tmp_path: Path):
    """Puts text, or bytes, into a file."""

    def put(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put
