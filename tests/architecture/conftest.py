"""Trees of files, which no other tests need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from architecture.sources import parse, walk


@pytest.fixture(scope="package", autouse=True)
def _trees() -> Iterator[None]:
    """Forget them in the end: they are millions of objects."""
    yield
    parse.cache_clear()
    walk.cache_clear()
