"""Parsed files, which no other tests need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from architecture.sources import list_nodes, parse


@pytest.fixture(scope="package", autouse=True)
def _drop_trees() -> Iterator[None]:
    """Drop the parsed trees at the end, because they are millions of objects."""
    yield
    parse.cache_clear()
    list_nodes.cache_clear()
